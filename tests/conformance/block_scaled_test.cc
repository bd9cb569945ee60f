// Operands with block scales (fp8, MXFP8, MXFP4, NVFP4) and 4-bit weights of AWQ and GPTQ: every format, layout of scales
// and kind of A against float64, special scales, strides, grouped products, and requests that are refused.
#include "reference/block_scaled.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device.h"
#include "guarded_memory.h"

namespace lathe::conformance {
namespace {

using reference::GroupedWeight;
using reference::Normal;
using reference::ScaledElements;
using reference::ScaledMatrix;
using reference::ScaledSpec;
using testing::HasSubstr;

constexpr lathe_scale_layout kLayouts[] = {LATHE_SCALES_BY_LINE, LATHE_SCALES_BY_BLOCK,
                                           LATHE_SCALES_PACKED_BY_FOUR, LATHE_SCALES_TILED};
bool has_layout(const ScaledElements& f, lathe_scale_layout layout, int64_t lines_each) {
  if (layout == LATHE_SCALES_PACKED_BY_FOUR) return f.scale == LATHE_F8_E8M0;
  if (layout == LATHE_SCALES_TILED) return f.scale != LATHE_F32 && lines_each == 1;
  return true;
}
const ScaledElements* format(const char* name) { return reference::scaled_elements_named(name); }

// A matrix of plain floats, row by row.
struct Floats {
  lathe_dtype dtype;
  int64_t columns;
  std::vector<uint8_t> bytes;

  Floats(lathe_dtype of, int64_t rows, int64_t width, Normal* random) : dtype(of), columns(width) {
    bytes.resize(static_cast<size_t>(rows * width) * bytes_of(of));
    for (int64_t i = 0; i < rows * width; ++i)
      reference::store(bytes.data(), of, i, random == nullptr ? NAN : static_cast<double>(random->next()));
  }
  double at(int64_t row, int64_t column) const {
    return reference::load(bytes.data(), dtype, row * columns + column);
  }
  lathe_operand operand(int64_t rows_of_matrix) {
    lathe_operand o = LATHE_OPERAND_INIT;
    o.data = bytes.data();
    o.dtype = dtype;
    o.batch_stride = rows_of_matrix * columns;
    return o;
  }
};

// What D must be: the value of element (matrix, m, n) and the sum of the magnitudes of its products.
struct Expected {
  double value, magnitude;
};
template <typename A, typename B>
Expected dot(int64_t k, const A& a, const B& b) {
  Expected e = {0, 0};
  for (int64_t i = 0; i < k; ++i) {
    const double x = a(i) * b(i);
    e.value += x;
    e.magnitude += std::abs(x);
  }
  return e;
}
// f32 sums in any order, with A and B decoded to f32, then rounding to D's dtype. A few products dominate a sum of fp8
// numbers, and each of the K additions may round at their size.
bool is_near(double got, const Expected& e, int64_t k, lathe_dtype dtype) {
  if (std::isnan(e.value)) return std::isnan(got);
  const double sums = (4 + std::sqrt(static_cast<double>(k))) * 0x1p-23 * e.magnitude;
  if (std::isinf(got)) return got * e.value > 0 && std::abs(e.value) + sums > reference::largest(dtype);
  return std::abs(got - e.value) <=
         sums + reference::rounding(dtype) * (std::abs(e.value) + sums) + reference::smallest_rounding(dtype);
}

class BlockScaled : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    SKIP_UNLESS_CPU("only the CPU has block scales");
    if (is_fallback()) GTEST_SKIP() << "there are no generic kernels for block scales";
  }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[random_.below(static_cast<int64_t>(values.size()))];
  }
  Normal random_{run_seed() ^ 0xb10c};
};

// A product of one weight, and optionally of a scaled A.
struct Case {
  ScaledSpec a, b;  // a.format null: A is plain
  lathe_dtype a_dtype = LATHE_F32, out = LATHE_F32;
  int64_t m = 1;
  float alpha = 1;

