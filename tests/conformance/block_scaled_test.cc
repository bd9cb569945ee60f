// Operands with block scales (fp8, MXFP8, MXFP4, NVFP4): every format, layout of scales and kind of A against float64,
// special scales, strides, and requests that are refused.

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "block_scaled_product.h"
#include "candidates.h"
#include "guarded_memory.h"

namespace lathe::conformance {
namespace {

using reference::ScaledElements;
using reference::ScaledMatrix;
using reference::ScaledSpec;
using testing::HasSubstr;

class ScaledProducts : public BlockScaled {
 protected:
  void expect(const ScaledCase& c) {
    if (leaves_out({c.m, c.b.lines, c.b.k})) return;
    SCOPED_TRACE(c.text());
    ScaledProduct product(c, &random_);
    ASSERT_LATHE_OK(product.run(device()));
    EXPECT_EQ(product.check(), "");
  }
  // B in this format; A in one of the formats with the same scales, or plain.
  ScaledCase random_case(const ScaledElements& f, bool scaled_a) {
    ScaledCase c;
    c.m = one_of({1, 2, 5, 16, 17, 40});
    c.b.format = &f;
    c.b.lines = one_of({1, 7, 16, 33, 130, 257});
    c.b.k = one_of({128, 256, 384, 640});
    if (!f.takes_tall && random_.below(2) != 0) c.b.k = one_of({32, 96, 416});
    c.b.batch = one_of({1, 1, 1, 3});
    c.b.padding = one_of({0, 0, 128});
    c.b.scale_padding = one_of({0, 3});
    c.b.misalign = static_cast<size_t>(one_of({0, 1, 5}));
    c.b.global = random_.below(3) == 0;
    c.b.shared_scales = random_.below(4) == 0;
    if (f.takes_tall) c.b.lines_each = one_of({1, 128, 128});
    do c.b.layout = kLayouts[random_.below(4)];
    while (!has_layout(f, c.b.layout, c.b.lines_each));
    constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
    c.a_dtype = kFloats[random_.below(3)];
    c.out = kFloats[random_.below(3)];
    c.alpha = random_.below(2) != 0 ? 1.0f : 0.5f;
    if (scaled_a) c.a = of_a(c, f);
    return c;
  }
  ScaledSpec of_a(const ScaledCase& c, const ScaledElements& f) {
    ScaledSpec a;
    a.format = &f;
    if (!f.takes_tall && random_.below(2) != 0)
      a.format = scaled_format(random_.below(2) != 0 ? "mxf8" : "nvf4");
    a.lines = c.m, a.k = c.b.k, a.batch = c.b.batch;
    a.padding = one_of({0, 0, 6});
    a.scale_padding = one_of({0, 5});
    a.misalign = static_cast<size_t>(one_of({0, 3}));
    a.global = random_.below(3) == 0;
    do a.layout = kLayouts[random_.below(4)];
    while (!has_layout(*a.format, a.layout, 1));
    return a;
  }
};

TEST_F(ScaledProducts, EveryFormatByAScaledA) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (int i = 0; i < 16; ++i) expect(random_case(f, /*scaled_a=*/true));
}

TEST_F(ScaledProducts, EveryFormatByAFloatA) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (int i = 0; i < 12; ++i) expect(random_case(f, /*scaled_a=*/false));
}

TEST_F(ScaledProducts, EveryLayoutOfScales) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (const lathe_scale_layout layout : kLayouts)
      for (const int64_t lines_each : {1, 128}) {
        if ((lines_each > 1 && !f.takes_tall) || !has_layout(f, layout, lines_each)) continue;
        // Several tiles of 128 lines by 4 blocks, the last one not whole: of B, then of A.
        for (const bool tall_a : {false, true}) {
          ScaledCase c = random_case(f, /*scaled_a=*/true);
          c.b.lines = tall_a ? 5 : 300;
          c.m = c.a.lines = tall_a ? 150 : 2;
          c.b.k = c.a.k = 640;
          c.b.layout = layout;
          c.b.lines_each = lines_each;
          c.a.layout = has_layout(*c.a.format, layout, 1) ? layout : LATHE_SCALES_BY_LINE;
          expect(c);
        }
      }
}

