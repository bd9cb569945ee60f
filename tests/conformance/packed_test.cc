// Packed weights through the public API: the layout of core/packed.h, edges of every size, layouts, epilogues, splits,
// every candidate, determinism, and what is refused. Devices without packed weights skip with the library's message;
// the CPU must have them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_argmax_case.h"
#include "matmul_case.h"
#include "packed_request.h"
#include "tests/warm_weight.h"

namespace lathe::conformance {
namespace {

class Packed : public ConformanceTest, public testing::WithParamInterface<lathe_dtype> {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    if (is_fallback()) GTEST_SKIP() << "no generic kernel reads packed weights";
    const lathe_matmul_desc desc = plain(64, 64, 64);
    uint32_t layout = 0;
    size_t bytes = 0;
    const lathe_status status = lathe_packed_layout(device(), &desc, &layout, &bytes);
    if (status == LATHE_UNSUPPORTED && !is_cpu()) GTEST_SKIP() << lathe_last_error();
    ASSERT_EQ(status, LATHE_OK) << lathe_last_error();
  }
  // The dtype of D: for bytes the exact sums.
  static lathe_dtype sum_of(lathe_dtype in) { return in == LATHE_I8 ? LATHE_I32 : in; }
  static lathe_matmul_desc plain(int64_t m, int64_t n, int64_t k) {
    lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
    desc.m = m, desc.n = n, desc.k = k;
    desc.a.dtype = desc.b.dtype = GetParam();
    desc.d.dtype = sum_of(GetParam());
    desc.b.layout = LATHE_COLUMN_MAJOR;
    return desc;
  }
  static MatmulCase make(int64_t m, int64_t n, int64_t k) {
    MatmulCase c;
    c.m = capped(m), c.n = capped(n), c.k = capped(k);
    c.in = GetParam();
    c.out = sum_of(c.in);
    c.trans_b = true;
    return c;
  }
  void expect(const MatmulCase& c) {
    if (failures_ >= 8) return;
    PackedRequest request(device(), c, &random_);
    const testing::AssertionResult result = request.run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  Random random_ = random_stream(23);

  // Packs a K by N weight whose element i has the value i % 100, and returns its layout.
  void pack_numbered(int64_t k, int64_t n, bool trans_b, uint32_t* layout, std::vector<uint8_t>* packed) {
    lathe_matmul_desc desc = plain(1, n, k);
    desc.b.layout = trans_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
    size_t bytes = 0;
    ASSERT_LATHE_OK(lathe_packed_layout(device(), &desc, layout, &bytes));
    const size_t size = bytes_of(GetParam());
    std::vector<uint8_t> b(static_cast<size_t>(k * n) * size);
    for (int64_t i = 0; i < k * n; ++i)
      store(GetParam(), static_cast<double>(i % 100), b.data() + i * static_cast<int64_t>(size));
    desc.b.data = b.data();
    packed->assign(bytes, 0xEE);
    ASSERT_LATHE_OK(lathe_pack_weights(device(), &desc, *layout, packed->data(), bytes));
  }

 private:
  int failures_ = 0;
};

class PackedElsewhere : public ConformanceTest {};

TEST_P(Packed, LaidOutInPanelsOf16) {
  const int64_t k = 5, n = 45, word = GetParam() == LATHE_I8 ? 4 : GetParam() == LATHE_BF16 ? 2 : 1;
  const int64_t depth = (k + word - 1) / word * word;
  for (bool trans_b : {false, true}) {
    uint32_t layout = 0;
    std::vector<uint8_t> packed;
    ASSERT_NO_FATAL_FAILURE(pack_numbered(k, n, trans_b, &layout, &packed));
    EXPECT_EQ(layout >> 16, 1u);
    ASSERT_EQ(packed.size(), 48 * depth * bytes_of(GetParam()));
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t j = 0; j < 48; ++j) {
        const int64_t at = (j / 16 * depth + i / word * word) * 16 + j % 16 * word + i % word;
        const int64_t element = trans_b ? j * k + i : i * n + j;
        const double wanted = j >= n || i >= k ? 0 : static_cast<double>(element % 100);
        ASSERT_EQ(load(GetParam(), packed.data() + at * static_cast<int64_t>(bytes_of(GetParam()))), wanted)
            << i << ", " << j;
      }
  }
}

// With few columns, the columns are stored one after the other. Each occupies whole cache lines, but never a multiple
// of 1 KiB.
TEST_P(Packed, LaidOutByColumnIfPanelsWouldBeMostlyPadding) {
  const int64_t n = 17;
  for (int64_t k : {5, 1024}) {
    for (bool trans_b : {false, true}) {
      uint32_t layout = 0;
      std::vector<uint8_t> packed;
      ASSERT_NO_FATAL_FAILURE(pack_numbered(k, n, trans_b, &layout, &packed));
      const size_t size = bytes_of(GetParam());
      const int64_t pitch = k == 5 ? static_cast<int64_t>(64 / size) : k + static_cast<int64_t>(64 / size);
      ASSERT_EQ(packed.size(), static_cast<size_t>(n * pitch) * size);
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < pitch; ++i) {
          const int64_t element = trans_b ? j * k + i : i * n + j;
          const double wanted = i >= k ? 0 : static_cast<double>(element % 100);
          ASSERT_EQ(load(GetParam(), packed.data() + (j * pitch + i) * static_cast<int64_t>(size)), wanted)
              << i << ", " << j;
        }
    }
  }
}