  std::string text() const {
    return absl::StrCat("m=", m, " n=", b.lines, " k=", b.k, " batch=", b.batch,
                        " a=", a.format ? a.format->name : name_of(a_dtype), " layout ",
                        static_cast<int>(a.layout), " b=", b.format->name, " layout ",
                        static_cast<int>(b.layout), " lines ", b.lines_each, " padding ", b.padding, "/",
                        b.scale_padding, " misalign ", b.misalign, b.global ? " global" : "", " out ",
                        name_of(out));
  }
};

class Product {
 public:
  Product(const Case& c, Normal* random)
      : c_(c),
        plain_a_(c.a_dtype, c.a.format ? 0 : c.b.batch * c.m, c.b.k, random),
        b_(c.b, random),
        d_(c.out, c.b.batch * c.m, c.b.lines, nullptr) {
    if (c.a.format != nullptr) a_ = ScaledMatrix(c.a, random);
    desc.m = c.m, desc.n = c.b.lines, desc.k = c.b.k, desc.batch = c.b.batch;
    scale_b = b_.scale();
    desc.b = b_.operand(/*column_major=*/true);
    desc.b.scale = &scale_b;
    if (c.a.format != nullptr) {
      scale_a = a_.scale();
      desc.a = a_.operand(/*column_major=*/false);
      desc.a.scale = &scale_a;
    } else {
      desc.a = plain_a_.operand(c.m);
    }
    desc.d = d_.operand(c.m);
    desc.epilogue.alpha = c.alpha;
  }
  Product(const Product&) = delete;

  // "" if D is right.
  std::string check() const {
    for (int64_t matrix = 0; matrix < c_.b.batch; ++matrix)
      for (int64_t i = 0; i < c_.m; ++i)
        for (int64_t j = 0; j < c_.b.lines; ++j) {
          const Expected e = expected(matrix, i, j);
          const double got = d_.at(matrix * c_.m + i, j);
          if (!is_near(got, e, c_.b.k, c_.out))
            return absl::StrCat("d[", matrix, "][", i, "][", j, "] is ", got, ", not ", e.value, ": off by ",
                                got - e.value, " with magnitude ", e.magnitude);
        }
    return "";
  }
  Expected expected(int64_t matrix, int64_t i, int64_t j) const {
    const double factor = c_.alpha * b_.global() * (c_.a.format ? a_.global() : 1);
    Expected e = dot(
        c_.b.k,
        [&](int64_t k) { return c_.a.format ? a_.at(matrix, i, k) : plain_a_.at(matrix * c_.m + i, k); },
        [&](int64_t k) { return b_.at(matrix, j, k); });
    return {e.value * factor, e.magnitude * std::abs(factor)};
  }
  ScaledMatrix& a() { return a_; }
  ScaledMatrix& b() { return b_; }
  double d(int64_t i, int64_t j) const { return d_.at(i, j); }
  // The scales' memory moves when a scale is set.
  void refresh() {
    if (c_.a.format != nullptr) scale_a = a_.scale();
    scale_b = b_.scale();
  }
  // Points to the data of this object again.
  void restore() {
    refresh();
    if (c_.a.format != nullptr) desc.a.data = a_.operand(false).data;
    desc.b.data = b_.operand(true).data;
  }

  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  lathe_scale scale_a = LATHE_SCALE_INIT, scale_b = LATHE_SCALE_INIT;

 private:
  Case c_;
  Floats plain_a_;
  ScaledMatrix a_, b_;
  Floats d_;
};