// Blackwell's tensor cores apply the scales: every tile, scales that are words of four and that are not, and edges in
// every direction.
TEST_F(ScaledProducts, EveryTileOfTensorCoresThatApplyScales) {
  constexpr std::pair<const char*, const char*> kPairs[] = {{"mxf8", "mxf8"},
                                                            {"mxf8_e5m2", "mxf8"},
                                                            {"f8_128_e8m0", "mxf8_e5m2"},
                                                            {"f8_128_e8m0", "f8_128_e8m0"},
                                                            {"mxf4", "mxf4"},
                                                            {"nvf4", "nvf4"},
                                                            {"mxf8", "mxf4"},
                                                            {"mxf8_e5m2", "mxf4"},
                                                            {"f8_128_e8m0", "mxf4"}};
  if (is_cpu()) GTEST_SKIP() << "the CPU has none";
  int tiles = 0;
  for (const auto& [a, b] : kPairs)
    for (const lathe_scale_layout layout : kLayouts)
      for (const bool ragged : {false, true}) {
        ScaledCase c;
        c.a.format = scaled_format(a), c.b.format = scaled_format(b);
        c.m = c.a.lines = ragged ? 150 : 128;
        c.b.lines = ragged ? 328 : 256;
        c.b.k = c.a.k = !ragged ? 1024 : c.a.format->takes_tall ? 640 : 672;
        c.b.batch = c.a.batch = ragged ? 2 : 1;
        c.a.layout = c.b.layout = layout;
        c.b.shared_scales = ragged;
        if (c.b.format->takes_tall && layout != LATHE_SCALES_TILED) c.b.lines_each = 128;
        c.out = ragged ? LATHE_BF16 : LATHE_F32;
        if (!has_layout(*c.a.format, layout, 1) || !has_layout(*c.b.format, layout, 1)) continue;
        if (leaves_out({c.m, c.b.lines, c.b.k})) continue;
        SCOPED_TRACE(c.text());
        ScaledProduct product(c, &random_);
        const auto legal = legal_candidates(device(), product.desc);
        for (size_t i = 0; i < legal.size(); ++i) {
          if (legal[i]["config"]["kernel"] != "tcgen05") continue;
          if (is_quick() && ++tiles % 3 != 0) continue;
          lathe_tuning tuning = LATHE_TUNING_INIT;
          tuning.candidate = static_cast<int32_t>(i + 1);
          product.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
          SCOPED_TRACE(legal[i]["config"].dump());
          ASSERT_LATHE_OK(product.run(device()));
          EXPECT_EQ(product.check(/*step=*/11), "");
        }
      }
  if (tiles == 0) GTEST_SKIP() << "no tensor cores that apply scales";
}

// The elements of A and B are 1. The matrices of the batch share A's elements and B, but each has scales of A.
TEST_F(ScaledProducts, MatricesThatShareTheElementsOfAHaveScalesOfTheirOwn) {
  std::vector<uint8_t> ones(3 * 32, 0x38), scales_of_a = {127, 128, 129, 130}, scales_of_b(3, 127);
  std::vector<float> d(2 * 2 * 3);
  lathe_scale a = LATHE_SCALE_INIT;
  a.dtype = LATHE_F8_E8M0;
  a.granularity = LATHE_PER_BLOCK;
  a.block_size = 32;
  lathe_scale b = a;
  a.data = scales_of_a.data(), b.data = scales_of_b.data();
  a.batch_stride = 2;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 2, desc.n = 3, desc.k = 32, desc.batch = 2;
  desc.a.data = desc.b.data = ones.data();
  desc.a.dtype = desc.b.dtype = LATHE_F8_E4M3;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.a.scale = &a, desc.b.scale = &b;
  desc.d.data = d.data();
  desc.d.dtype = LATHE_F32;
  desc.d.batch_stride = 6;
  ScaledCopies copies(device());
  for (std::vector<uint8_t>* bytes : {&ones, &scales_of_a, &scales_of_b}) copies.add(*bytes);
  copies.add(d);
  const lathe_matmul_desc moved = copies.moved(desc);
  ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &moved));
  copies.fetch();
  EXPECT_THAT(d, testing::ElementsAre(32, 32, 32, 64, 64, 64, 128, 128, 128, 256, 256, 256));
  b.batch_stride = 3;
  EXPECT_EQ(lathe_matmul(device(), nullptr, &desc), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(),
              HasSubstr("b: scale: batch_stride 3 must be 0, because all matrices share one b"));
}