TEST_P(Packed, MultipliesPartialTilesOfEverySize) {
  const int64_t ms[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 29, 32, 33, 64, 65, 131, 300, 517};
  const int64_t ns[] = {1, 15, 16, 17, 31, 48, 97, 259}, ks[] = {1, 3, 16, 17, 63, 256, 257, 1031};
  for (int64_t m : ms) {
    const int64_t few = m > 64 ? 3 : 8;
    for (int64_t i = 0; i < few; ++i) {
      MatmulCase c = make(m, ns[random_.below(8)], ks[random_.below(8)]);
      c.trans_a = random_.below(4) == 0;
      c.trans_b = random_.below(2) == 0;
      c.padding = random_.below(2) * 3;
      c.misalign = static_cast<size_t>(random_.below(3));
      c.flush = random_.below(2) ? Flush::kEnd : Flush::kStart;
      c.values = random_.below(3) == 0   ? Values::kSpecial
                 : random_.below(2) == 0 ? Values::kSmallIntegers
                                         : Values::kNormal;
      expect(c);
    }
  }
}

TEST_P(Packed, SupportsBatchesEpiloguesAndEmptySizes) {
  for (bool broadcast : {false, true}) {
    MatmulCase c = make(9, 50, 131);
    c.batch = 3;
    c.broadcast_b = broadcast;
    expect(c);
  }
  MatmulCase whole = make(21, 70, 90);
  if (GetParam() == LATHE_I8) whole.out = LATHE_F32, whole.scale_a = 1, whole.scale_b = 2;
  whole.alpha = 0.5f, whole.beta = -1.5f;
  whole.c_mode = CMode::kInPlace;
  whole.bias = LATHE_F32;
  whole.activation = LATHE_ACTIVATION_GELU;
  whole.residual_mode = ResidualMode::kSeparate;
  expect(whole);
  for (const auto& sizes : {std::vector<int64_t>{0, 8, 8}, {8, 0, 8}, {8, 8, 0}})
    expect(make(sizes[0], sizes[1], sizes[2]));
}

TEST_P(Packed, SupportsSplitK) {
  for (int32_t splits : {2, 3, 7})
    for (int64_t m : {1, 6, 40}) {
      MatmulCase c = make(m, 80, 2011);
      c.split_k = splits;
      expect(c);
    }
}

