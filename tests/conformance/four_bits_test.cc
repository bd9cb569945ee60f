// 4-bit weights of AWQ and GPTQ, packed by lathe_pack_weights: every kind of tensors against float64, and refusals.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_case.h"

namespace lathe::conformance {
namespace {

using reference::GroupedWeight;
using testing::HasSubstr;

class FourBits : public BlockScaled {
 protected:
  struct Packed {
    uint32_t layout = 0;
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
    packed->bytes.assign(bytes + 1, 0xff);
    void* const at = packed->bytes.data() + 1;
    ASSERT_LATHE_OK(lathe_pack_weights(device(), desc, packed->layout, at, bytes));
    desc->b = LATHE_OPERAND_INIT;
    desc->b.dtype = LATHE_U4_128;
    desc->b.data = at;
    desc->b.packed_layout = packed->layout;
    desc->b.batch_stride = desc->n * desc->k;
  }
};

TEST_F(FourBits, EveryTensorLayoutAndM) {
  for (const lathe_dtype dtype : {LATHE_U4_AWQ, LATHE_U4_GPTQ, LATHE_U4_GPTQ_V2})
    for (const int64_t m : {1, 2, 5, 16, 17, 100}) {
      const GroupedWeight w(dtype, 128 * one_of({1, 2, 5}), 8 * one_of({1, 3, 17}), one_of({1, 1, 2}),
                            random_.below(4) == 0, &random_);
      SCOPED_TRACE(absl::StrCat("dtype ", static_cast<int>(dtype), " m=", m, " n=", w.n, " k=", w.k));
      const lathe_scale scale = w.scale();
      lathe_matmul_desc desc = product(w, &scale, m);
      Packed packed;
      pack(&desc, &packed);
      constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
      Floats a(kFloats[random_.below(3)], w.batch * m, w.k, &random_),
          d(LATHE_F32, w.batch * m, w.n, nullptr);
      desc.a = a.operand(m);
      desc.d = d.operand(m);
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &desc));
      for (int64_t b = 0; b < w.batch; ++b)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < w.n; ++j) {
            const Expected e = dot(
                w.k, [&](int64_t k) { return a.at(b * m + i, k); }, [&](int64_t k) { return w.at(b, k, j); });
            ASSERT_TRUE(is_near(d.at(b * m + i, j), e, w.k, LATHE_F32))
                << d.at(b * m + i, j) << ", not " << e.value;
          }
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