// The columns of the matrices take turns. Then the second matrix begins at the first one's second column, whose block
// would need two scales.
TEST_F(ScaledProducts, MatricesOfBLieSideBySideButDoNotOverlap) {
  constexpr int64_t kBatch = 3, kN = 4, kK = 64;
  std::vector<uint8_t> ones(kBatch * kN * kK, 0x38), scales;
  for (int64_t i = 0; i < kBatch * kN * kK / 32; ++i) scales.push_back(static_cast<uint8_t>(120 + i % 9));
  std::vector<float> a(kK, 1.0f), d(kBatch * kN);
  lathe_scale scale = LATHE_SCALE_INIT;
  scale.data = scales.data();
  scale.dtype = LATHE_F8_E8M0;
  scale.granularity = LATHE_PER_BLOCK;
  scale.block_size = 32;
  scale.batch_stride = kN * kK / 32;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1, desc.n = kN, desc.k = kK, desc.batch = kBatch;
  desc.a.data = a.data(), desc.b.data = ones.data(), desc.d.data = d.data();
  desc.a.dtype = desc.d.dtype = LATHE_F32, desc.b.dtype = LATHE_F8_E4M3;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.b.leading_dimension = kBatch * kK;
  desc.b.batch_stride = kK;
  desc.b.scale = &scale;
  desc.d.batch_stride = kN;
  ScaledCopies copies(device());
  for (std::vector<uint8_t>* bytes : {&ones, &scales}) copies.add(*bytes);
  for (std::vector<float>* floats : {&a, &d}) copies.add(*floats);
  const lathe_matmul_desc moved = copies.moved(desc);
  ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &moved));
  copies.fetch();
  for (size_t i = 0; i < d.size(); ++i)
    EXPECT_EQ(d[i], 32 * (std::exp2(scales[2 * i] - 127.0f) + std::exp2(scales[2 * i + 1] - 127.0f))) << i;
  desc.b.leading_dimension = kK;
  EXPECT_EQ(lathe_matmul(device(), nullptr, &desc), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(),
              HasSubstr("b: batch_stride 64: matrices with block scales must not overlap"));
}

TEST_F(ScaledProducts, EveryMOfDecodingAndLargerBuckets) {
  for (const char* name : {"f8_128", "mxf4"})
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31, 100, 300}) {
      ScaledCase c = random_case(*scaled_format(name), m % 2 == 0);
      c.m = m;
      c.b.batch = 1;
      if (c.a.format != nullptr) c.a.lines = m, c.a.batch = 1;
      expect(c);
    }
}

TEST_F(ScaledProducts, EmptyProducts) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (const int64_t batch : {1, 3}) {
      const auto in_batch = [&] {
        ScaledCase c = random_case(f, /*scaled_a=*/true);
        c.a.batch = c.b.batch = batch;
        return c;
      };
      ScaledCase c = in_batch();
      c.m = c.a.lines = 0;
      expect(c);
      c = in_batch();
      c.b.lines = 0;
      expect(c);
      c = in_batch();
      c.b.k = c.a.k = 0;
      expect(c);
    }
}

TEST_F(ScaledProducts, BatchInvariantBitsDoNotDependOnM) {
  ScaledCase c = random_case(*scaled_format("f8_128"), /*scaled_a=*/true);
  c.m = c.a.lines = 40, c.b.batch = c.a.batch = 1, c.b.lines = 130, c.b.k = c.a.k = 640;
  if (leaves_out({c.m, c.b.lines, c.b.k})) return;
  ScaledProduct product(c, &random_);
  product.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  ASSERT_LATHE_OK(product.run(device()));
  std::vector<double> whole;
  for (int64_t j = 0; j < 130; ++j) whole.push_back(product.d(0, j));
  product.desc.m = 1;
  ASSERT_LATHE_OK(product.run(device()));
  for (int64_t j = 0; j < 130; ++j) EXPECT_EQ(product.d(0, j), whole[static_cast<size_t>(j)]) << j;
}

