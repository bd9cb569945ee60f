#include "core/products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/packed.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

// A class of the row that breaks no rule.
ProblemClass class_of(const Product& p, Op op) {
  ProblemClass c;
  c.op = op;
  c.a = p.a;
  c.b = p.b;
  c.d = op == Op::kMatmul ? DType::kF32 : DType::kI64;
  if (op == Op::kMatmulArgmax) c.logits = DType::kF32;
  c.trans_b = 1;
  c.n = 48;
  c.k = 2 * std::max(block_elements(p.a), block_elements(p.b));
  c.m_hi = 1;
  return c;
}

std::vector<std::pair<const Product*, Op>> rows_and_ops() {
  std::vector<std::pair<const Product*, Op>> all;
  for (const Product& p : kProducts)
    for (Op op : {Op::kMatmul, Op::kMatmulArgmax})
      if (p.ops.has(op)) all.emplace_back(&p, op);
  return all;
}

std::string field_of(const ProblemClass& c, Devices devices) {
  const ClassDefect defect = find_defect(c, devices);
  return defect.ok() ? "" : defect.field;
}

TEST(Products, FindProductReturnsTheRowOfAPair) {
  for (const Product& p : kProducts) EXPECT_EQ(find_product(p.a, p.b), &p);
  size_t found = 0;
  for (const DTypeRow& a : kDTypes)
    for (const DTypeRow& b : kDTypes) found += find_product(a.value, b.value) != nullptr;
  EXPECT_EQ(found, kProducts.size()) << "no pair has two rows";
  EXPECT_EQ(find_product(static_cast<DType>(kDTypeCount), DType::kF32), nullptr);
  EXPECT_EQ(find_product(DType::kF32, static_cast<DType>(-1)), nullptr);
}

TEST(Products, EveryRowIsAcceptedOnItsDevicesOnly) {
  for (const auto& [p, op] : rows_and_ops()) {
    const ProblemClass c = class_of(*p, op);
    EXPECT_EQ(field_of(c, Devices::kAll), "") << name_of(p->a) << " by " << name_of(p->b);
    for (Devices devices : {Devices::kCpu, Devices::kGpus})
      EXPECT_EQ(field_of(c, devices), meet(p->requests, devices) ? "" : "b")
          << name_of(p->a) << " by " << name_of(p->b);
    EXPECT_EQ(static_cast<int>(p->kernels) & ~static_cast<int>(p->requests), 0)
        << "a device with kernels accepts requests";
  }
}

TEST(Products, RefusesEveryOtherPair) {
  for (Op op : {Op::kMatmul, Op::kMatmulArgmax})
    for (const DTypeRow& a : kDTypes)
      for (const DTypeRow& b : kDTypes) {
        const Product* p = find_product(a.value, b.value);
        if (p != nullptr && p->ops.has(op)) continue;
        Product pair = kProducts[0];
        pair.a = a.value, pair.b = b.value;
        const std::string field = field_of(class_of(pair, op), Devices::kAll);
        EXPECT_TRUE(field == "a" || field == "b") << a.name << " by " << b.name << ": " << field;
      }
}

TEST(Products, EveryRowAcceptsOnlyItsResultsAndMath) {
  for (const auto& [p, op] : rows_and_ops()) {
    for (const DTypeRow& t : kDTypes) {
      ProblemClass c = class_of(*p, op);
      c.d = t.value;
      const bool legal = (op == Op::kMatmul ? p->results : kIndices).has(t.value);
      EXPECT_EQ(field_of(c, Devices::kAll), legal ? "" : "d") << name_of(p->a) << " to " << t.name;
    }
    for (Math math : {Math::kStrict, Math::kTf32, Math::kInt8, Math::kBf16}) {
      ProblemClass c = class_of(*p, op);
      c.math = math;
      EXPECT_EQ(field_of(c, Devices::kAll), p->maths.has(math) ? "" : "math") << name_of(math);
      EXPECT_EQ(takes_math(math, p->a, p->b), p->maths.has(math));
    }
  }
}

TEST(Products, BlocksNeedColumnMajorAndWholeBlocks) {
  for (const auto& [p, op] : rows_and_ops()) {
    ProblemClass c = class_of(*p, op);
    c.trans_b = 0;
    EXPECT_EQ(field_of(c, Devices::kAll), is_blocks(p->b) ? "b" : "");
    c.trans_b = 1;
    c.k += 1;
    EXPECT_EQ(field_of(c, Devices::kAll), is_blocks(p->b) ? "k" : "");
  }
}

TEST(Products, ScalesAndZeroPointsNeedI8OnTheCpu) {
  for (const auto& [p, op] : rows_and_ops()) {
    for (int field = 0; field < 4; ++field) {
      ProblemClass c = class_of(*p, op);
      if (field == 0) c.scale_a = Scale::kPerChannel;
      if (field == 1) c.scale_b = Scale::kPerTensor;
      if (field == 2) c.zero_a = 1;
      if (field == 3) c.zero_b = Scale::kPerTensor;
      EXPECT_EQ(find_defect(c, Devices::kCpu).ok(), p->has_scales && meet(p->requests, Devices::kCpu))
          << field;
      EXPECT_FALSE(find_defect(c, Devices::kGpus).ok()) << field;
    }
  }
  ProblemClass c = class_of(*find_product(DType::kI8, DType::kI8), Op::kMatmul);
  c.scale_b = Scale::kPerChannel;
  c.zero_b = Scale::kPerTensor;
  EXPECT_EQ(field_of(c, Devices::kCpu), "zero_b");
}

