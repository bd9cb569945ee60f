// 4-bit weights of AWQ and GPTQ, packed by lathe_pack_weights: every kind of tensors against float64, in plain and
// grouped products, and refusals.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_case.h"
#include "case_limits.h"
#include "device_copies.h"

namespace lathe::conformance {
namespace {

using reference::GroupedWeight;
using testing::HasSubstr;

class FourBits : public BlockScaled {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (!IsSkipped() && is_fallback()) GTEST_SKIP() << "there are no generic kernels for 4-bit weights";
  }
  struct Packed {
    uint32_t layout = 0;
    size_t misalign = 1;
    std::vector<uint8_t> bytes;
  };
  static lathe_matmul_desc product(const GroupedWeight& w, const lathe_scale* scale, int64_t m) {
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = m, desc.n = w.n, desc.k = w.k, desc.batch = w.batch;
    desc.a.dtype = desc.d.dtype = LATHE_F32;
    desc.a.batch_stride = m * w.k;
    desc.d.batch_stride = m * w.n;
    desc.b = w.operand();
    desc.b.scale = scale;
    return desc;
  }
  // Packs the weight and makes `desc` use it.
  void pack(lathe_matmul_desc* desc, Packed* packed) {
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_packed_layout(device(), desc, &packed->layout, &bytes));
    packed->bytes.assign(bytes + packed->misalign, 0xff);
    void* const at = packed->bytes.data() + packed->misalign;
    ASSERT_LATHE_OK(lathe_pack_weights(device(), desc, packed->layout, at, bytes));
    desc->b = LATHE_OPERAND_INIT;
    desc->b.dtype = LATHE_U4_128;
    desc->b.data = at;
    desc->b.packed_layout = packed->layout;
    desc->b.batch_stride = desc->n * desc->k;
  }
  // Packs the weight, multiplies A of `dtype` by it and compares.
  void expect(const GroupedWeight& w, int64_t m, lathe_dtype dtype, size_t misalign) {
    SCOPED_TRACE(absl::StrCat("weight ", static_cast<int>(w.dtype), " a ", static_cast<int>(dtype), " m=", m,
                              " n=", w.n, " k=", w.k, " misalign=", misalign));
    if (leaves_out({m, w.n, w.k})) return;
    const lathe_scale scale = w.scale();
    lathe_matmul_desc desc = product(w, &scale, m);
    Packed packed;
    packed.misalign = misalign;
    pack(&desc, &packed);
    Floats a(dtype, w.batch * m, w.k, &random_), d(LATHE_F32, w.batch * m, w.n, nullptr);
    desc.a = a.operand(m);
    desc.d = d.operand(m);
    DeviceCopies copies(device());
    for (std::vector<uint8_t>* bytes : {&packed.bytes, &a.bytes, &d.bytes}) copies.add(*bytes);
    desc = copies.moved(desc);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
    copies.fetch();
    for (int64_t b = 0; b < w.batch; ++b)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < w.n; ++j)
          ASSERT_TRUE(is_product(d.at(b * m + i, j), w, a, {b, b * m + i, j})) << i << ", " << j;
  }
  struct Place {
    int64_t matrix, row, column;  // of the weight, of A, of the weight
  };
  static testing::AssertionResult is_product(double got, const GroupedWeight& w, const Floats& a,
                                             const Place& at) {
    const Expected e = dot(
        w.k, [&](int64_t k) { return a.at(at.row, k); },
        [&](int64_t k) { return w.at(at.matrix, k, at.column); });
    const bool right = std::isinf(e.value) ? got == e.value : is_near(got, e, w.k, LATHE_F32);
    if (right) return testing::AssertionSuccess();
    return testing::AssertionFailure() << got << ", not " << e.value;
  }
  lathe_dtype any_float() { return static_cast<lathe_dtype>(one_of({LATHE_F32, LATHE_F16, LATHE_BF16})); }
};