// A NaN among B's scales reaches its column only (128 columns with 128 x 128), one among A's its row only.
TEST_F(ScaledProducts, NanScalesPropagate) {
  for (const ScaledElements& f : reference::scaled_elements()) {
    const double nan = f.scale == LATHE_F32 ? NAN : f.scale == LATHE_F8_E8M0 ? 255 : 0x7f;
    for (const bool of_a : {false, true}) {
      ScaledCase c = random_case(f, /*scaled_a=*/true);
      c.a.format = &f, c.a.layout = LATHE_SCALES_BY_LINE;
      c.m = c.a.lines = 5, c.b.lines = 33, c.b.k = c.a.k = 2 * f.block, c.b.batch = c.a.batch = 1;
      if (leaves_out({c.m, c.b.lines, c.b.k})) continue;
      SCOPED_TRACE(c.text());
      ScaledProduct product(c, &random_);
      (of_a ? product.a() : product.b()).set_scale(0, of_a ? 3 : 17, 1, nan);
      product.refresh();
      ASSERT_LATHE_OK(product.run(device()));
      EXPECT_EQ(product.check(), "");
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t j = 0; j < 33; ++j)
          EXPECT_EQ(std::isnan(product.d(i, j)), of_a ? i == 3 : c.b.lines_each > 1 || j == 17)
              << i << ' ' << j;
    }
  }
}

// The smallest and largest powers of two, and every code of an element.
TEST_F(ScaledProducts, ExtremeScalesAreExact) {
  for (const char* name : {"mxf8", "mxf8_e5m2", "mxf4"})
    for (const double code : {0.0, 1.0, 127.0, 230.0}) {
      ScaledCase c;
      c.m = 1;
      c.b.format = scaled_format(name);
      c.b.lines = 40, c.b.k = 256;
      if (leaves_out({c.m, c.b.lines, c.b.k})) continue;
      ScaledProduct product(c, &random_);
      for (int64_t j = 0; j < 40; ++j)
        for (int64_t block = 0; block < 8; ++block) product.b().set_scale(0, j, block, code);
      product.refresh();
      std::vector<float> one(256, 0.0f);
      product.desc.a.data = one.data();
      for (int64_t k = 0; k < 256; k += quick_or(29, 1)) {
        std::fill(one.begin(), one.end(), 0.0f);
        one[static_cast<size_t>(k)] = 1;
        ASSERT_LATHE_OK(product.run(device(), &one));
        for (int64_t j = 0; j < 40; ++j)
          ASSERT_EQ(product.d(0, j), static_cast<float>(product.b().at(0, j, k))) << name << ' ' << code;
      }
    }
}

// Elements and scales lie between inaccessible pages, so that a read past them faults.
TEST_F(ScaledProducts, ReadsNothingButTheOperands) {
  for (const ScaledElements& f : reference::scaled_elements())
    for (const lathe_scale_layout layout : kLayouts) {
      if (!has_layout(f, layout, 1)) continue;
      for (const int64_t m : {1, 5, 40}) {
        ScaledCase c;
        c.m = m;
        c.b.format = c.a.format = &f;
        c.b.layout = c.a.layout = layout;
        c.b.lines = 33, c.b.k = c.a.k = quick_or(128, 384), c.a.lines = m;
        if (leaves_out({m, c.b.lines, c.b.k})) continue;
        SCOPED_TRACE(c.text());
        ScaledProduct product(c, &random_);
        const auto guard = [](const ScaledMatrix& of, lathe_operand* operand, lathe_scale* scale,
                              Flush flush) {
          auto elements = std::make_unique<GuardedMemory>(of.element_bytes(), flush);
          auto scales = std::make_unique<GuardedMemory>(of.scale_bytes(), flush);
          std::memcpy(elements->data(), operand->data, of.element_bytes());
          std::memcpy(scales->data(), scale->data, of.scale_bytes());
          elements->publish();
          scales->publish();
          operand->data = elements->address();
          scale->data = scales->address();
          return std::pair(std::move(elements), std::move(scales));
        };
        for (const Flush flush : {Flush::kEnd, Flush::kStart}) {
          const auto a = guard(product.a(), &product.desc.a, &product.scale_a, flush);
          const auto b = guard(product.b(), &product.desc.b, &product.scale_b, flush);
          ASSERT_LATHE_OK(product.run(device()));
          EXPECT_EQ(product.check(), "");
          product.restore();
        }
      }
    }
}