TEST_P(Packed, MultipliesWithCandidatesFromBestToWorst) {
  for (int64_t m : {1, 6, 16, 27, 50, 600}) {
    const MatmulCase c = make(m, m > 64 ? 77 : 333, m > 64 ? 301 : 1100);
    PackedRequest request(device(), c, &random_);
    ASSERT_EQ(request.status(), LATHE_OK) << lathe_last_error();
    const auto legal = legal_candidates(device(), *request.request().desc());
    ASSERT_FALSE(legal.empty());
    for (const auto& candidate : legal) {
      const std::string kernel = candidate["config"]["kernel"];
      EXPECT_TRUE(kernel == "packed" || (kernel == "direct_packed" && m == 600)) << kernel;
    }
    // About twelve candidates, evenly spread from the best to the worst.
    const size_t step = std::max<size_t>(1, legal.size() / 12);
    for (size_t rank = 1; rank <= legal.size(); rank += step) {
      request.request().set_tuning(0, static_cast<int32_t>(rank));
      EXPECT_TRUE(request.run(device())) << "candidate " << rank;
    }
  }
}

TEST_P(Packed, ComparesTheProducts) {
  if (GetParam() == LATHE_I8) GTEST_SKIP() << "matmul_argmax does not multiply bytes";
  for (int64_t m : {1, 3, 8, 16, 40, 130}) {
    MatmulArgmaxCase c;
    c.m = capped(m), c.n = m % 2 ? 1027 : 72, c.k = m % 4 ? 301 : 64;
    c.in = GetParam();
    c.logits = m % 2 ? c.in : LATHE_F32;
    c.bias = m % 3 ? LATHE_F32 : LATHE_DTYPE_NONE;
    c.trans_b = random_.below(2) == 0;
    c.wants_values = true;
    c.padding = random_.below(2) * 3;
    c.misalign = static_cast<size_t>(random_.below(3));
    c.determinism = m == 8 ? LATHE_DETERMINISM_BATCH_INVARIANT : LATHE_DETERMINISM_FAST;
    c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
    MatmulArgmaxRequest request(c, &random_);
    ASSERT_LATHE_OK(request.pack(device()));
    const size_t legal = legal_candidates(device(), *request.desc()).size();
    for (size_t rank = 1; rank <= legal; rank += 1 + legal / 4) {
      request.set_candidate(static_cast<int32_t>(rank));
      EXPECT_TRUE(request.run(device())) << "candidate " << rank;
    }
  }
}

// 16-bit weights by f32 rows, and few columns, which are packed column by column.
TEST_F(PackedElsewhere, ComparesWidenedWeightsAndFewColumns) {
  SKIP_UNLESS_CPU("only the CPU has packed weights");
  if (is_fallback()) GTEST_SKIP() << "no generic kernel reads packed weights";
  Random random = random_stream(29);
  for (lathe_dtype b : {LATHE_F16, LATHE_BF16})
    for (int64_t n : {5, 96})
      for (int64_t m : {1, 20}) {
        MatmulArgmaxCase c;
        c.m = m, c.n = n, c.k = 130;
        c.b = b;
        c.math = b == LATHE_BF16 && m > 1 ? LATHE_MATH_BF16 : LATHE_MATH_STRICT;
        c.wants_values = true;
        MatmulArgmaxRequest request(c, &random);
        ASSERT_LATHE_OK(request.pack(device()));
        EXPECT_TRUE(request.run(device()));
      }
}

TEST_P(Packed, RowsHaveTheSameBitsForEveryM) {
  MatmulCase c = make(70, 61, 777);
  c.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  PackedRequest packed(device(), c, &random_);
  ASSERT_TRUE(packed.run(device()));
  EXPECT_TRUE(is_batch_invariant(device(), &packed.request()));
}