TEST_F(FourBits, EveryTensorLayoutAndM) {
  for (const lathe_dtype dtype : {LATHE_U4_AWQ, LATHE_U4_GPTQ, LATHE_U4_GPTQ_V2})
    for (const int64_t m : {1, 2, 5, 16, 17, 100}) {
      const GroupedWeight w(dtype, 128 * one_of({1, 2, 5}), 8 * one_of({1, 3, 17}), one_of({1, 1, 2}),
                            random_.below(4) == 0, &random_);
      expect(w, m, any_float(), static_cast<size_t>(one_of({0, 1})));
    }
}

// K of whole 16 bytes in a column, which GPUs read fastest.
TEST_F(FourBits, AlignedColumns) {
  for (const lathe_dtype a : {LATHE_F32, LATHE_F16, LATHE_BF16})
    for (const int64_t m : {1, 7, 40})
      expect(GroupedWeight(LATHE_U4_GPTQ, 512, 48, 1, false, &random_), m, a, 0);
}

TEST_F(FourBits, SpecialScales) {
  constexpr uint16_t kScales[] = {0x7c00, 0xfc00, 0x7e00,
                                  0x0000, 0x8000, 0x0001};  // infinities, NaN, 0, subnormal
  for (const lathe_dtype a : {LATHE_F32, LATHE_F16, LATHE_BF16})
    for (const int64_t m : {2, 20}) {
      GroupedWeight w(LATHE_U4_AWQ, 512, 64, 1, false, &random_);
      for (uint16_t& scale : w.scales)
        if (random_.below(8) == 0) scale = kScales[random_.below(6)];
      expect(w, m, a, 0);
    }
}

TEST_F(FourBits, Experts) {
  constexpr int64_t kExperts = 3, kM = 19;
  for (const lathe_dtype dtype : {LATHE_F32, LATHE_BF16}) {
    const GroupedWeight w(LATHE_U4_AWQ, 256, 40, kExperts, false, &random_);
    if (leaves_out({kM, w.n, w.k})) continue;
    const lathe_scale scale = w.scale();
    lathe_matmul_desc weight = product(w, &scale, 1);
    Packed packed;
    pack(&weight, &packed);
    Floats a(dtype, kM, w.k, &random_), d(LATHE_F32, kM, w.n, nullptr);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < kM; ++i) ids.push_back(static_cast<int32_t>(random_.below(kExperts)));
    lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
    desc.grouping = LATHE_GROUPING_ROW_IDS;
    desc.m = kM, desc.n = w.n, desc.k = w.k, desc.groups = kExperts;
    desc.routing = ids.data();
    desc.a = a.operand(kM);
    desc.b = weight.b;
    desc.d = d.operand(kM);
    DeviceCopies copies(device());
    for (std::vector<uint8_t>* bytes : {&packed.bytes, &a.bytes, &d.bytes}) copies.add(*bytes);
    copies.add(ids);
    desc = copies.moved(desc);
    ASSERT_LATHE_OK(lathe_grouped_matmul(device(), nullptr, &desc));
    copies.fetch();
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < w.n; ++j)
        ASSERT_TRUE(is_product(d.at(i, j), w, a, {ids[static_cast<size_t>(i)], i, j})) << i << ", " << j;
  }
}