// DeepGEMM's test: shapes of DeepSeek-V3 and the error measure. calc_diff of its kernels is below 1e-3.
TEST_F(ScaledProducts, DeepGemmShapes) {
  const int64_t shapes[][3] = {
      {1, 2112, 7168}, {7, 576, 7168}, {64, 1536, 1536}, {128, 512, 2048}, {32, 128, 1024}};
  for (const auto& [m, n, k] : shapes) {
    ScaledCase c;
    c.m = m;
    c.out = LATHE_BF16;
    c.b.format = c.a.format = scaled_format("f8_128");
    c.b.lines = n, c.b.k = c.a.k = k, c.a.lines = m;
    c.b.lines_each = 128;
    c.a.layout = LATHE_SCALES_BY_BLOCK;
    if (leaves_out({m, n, k}) || (is_quick() && m * n * k > 5'000'000)) continue;
    ScaledProduct product(c, &random_);
    ASSERT_LATHE_OK(product.run(device()));
    std::vector<double> got, want;
    for (int64_t j = 0; j < n; j += 1 + m / 8)
      for (int64_t i = 0; i < m; i += 1 + m / 8) {
        got.push_back(product.d(i, j));
        want.push_back(product.expected(0, i, j).value);
      }
    const double diff = reference::calc_diff(got, want);
    EXPECT_LT(diff, 1e-5) << c.text();  // D is rounded to bf16
    EXPECT_GE(diff, 0);
  }
}

TEST_F(ScaledProducts, PlansRunThem) {
  SKIP_UNLESS_CPU("slices are for the CPU");
  ScaledCase c = random_case(*scaled_format("mxf8"), /*scaled_a=*/true);
  ScaledProduct product(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), &product.desc, &plan));
  EXPECT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, &product.desc));
  EXPECT_EQ(product.check(), "");
  EXPECT_EQ(lathe_plan_run_matmul_slice(plan, &product.desc, 0, 0, 1), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("cannot be run in slices"));
  lathe_plan_destroy(plan);
}

// Few columns and a long K, so that the kernel splits K and needs memory for the sums.
TEST_F(ScaledProducts, UsesNoWorkspaceOfTheCaller) {
  SKIP_UNLESS_CPU("kernels of GPUs use it as in any product");
  ScaledCase c;
  c.m = 40;
  c.b.format = c.a.format = scaled_format("mxf8");
  c.b.lines = 32, c.b.k = c.a.k = 16384, c.a.lines = c.m;
  ScaledProduct product(c, &random_);
  alignas(64) std::array<uint8_t, 64> memory;
  memory.fill(0xa5);
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.data = memory.data();
  workspace.bytes = memory.size();
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 4;
  tuning.next = reinterpret_cast<const lathe_chain*>(&workspace);
  product.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), &product.desc, &plan));
  size_t bytes = 1;
  EXPECT_LATHE_OK(lathe_plan_workspace_bytes(plan, &bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_THAT(explain(plan), HasSubstr("\"splits\":4"));
  EXPECT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, &product.desc));
  EXPECT_EQ(product.check(), "");
  EXPECT_THAT(memory, testing::Each(0xa5));
  lathe_plan_destroy(plan);
}

// After a warm-up no M misses, whatever the layout of the scales.
TEST_F(ScaledProducts, WarmUpCoversEveryM) {
  for (const char* name : {"f8_128", "nvf4"}) {
    ScaledCase c = random_case(*scaled_format(name), /*scaled_a=*/true);
    c.m = c.a.lines = 20, c.b.batch = c.a.batch = 1, c.b.lines = 40, c.b.k = c.a.k = quick_or(128, 256);
    if (leaves_out({c.m, c.b.lines, c.b.k})) continue;
    ScaledProduct product(c, &random_);
    OpenDevice fresh(memory_only(1));
    ASSERT_EQ(fresh.status(), LATHE_OK);
    lathe_manifest* manifest = nullptr;
    ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
    ASSERT_LATHE_OK(lathe_manifest_add_matmul(manifest, name, &product.desc, 20));
    ASSERT_LATHE_OK(lathe_warmup(fresh.get(), manifest, nullptr, nullptr));
    lathe_manifest_destroy(manifest);
    product.desc.miss_policy = LATHE_MISS_ERROR;
    for (product.desc.m = 1; product.desc.m < 20; ++product.desc.m) ASSERT_LATHE_OK(product.run(fresh.get()));
    product.desc.m = 20;
    ASSERT_LATHE_OK(product.run(fresh.get()));
    EXPECT_EQ(product.check(), "");
  }
}