TEST_P(Packed, RefusesOtherIdsAndSizes) {
  lathe_matmul_desc desc = plain(4, 40, 8);
  uint32_t layout = 0;
  size_t bytes = 0;
  ASSERT_LATHE_OK(lathe_packed_layout(device(), &desc, &layout, &bytes));
  std::vector<float> memory(4096);
  const auto message = [](lathe_status status, lathe_status expected) {
    EXPECT_EQ(status, expected) << lathe_last_error();
    return std::string(lathe_last_error());
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  desc.b.data = memory.data();
  std::string text = message(lathe_pack_weights(device(), &desc, layout, memory.data() + 2048, bytes - 1),
                             LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(text, "n=40") && has(text, "bytes")) << text;
  text =
      message(lathe_pack_weights(device(), &desc, layout, memory.data() + 8, bytes), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(text, "overlaps")) << text;
  text = message(lathe_pack_weights(device(), &desc, layout + (1u << 16), memory.data() + 2048, bytes),
                 LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(has(text, "version 2")) << text;

  desc.a.data = memory.data();
  desc.d.data = memory.data() + 2048;
  desc.b.data = memory.data() + 1024;
  const auto run = [&](uint32_t id) {
    desc.b.packed_layout = id;
    return message(lathe_matmul(device(), nullptr, &desc), LATHE_INVALID_ARGUMENT);
  };
  for (uint32_t version : {0u, 2u, 9u}) {
    text = run((layout & 0xFFFF) | version << 16 | (version == 0 ? 5 : 0));
    EXPECT_TRUE(has(text, "m=4 n=40 k=8") && has(text, "version")) << text;
  }
  text = run(layout ^ 3u);  // the layout of fewer columns
  EXPECT_TRUE(has(text, "is not the layout for n 40; lathe_packed_layout returns it")) << text;
  text = run(layout ^ 0x0300);  // the layout of another dtype
  EXPECT_TRUE(has(text, "not a layout of")) << text;
  desc.b.leading_dimension = 8;
  text = run(layout);
  EXPECT_TRUE(has(text, "leading_dimension 8")) << text;
  desc.b.leading_dimension = 0;
  desc.batch = 2;
  desc.b.batch_stride = 16;
  text = run(layout);
  EXPECT_TRUE(has(text, "batch_stride 16 of a packed B is less than its 384 elements")) << text;
  desc.batch = 1;
  desc.b.batch_stride = 0;
  const lathe_dtype dtype = desc.b.dtype;
  desc.d.dtype = LATHE_F32;
  desc.a.dtype = desc.b.dtype = LATHE_F8_E4M3;  // the id that weights of this dtype would have
  text = run((layout & ~0xFF00u) | uint32_t{LATHE_F8_E4M3} << 8);
  EXPECT_TRUE(has(text, "not a layout of f8e4m3")) << text;
  desc.a.dtype = desc.b.dtype = dtype;
  desc.d.dtype = sum_of(dtype);
  desc.a.packed_layout = layout;
  message(lathe_matmul(device(), nullptr, &desc), LATHE_UNSUPPORTED);
}

TEST_F(PackedElsewhere, RefusesZeroPoint) {
  SKIP_UNLESS_CPU("only the CPU has packed weights");
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = desc.n = desc.k = 16;
  desc.a.dtype = desc.b.dtype = LATHE_I8;
  desc.d.dtype = LATHE_I32;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  const int32_t zero = 3;
  desc.a.zero_point = &zero;
  uint32_t layout = 0;
  size_t bytes = 0;
  EXPECT_EQ(lathe_packed_layout(device(), &desc, &layout, &bytes), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("zero point"), std::string::npos) << lathe_last_error();
}

// A warm-up compiles the packed classes only, and later requests find them.
TEST_P(Packed, WarmsEveryM) {
  lathe_matmul_desc desc = plain(1, 48, 96);
  size_t bytes = 0;
  ASSERT_LATHE_OK(lathe_packed_layout(device(), &desc, &desc.b.packed_layout, &bytes));
  OpenDevice fresh(memory_only(1));
  ASSERT_EQ(fresh.status(), LATHE_OK) << lathe_last_error();
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_LATHE_OK(warm_weight(fresh.get(), desc, 40, &report));
  EXPECT_EQ(report.compiled, 18u);  // 1..16, 17..32, 33..64
  std::vector<float> a(48 * 96), b(48 * 96), d(48 * 48);
  desc.a.data = a.data(), desc.b.data = b.data(), desc.d.data = d.data();
  desc.miss_policy = LATHE_MISS_ERROR;
  for (int64_t m : {1, 16, 20, 40}) {
    desc.m = m;
    EXPECT_LATHE_OK(lathe_matmul(fresh.get(), nullptr, &desc));
  }
  desc.b.packed_layout = 0;
  EXPECT_EQ(lathe_matmul(fresh.get(), nullptr, &desc), LATHE_MISS);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Packed, testing::Values(LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
}  // namespace lathe::conformance