TEST_F(FourBits, RefusesWhatItDoesNotPack) {
  const auto refused = [&](lathe_status status, const char* message, const auto& change) {
    const GroupedWeight w(LATHE_U4_GPTQ, 256, 16, 1, false, &random_);
    lathe_scale scale = w.scale();
    lathe_matmul_desc desc = product(w, &scale, 1);
    std::vector<int32_t> index(256);
    for (int i = 0; i < 256; ++i) index[static_cast<size_t>(i)] = i / 128;
    scale.group_index = index.data();
    std::vector<uint8_t> memory(16 * 256 / 128 * 68);
    uint32_t layout = 0;
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_packed_layout(device(), &desc, &layout, &bytes));
    ASSERT_EQ(bytes, memory.size());
    ASSERT_LATHE_OK(lathe_pack_weights(device(), &desc, layout, memory.data(), bytes));
    change(desc, scale, index);
    EXPECT_EQ(lathe_pack_weights(device(), &desc, layout, memory.data(), bytes), status) << message;
    EXPECT_THAT(lathe_last_error(), HasSubstr(message));
  };
  using Desc = lathe_matmul_desc;
  using Index = std::vector<int32_t>;
  refused(LATHE_UNSUPPORTED, "group_index[3] is 1, not 0: act-order (desc_act) is not supported",
          [](Desc&, lathe_scale&, Index& index) { index[3] = 1; });
  refused(LATHE_UNSUPPORTED, "block_size 128", [](Desc&, lathe_scale& s, Index&) { s.block_size = 64; });
  refused(LATHE_INVALID_ARGUMENT, "k 200 is not a multiple of 128",
          [](Desc& d, lathe_scale&, Index&) { d.k = 200; });
  refused(LATHE_INVALID_ARGUMENT, "n 12 is not a multiple of 8",
          [](Desc& d, lathe_scale&, Index&) { d.n = 12; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale is NULL",
          [](Desc& d, lathe_scale&, Index&) { d.b.scale = nullptr; });
  refused(LATHE_UNSUPPORTED, "dtype bf16 is not f16",
          [](Desc&, lathe_scale& s, Index&) { s.dtype = LATHE_BF16; });
  refused(LATHE_UNSUPPORTED, "ROW_MAJOR",
          [](Desc& d, lathe_scale&, Index&) { d.b.layout = LATHE_COLUMN_MAJOR; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale: spans more than 2^63 - 1 bytes",
          [](Desc&, lathe_scale& s, Index&) { s.leading_dimension = INT64_MAX / 2; });

  // Two experts. Distances that overflow, and scales of experts that share their codes.
  const GroupedWeight experts(LATHE_U4_AWQ, 256, 16, 2, false, &random_);
  lathe_scale of_experts = experts.scale();
  lathe_matmul_desc pair = product(experts, &of_experts, 1);
  std::vector<uint8_t> packed(2 * 16 * 256 / 128 * 68);
  uint32_t pair_layout = 0;
  size_t pair_bytes = 0;
  ASSERT_LATHE_OK(lathe_packed_layout(device(), &pair, &pair_layout, &pair_bytes));
  ASSERT_EQ(pair_bytes, packed.size());
  const auto pack_to = [&](const void* to) {
    return lathe_pack_weights(device(), &pair, pair_layout, const_cast<void*>(to), pair_bytes);
  };
  // Each in memory of its own that holds the packed weight, so that it overlaps nothing else.
  std::vector<uint8_t> scales(pair_bytes), zeros(pair_bytes);
  std::memcpy(scales.data(), of_experts.data, experts.scales.size() * sizeof(uint16_t));
  std::memcpy(zeros.data(), pair.b.zero_point, experts.qzeros.size() * sizeof(uint32_t));
  of_experts.data = scales.data(), pair.b.zero_point = zeros.data();
  EXPECT_LATHE_OK(pack_to(packed.data()));
  EXPECT_EQ(pack_to(of_experts.data), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("packed overlaps the scale of b"));
  EXPECT_EQ(pack_to(pair.b.zero_point), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("packed overlaps the zero point of b"));
  of_experts.batch_stride = INT64_MAX / 2;
  EXPECT_EQ(pack_to(packed.data()), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("b: scale: spans more than 2^63 - 1 bytes"));
  of_experts = experts.scale();
  pair.b.batch_stride = int64_t{1} << 62;
  EXPECT_EQ(pack_to(packed.data()), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr("b: spans more than 2^63 - 1 bytes"));
  pair.b.batch_stride = 0;
  EXPECT_EQ(pack_to(packed.data()), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("must be 0, because all matrices share one b"));

  const GroupedWeight w(LATHE_U4_AWQ, 256, 16, 1, false, &random_);
  const lathe_scale scale = w.scale();
  lathe_matmul_desc desc = product(w, &scale, 1);
  desc.b.scale = nullptr;
  desc.b.zero_point = nullptr;
  float data[256] = {};
  desc.a.data = desc.d.data = data;
  EXPECT_EQ(lathe_matmul(device(), nullptr, &desc), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("only after lathe_pack_weights made u4_128 of it"));
}

}  // namespace
}  // namespace lathe::conformance