class ScaledProducts : public BlockScaled {
 protected:
  void expect(const Case& c) {
    SCOPED_TRACE(c.text());
    Product product(c, &random_);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
    EXPECT_EQ(product.check(), "");
  }
  // B in this format; A in one of the formats with the same scales, or plain.
  Case random_case(const ScaledElements& f, bool scaled_a) {
    Case c;
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
  ScaledSpec of_a(const Case& c, const ScaledElements& f) {
    ScaledSpec a;
    a.format = &f;
    if (!f.takes_tall && random_.below(2) != 0) a.format = format(random_.below(2) != 0 ? "mxf8" : "nvf4");
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
          Case c = random_case(f, /*scaled_a=*/true);
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

TEST_F(ScaledProducts, EveryMOfDecodingAndLargerBuckets) {
  for (const char* name : {"f8_128", "mxf4"})
    for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31, 100, 300}) {
      Case c = random_case(*format(name), m % 2 == 0);
      c.m = m;
      c.b.batch = 1;
      if (c.a.format != nullptr) c.a.lines = m, c.a.batch = 1;
      expect(c);
    }
}

TEST_F(ScaledProducts, EmptyProducts) {
  for (const ScaledElements& f : reference::scaled_elements()) {
    Case c = random_case(f, /*scaled_a=*/true);
    c.m = c.a.lines = 0;
    expect(c);
    c = random_case(f, /*scaled_a=*/true);
    c.b.k = c.a.k = 0;
    expect(c);
  }
}

TEST_F(ScaledProducts, BatchInvariantBitsDoNotDependOnM) {
  Case c = random_case(*format("f8_128"), /*scaled_a=*/true);
  c.m = c.a.lines = 40, c.b.batch = c.a.batch = 1, c.b.lines = 130, c.b.k = c.a.k = 640;
  Product product(c, &random_);
  product.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
  std::vector<double> whole;
  for (int64_t j = 0; j < 130; ++j) whole.push_back(product.d(0, j));
  product.desc.m = 1;
  ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
  for (int64_t j = 0; j < 130; ++j) EXPECT_EQ(product.d(0, j), whole[static_cast<size_t>(j)]) << j;
}

// A NaN among B's scales reaches its column only (128 columns with 128 x 128), one among A's its row only.
TEST_F(ScaledProducts, NanScalesPropagate) {
  for (const ScaledElements& f : reference::scaled_elements()) {
    const double nan = f.scale == LATHE_F32 ? NAN : f.scale == LATHE_F8_E8M0 ? 255 : 0x7f;
    for (const bool of_a : {false, true}) {
      Case c = random_case(f, /*scaled_a=*/true);
      c.a.format = &f, c.a.layout = LATHE_SCALES_BY_LINE;
      c.m = c.a.lines = 5, c.b.lines = 33, c.b.k = c.a.k = 256, c.b.batch = c.a.batch = 1;
      SCOPED_TRACE(c.text());
      Product product(c, &random_);
      (of_a ? product.a() : product.b()).set_scale(0, of_a ? 3 : 17, 1, nan);
      product.refresh();
      ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
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
      Case c;
      c.m = 1;
      c.b.format = format(name);
      c.b.lines = 40, c.b.k = 256;
      Product product(c, &random_);
      for (int64_t j = 0; j < 40; ++j)
        for (int64_t block = 0; block < 8; ++block) product.b().set_scale(0, j, block, code);
      product.refresh();
      std::vector<float> one(256, 0.0f);
      product.desc.a.data = one.data();
      for (int64_t k = 0; k < 256; ++k) {
        std::fill(one.begin(), one.end(), 0.0f);
        one[static_cast<size_t>(k)] = 1;
        ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
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
        Case c;
        c.m = m;
        c.b.format = c.a.format = &f;
        c.b.layout = c.a.layout = layout;
        c.b.lines = 33, c.b.k = c.a.k = 384, c.a.lines = m;
        SCOPED_TRACE(c.text());
        Product product(c, &random_);
        const auto guard = [](const ScaledMatrix& of, lathe_operand* operand, lathe_scale* scale,
                              Flush flush) {
          auto elements = std::make_unique<GuardedMemory>(of.element_bytes(), flush);
          auto scales = std::make_unique<GuardedMemory>(of.scale_bytes(), flush);
          std::memcpy(elements->data(), operand->data, of.element_bytes());
          std::memcpy(scales->data(), scale->data, of.scale_bytes());
          operand->data = elements->data();
          scale->data = scales->data();
          return std::pair(std::move(elements), std::move(scales));
        };
        for (const Flush flush : {Flush::kEnd, Flush::kStart}) {
          const auto a = guard(product.a(), &product.desc.a, &product.scale_a, flush);
          const auto b = guard(product.b(), &product.desc.b, &product.scale_b, flush);
          ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
          EXPECT_EQ(product.check(), "");
          product.restore();
        }
      }
    }
}

// DeepGEMM's test: shapes of DeepSeek-V3 and the error measure. calc_diff of its kernels is below 1e-3.
TEST_F(ScaledProducts, DeepGemmShapes) {
  const int64_t shapes[][3] = {{1, 2112, 7168}, {7, 576, 7168}, {64, 1536, 1536}, {128, 512, 2048}};
  for (const auto& [m, n, k] : shapes) {
    Case c;
    c.m = m;
    c.out = LATHE_BF16;
    c.b.format = c.a.format = format("f8_128");
    c.b.lines = n, c.b.k = c.a.k = k, c.a.lines = m;
    c.b.lines_each = 128;
    c.a.layout = LATHE_SCALES_BY_BLOCK;
    Product product(c, &random_);
    ASSERT_LATHE_OK(lathe_matmul(device(), nullptr, &product.desc));
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
  Case c = random_case(*format("mxf8"), /*scaled_a=*/true);
  Product product(c, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), &product.desc, &plan));
  EXPECT_LATHE_OK(lathe_plan_run_matmul(plan, nullptr, &product.desc));
  EXPECT_EQ(product.check(), "");
  EXPECT_EQ(lathe_plan_run_matmul_slice(plan, &product.desc, 0, 0, 1), LATHE_UNSUPPORTED);
  EXPECT_THAT(lathe_last_error(), HasSubstr("cannot be run in slices"));
  lathe_plan_destroy(plan);
}

// After a warm-up no M misses, whatever the layout of the scales.
TEST_F(ScaledProducts, WarmUpCoversEveryM) {
  for (const char* name : {"f8_128", "nvf4"}) {
    Case c = random_case(*format(name), /*scaled_a=*/true);
    c.m = c.a.lines = 20, c.b.batch = c.a.batch = 1, c.b.lines = 40, c.b.k = c.a.k = 256;
    Product product(c, &random_);
    OpenDevice fresh(memory_only(1));
    ASSERT_EQ(fresh.status(), LATHE_OK);
    lathe_manifest* manifest = nullptr;
    ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
    ASSERT_LATHE_OK(lathe_manifest_add_matmul(manifest, name, &product.desc, 20));
    ASSERT_LATHE_OK(lathe_warmup(fresh.get(), manifest, nullptr, nullptr));
    lathe_manifest_destroy(manifest);
    product.desc.miss_policy = LATHE_MISS_ERROR;
    for (product.desc.m = 1; product.desc.m < 20; ++product.desc.m)
      ASSERT_LATHE_OK(lathe_matmul(fresh.get(), nullptr, &product.desc));
    product.desc.m = 20;
    ASSERT_LATHE_OK(lathe_matmul(fresh.get(), nullptr, &product.desc));
    EXPECT_EQ(product.check(), "");
  }
}

TEST_F(ScaledProducts, RefusesWhatItDoesNotMultiply) {
  Case c = random_case(*format("f8_128"), /*scaled_a=*/true);
  c.m = c.a.lines = 4, c.b.lines = 40, c.b.k = c.a.k = 256, c.b.batch = c.a.batch = 1;
  c.b.lines_each = 1, c.b.layout = c.a.layout = LATHE_SCALES_BY_LINE;
  c.b.padding = c.a.padding = c.b.scale_padding = c.a.scale_padding = 0;
  const auto refused = [&](lathe_status status, const char* message, const auto& change) {
    Product product(c, &random_);
    change(product);
    EXPECT_EQ(lathe_matmul(device(), nullptr, &product.desc), status) << message;
    EXPECT_THAT(lathe_last_error(), HasSubstr(message));
  };
  refused(LATHE_UNSUPPORTED, "f8e4m3 with f32 scales of 64 is none of: f8e4m3 with f32 scales of 128",
          [](Product& p) { p.scale_b.block_size = 64; });
  refused(LATHE_UNSUPPORTED, "block_lines 128 of a must be 1",
          [](Product& p) { p.scale_a.block_lines = 128; });
  refused(LATHE_UNSUPPORTED, "PACKED_BY_FOUR needs scales of f8e8m0, not f32",
          [](Product& p) { p.scale_b.layout = LATHE_SCALES_PACKED_BY_FOUR; });
  refused(LATHE_UNSUPPORTED, "TILED needs scales of one byte",
          [](Product& p) { p.scale_b.layout = LATHE_SCALES_TILED; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale: leading_dimension 1 < 2, the number of blocks",
          [](Product& p) { p.scale_b.leading_dimension = 1; });
  refused(LATHE_INVALID_ARGUMENT, "b: scale: data is NULL", [](Product& p) { p.scale_b.data = nullptr; });
  refused(LATHE_INVALID_ARGUMENT, "a: scale: struct_size", [](Product& p) { p.scale_a.struct_size = 8; });
  refused(LATHE_INVALID_ARGUMENT, "k 200 is not a multiple of 128", [](Product& p) { p.desc.k = 200; });
  refused(LATHE_INVALID_ARGUMENT, "ldb 300 is not a multiple of 128",
          [](Product& p) { p.desc.b.leading_dimension = 300; });
  refused(LATHE_INVALID_ARGUMENT, "lda 255 < k 256", [](Product& p) { p.desc.a.leading_dimension = 255; });
  refused(LATHE_UNSUPPORTED, "only COLUMN_MAJOR is supported with block scales",
          [](Product& p) { p.desc.b.layout = LATHE_ROW_MAJOR; });
  refused(LATHE_UNSUPPORTED, "if A has block scales, B must have them too",
          [](Product& p) { p.desc.b.scale = nullptr; });
  refused(LATHE_UNSUPPORTED, "zero_point is not supported", [](Product& p) {
    static const int32_t zero = 0;
    p.desc.b.zero_point = &zero;
  });
  refused(LATHE_INVALID_ARGUMENT, "d overlaps a", [](Product& p) { p.desc.d.data = p.desc.a.data; });
  refused(LATHE_INVALID_ARGUMENT, "d overlaps the scale of b",
          [](Product& p) { p.desc.d.data = const_cast<void*>(p.scale_b.data); });
  refused(LATHE_INVALID_ARGUMENT, "b: dtype 28 is unknown", [](Product& p) {
    p.desc.a.dtype = LATHE_F32;
    p.desc.a.scale = p.desc.b.scale = nullptr;
    p.desc.b.dtype = static_cast<lathe_dtype>(28);
  });
}

// ---- 4-bit weights

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

// ---- Grouped products

class ScaledGroups : public BlockScaled {};

// Experts with scales of their own, with rows of every grouping.
TEST_F(ScaledGroups, EveryGroupingByEveryFormat) {
  constexpr int64_t kGroups = 5, kN = 34, kRows = 12;
  for (const ScaledElements& f : reference::scaled_elements())
    for (int i = 0; i < 8; ++i) {
      const auto grouping = static_cast<lathe_grouping>(i % 4);
      const bool counts = grouping == LATHE_GROUPING_COUNTS, indexed = grouping == LATHE_GROUPING_INDEXED;
      const bool scaled_a = i < 6, interleaved = i == 5, gated = i >= 4 && !counts;
      ScaledSpec of_b;
      of_b.format = &f;
      of_b.lines = kN, of_b.k = 256, of_b.batch = kGroups;
      of_b.lines_each = f.takes_tall ? one_of({1, 128}) : 1;
      of_b.global = random_.below(2) != 0;
      do of_b.layout = kLayouts[random_.below(4)];
      while (!has_layout(f, of_b.layout, of_b.lines_each));
      const ScaledMatrix b(of_b, &random_);
      const int64_t used = indexed ? 3 : 1, matrices = counts ? kGroups : indexed ? used : 1;
      ScaledSpec of_a;
      of_a.format = &f;
      of_a.lines = kRows, of_a.k = 256, of_a.batch = matrices;
      of_a.global = random_.below(2) != 0;
      do of_a.layout = kLayouts[random_.below(4)];
      while (!has_layout(f, of_a.layout, 1));
      const ScaledMatrix a(of_a, &random_);
      Floats plain(LATHE_BF16, matrices * kRows, 256, &random_);
      const int64_t columns = gated ? kN / 2 : kN;
      Floats d(LATHE_F32, matrices * kRows, columns, nullptr);

      lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
      desc.grouping = grouping;
      desc.m = kRows, desc.n = kN, desc.k = 256, desc.groups = kGroups, desc.used = used;
      std::vector<int32_t> routing;
      if (grouping == LATHE_GROUPING_OFFSETS) routing = {0, 2, 2, 7, 8, 12};
      if (grouping == LATHE_GROUPING_ROW_IDS) routing = {4, -1, 0, 0, 1, 4, 2, 3, -1, 0, 1, 1};
      if (counts) routing = {0, 12, 1, 5, 2};
      for (int64_t s = 0; indexed && s < kRows * used; ++s)
        routing.push_back(static_cast<int32_t>(random_.below(kGroups)));
      desc.routing = routing.data();
      lathe_scale scale_a = a.scale(), scale_b = b.scale();
      desc.b = b.operand(true);
      desc.b.scale = &scale_b;
      if (scaled_a) {
        desc.a = a.operand(false);
        desc.a.scale = &scale_a;
      } else {
        desc.a = plain.operand(kRows);
      }
      desc.d = d.operand(kRows);
      desc.gate = gated ? LATHE_GATE_RELU : LATHE_GATE_NONE;
      if (interleaved) desc.gate_layout = LATHE_GATE_INTERLEAVED;
      SCOPED_TRACE(
          absl::StrCat(f.name, " grouping ", i % 4, " case ", i, " layouts ", of_a.layout, " ", of_b.layout));
      ASSERT_LATHE_OK(lathe_grouped_matmul(device(), nullptr, &desc));

      const auto group_of = [&](int64_t matrix, int64_t row) -> int64_t {
        if (counts) return row < routing[static_cast<size_t>(matrix)] ? matrix : -1;
        if (indexed) return routing[static_cast<size_t>(row * used + matrix)];
        if (grouping == LATHE_GROUPING_ROW_IDS) return routing[static_cast<size_t>(row)];
        int64_t group = 0;
        while (routing[static_cast<size_t>(group + 1)] <= row) ++group;
        return group;
      };
      for (int64_t matrix = 0; matrix < matrices; ++matrix)
        for (int64_t row = 0; row < kRows; ++row) {
          const int64_t group = group_of(matrix, row);
          const auto column = [&](int64_t j) {
            const Expected e = dot(
                256,
                [&](int64_t k) {
                  return scaled_a ? a.at(matrix, row, k) : plain.at(matrix * kRows + row, k);
                },
                [&](int64_t k) { return b.at(group, j, k); });
            const double factor = b.global_of(group) * (scaled_a ? a.global() : 1);
            return Expected{e.value * factor, e.magnitude * factor};
          };
          for (int64_t j = 0; j < columns; ++j) {
            const double got = d.at(matrix * kRows + row, j);
            if (group < 0) {
              ASSERT_TRUE(std::isnan(got)) << "row " << row << " has no group, but was written";
              continue;
            }
            Expected e = column(gated && interleaved ? 2 * j : j);
            if (gated) {
              const Expected u = column(interleaved ? 2 * j + 1 : columns + j);
              e.magnitude = e.magnitude * u.magnitude;
              e.value = std::max(e.value, 0.0) * u.value;
            }
            ASSERT_TRUE(is_near(got, e, 256, LATHE_F32))
                << matrix << ' ' << row << ' ' << j << ": " << got << ", not " << e.value;
          }
        }
    }
}

}  // namespace
}  // namespace lathe::conformance