TEST(Products, ExactSumsHaveNoEpilogueAndNoScales) {
  for (int field = 0; field < 6; ++field) {
    ProblemClass c = class_of(*find_product(DType::kI8, DType::kI8), Op::kMatmul);
    c.d = DType::kI32;
    EXPECT_EQ(field_of(c, Devices::kAll), "");
    if (field == 0) c.c = DType::kF32;
    if (field == 1) c.bias = DType::kF32;
    if (field == 2) c.residual = DType::kF32;
    if (field == 3) c.activation = Activation::kRelu;
    if (field == 4) c.scale_a = Scale::kPerTensor;
    if (field == 5) c.scale_b = Scale::kPerTensor;
    EXPECT_EQ(field_of(c, Devices::kAll), "d") << field;
  }
}

TEST(Products, PackedWeightsAreColumnMajorAndOnTheCpu) {
  for (const auto& [p, op] : rows_and_ops()) {
    ProblemClass c = class_of(*p, op);
    c.packed_b = kColumns16;
    const bool legal = is_packable(p->b);
    if (legal && is_blocks(p->b)) {  // they are multiplied as bytes only
      EXPECT_EQ(field_of(c, Devices::kAll), "packed_b");
      c.math = Math::kInt8;
      EXPECT_EQ(field_of(c, Devices::kAll), "");
      c.trans_a = 1;
      EXPECT_THAT(find_defect(c, Devices::kAll).reason, HasSubstr("needs a ROW_MAJOR A"));
      c.trans_a = 0;
      c.determinism = Determinism::kBatchInvariant;
      EXPECT_THAT(find_defect(c, Devices::kAll).reason, HasSubstr("does not support batch_invariant"));
      c.determinism = Determinism::kFast;
    }
    EXPECT_EQ(field_of(c, Devices::kAll), legal ? "" : "packed_b");
    EXPECT_FALSE(find_defect(c, Devices::kGpus).ok());
    c.trans_b = 0;
    EXPECT_FALSE(find_defect(c, Devices::kAll).ok());
  }
}

TEST(Products, ReasonsNameTheDtypes) {
  ProblemClass c = class_of(kProducts[0], Op::kMatmul);
  c.a = DType::kI32;
  EXPECT_THAT(find_defect(c, Devices::kAll).reason,
              HasSubstr("dtype i32 is not one of f32, f16, bf16, i8, f8e4m3"));
  c.a = DType::kF16;
  EXPECT_EQ(find_defect(c, Devices::kAll).reason, "dtype f32 differs from f16, the dtype of a");
}

// ---- The table in docs/numerics.md

std::string or_unsupported(const char* arithmetic) { return *arithmetic ? arithmetic : "UNSUPPORTED"; }

// Everything but the dtypes. Rows with the same text share a line.
std::string columns_of(const Product& p) {
  std::string maths;
  for (const auto& [math, name] :
       {std::pair{Math::kTf32, "TF32"}, {Math::kInt8, "INT8"}, {Math::kBf16, "BF16"}})
    if (p.maths.has(math)) absl::StrAppend(&maths, maths.empty() ? "" : ", ", name);
  return absl::StrCat(p.ops.has(Op::kMatmulArgmax) ? "both" : "matmul", " | ", name_of(p.sums), " | ",
                      p.results.has(DType::kI32) ? "a float, or i32 without an epilogue" : "a float", " | ",
                      maths, maths.empty() ? "| " : " | ", or_unsupported(p.on_cpu), " | ",
                      or_unsupported(p.on_cuda), " | ", or_unsupported(p.on_rocm), " |\n");
}

std::string dtypes_of(const Product& p) {
  if (has_scales_apart(p.a)) return "fp8 or fp4 by fp8 or fp4, both with block scales";
  if (row_of(p.b).kind == DTypeKind::kGroups)
    return has_scales_apart(p.b) ? "a float by fp8 or fp4 with block scales" : "a float by u4_128";
  if (is_blocks(p.b))
    return p.on_cuda[0] == '\0' ? "a float by another block format"
                                : "a float by q4_0, q8_0, q4_1, q4_k, q6_k or mxfp4";
  return p.a == p.b ? std::string(name_of(p.a)) : absl::StrCat(name_of(p.a), " by ", name_of(p.b));
}

std::string markdown() {
  std::string text =
      "| A and B | ops | sums | D | `math` | CPU | CUDA | ROCm |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < kProducts.size();) {
    std::string names = dtypes_of(kProducts[i]);
    const std::string columns = columns_of(kProducts[i]);
    for (++i; i < kProducts.size() && columns_of(kProducts[i]) == columns; ++i)
      if (!is_blocks(kProducts[i].b)) absl::StrAppend(&names, ", ", dtypes_of(kProducts[i]));
    const std::string row = absl::StrCat("| ", names, " | ", columns);
    if (text.find(row) == std::string::npos) text += row;  // formats share a row
  }
  return text;
}

TEST(Products, MatchesTheTableInTheDocuments) {
  std::ifstream file(LATHE_NUMERICS_MD);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(markdown()), std::string::npos)
      << "docs/numerics.md must contain exactly this table:\n"
      << markdown();
}

}  // namespace
}  // namespace lathe