TEST_F(ScaledProducts, RefusesWhatItDoesNotMultiply) {
  ScaledCase c = random_case(*scaled_format("f8_128"), /*scaled_a=*/true);
  c.m = c.a.lines = 4, c.b.lines = 40, c.b.k = c.a.k = 256, c.b.batch = c.a.batch = 1;
  c.b.lines_each = 1, c.b.layout = c.a.layout = LATHE_SCALES_BY_LINE;
  c.b.padding = c.a.padding = c.b.scale_padding = c.a.scale_padding = 0;
  const auto refused = [&](lathe_status status, const char* message, const auto& change) {
    ScaledProduct product(c, &random_);
    change(product);
    EXPECT_EQ(lathe_matmul(device(), nullptr, &product.desc), status) << message;
    EXPECT_THAT(lathe_last_error(), HasSubstr(message));
  };
  refused(LATHE_UNSUPPORTED, "f8e4m3 with f32 scales of 64 is none of: f8e4m3 with f32 scales of 128",
          [](ScaledProduct& p) { p.scale_b.block_size = 64; });
  refused(LATHE_UNSUPPORTED, "block_lines 128 of a must be 1",
          [](ScaledProduct& p) { p.scale_a.block_lines = 128; });
  refused(LATHE_UNSUPPORTED, "PACKED_BY_FOUR needs scales of f8e8m0, not f32",
          [](ScaledProduct& p) { p.scale_b.layout = LATHE_SCALES_PACKED_BY_FOUR; });
  refused(LATHE_UNSUPPORTED, "TILED needs scales of one byte",
          [](ScaledProduct& p) { p.scale_b.layout = LATHE_SCALES_TILED; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale: leading_dimension 1 < 2, the number of blocks",
          [](ScaledProduct& p) { p.scale_b.leading_dimension = 1; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale: data is NULL",
          [](ScaledProduct& p) { p.scale_b.data = nullptr; });
  refused(LATHE_INVALID_ARGUMENT, "a: scale: struct_size",
          [](ScaledProduct& p) { p.scale_a.struct_size = 8; });
  refused(LATHE_INVALID_ARGUMENT, "k 200 is not a multiple of 128", [](ScaledProduct& p) { p.desc.k = 200; });
  refused(LATHE_INVALID_ARGUMENT, "ldb 300 is not a multiple of 128",
          [](ScaledProduct& p) { p.desc.b.leading_dimension = 300; });
  refused(LATHE_INVALID_ARGUMENT, "lda 255 < k 256",
          [](ScaledProduct& p) { p.desc.a.leading_dimension = 255; });
  refused(LATHE_UNSUPPORTED, "only COLUMN_MAJOR is supported with block scales",
          [](ScaledProduct& p) { p.desc.b.layout = LATHE_ROW_MAJOR; });
  refused(LATHE_UNSUPPORTED, "if A has block scales, B must have them too",
          [](ScaledProduct& p) { p.desc.b.scale = nullptr; });
  refused(LATHE_UNSUPPORTED, "a: dtype f8e4m3 needs block scales, because B has them; or use f32, f16, bf16",
          [](ScaledProduct& p) { p.desc.a.scale = nullptr; });
  refused(LATHE_UNSUPPORTED, "zero_point is not supported", [](ScaledProduct& p) {
    static const int32_t zero = 0;
    p.desc.b.zero_point = &zero;
  });
  refused(LATHE_INVALID_ARGUMENT, "d overlaps a", [](ScaledProduct& p) { p.desc.d.data = p.desc.a.data; });
  refused(LATHE_INVALID_ARGUMENT, "d overlaps the scale of b",
          [](ScaledProduct& p) { p.desc.d.data = const_cast<void*>(p.scale_b.data); });
  refused(LATHE_INVALID_ARGUMENT, "b: dtype 28 is unknown", [](ScaledProduct& p) {
    p.desc.a.dtype = LATHE_F32;
    p.desc.a.scale = p.desc.b.scale = nullptr;
    p.desc.b.dtype = static_cast<lathe_dtype>(28);
  });
}

}  // namespace
}  // namespace lathe::conformance
