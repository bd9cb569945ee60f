#include "core/generic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/products.h"

namespace lathe {
namespace {

const Target kCpu = {Backend::kCpu, "x86-64", ""}, kGpu = {Backend::kCuda, "sm_75", ""},
             kAmdGpu = {Backend::kRocm, "gfx9-4-generic", ""};

ProblemClass some_class() {
  ProblemClass c;
  c.a = c.b = DType::kBF16;
  c.c = DType::kF16;
  c.d = DType::kF32;
  c.bias = DType::kBF16;
  c.residual = DType::kF16;
  c.trans_b = 1;
  c.activation = Activation::kSilu;
  c.n = 4096;
  c.k = 128;
  c.m_lo = c.m_hi = 7;
  return c;
}

TEST(Generic, FormHoldsEveryOpenFieldOfTheClass) {
  const ProblemClass c = some_class();
  const int64_t form = form_of(c);
  const auto bits = [form](int at) { return form >> at & 15; };
  EXPECT_EQ(form & 3, 2);  // only B is column-major
  EXPECT_EQ(bits(Form::kActivation), 4);
  ProblemClass gate = c;
  gate.activation = Activation::kSiluClamped;
  gate.combine = Combine::kMultiply;
  EXPECT_EQ(form_of(gate) >> Form::kActivation & 7, 5);
  EXPECT_EQ(form_of(gate) >> Form::kCombine & 1, 1);
  EXPECT_EQ(bits(Form::kC), 2);
  EXPECT_EQ(bits(Form::kD), 1);
  EXPECT_EQ(bits(Form::kBias), 3);
  EXPECT_EQ(bits(Form::kResidual), 2);
  EXPECT_EQ(bits(Form::kLogits), 0);
  EXPECT_EQ(bits(Form::kValues), 0);
  ProblemClass compares = c;
  compares.op = Op::kMatmulArgmax;
  compares.logits = DType::kF16;
  compares.wants_values = 1;
  EXPECT_EQ(form_of(compares) >> Form::kLogits & 15, 2);
  EXPECT_NE(form_of(compares) >> Form::kValues & 15, 0);
}

TEST(Generic, ClassDoesNotDependOnFieldsOfTheForm) {
  const ProblemClass g = generic_class_of(some_class());
  ProblemClass other = some_class();
  other.n = 1;
  other.k = 33;
  other.m_lo = 513;
  other.m_hi = Bucket::kOpenEnd;
  other.trans_a = 1;
  other.c = other.bias = other.residual = DType::kNone;
  other.d = DType::kF16;
  other.activation = Activation::kNone;
  other.alignment = Alignment::k16;
  EXPECT_TRUE(generic_class_of(other) == g);
  EXPECT_TRUE(generic_class_of(g) == g);
  other.a = other.b = DType::kF32;
  EXPECT_FALSE(generic_class_of(other) == g);
}

int64_t count(const Target& target, const ProblemClass& c) {
  const std::vector<ProblemClass> classes = generic_classes(target);
  return std::count(classes.begin(), classes.end(), generic_class_of(c));
}
std::vector<Alignment> alignments_of(const Target& target) {
  if (target.backend == Backend::kCpu) return {Alignment::kElement};
  return {Alignment::kElement, Alignment::k16, Alignment::kByte};
}

TEST(Generic, ListsEveryProductOnDevicesWithKernels) {
  for (const Target& target : {kCpu, kGpu, kAmdGpu})
    for (const Product& p : kProducts)
      for (Op op : {Op::kMatmul, Op::kMatmulArgmax})
        for (const DTypeRow& d : kDTypes)
          for (Alignment alignment : alignments_of(target)) {
            if (!p.ops.has(op) || !(op == Op::kMatmul ? p.results : kIndices).has(d.value)) continue;
            ProblemClass c;
            c.op = op;
            c.a = p.a;
            c.b = p.b;
            c.d = d.value;
            c.alignment = alignment;
            const bool has_kernel = meet(p.kernels, devices_of(target.backend)) &&
                                    !(is_blocks(p.b) && op == Op::kMatmulArgmax) &&
                                    row_of(p.b).kind != DTypeKind::kGroups;
            EXPECT_EQ(count(target, c), has_kernel ? 1 : 0)
                << describe(c, {1, 1, 1, 1}) << " alignment " << static_cast<int>(alignment);
          }
}

TEST(Generic, ListsEveryArgmax) {
  for (const Target& target : {kCpu, kGpu, kAmdGpu})
    for (DType a : {DType::kF32, DType::kF16, DType::kBF16})
      for (Alignment alignment : alignments_of(target)) {
        ProblemClass c;
        c.op = Op::kArgmax;
        c.a = a;
        c.d = DType::kI32;
        c.alignment = alignment;
        EXPECT_EQ(count(target, c), 1) << name_of(a);
      }
}

// The counts of the devices' generic classes, written down apart from the table.
TEST(Generic, ListsTheExpectedNumberOfClasses) {
  // CPU: argmax 3; products of one dtype 3 + 3, i8 2; f32 by f16 and bf16 2 + 2; matmuls of
  // floats by each block format 3.
  size_t formats = 0;
  for (const DTypeRow& row : kDTypes) formats += row.kind == DTypeKind::kBlocks;
  EXPECT_EQ(generic_classes(kCpu).size(), 15 + 3 * formats);
  // GPUs: argmax 3; products of one dtype 3 + 3, i8 2, fp8 4; matmuls of floats by six block formats 3; each in two
  // alignments.
  EXPECT_EQ(generic_classes(kGpu).size(), 66u);
}

TEST(Generic, BlockFormatsAreColumnMajor) {
  ProblemClass c = some_class();
  c.b = DType::kQ4_0;
  c.trans_b = 0;
  EXPECT_EQ(generic_class_of(c).trans_b, 1);
}

// GPUs have kernels of the formats that they decode.
TEST(Generic, HasKernelsOfBlockFormatsForGpus) {
  ProblemClass c = some_class();
  for (const Target& target : {kGpu, kAmdGpu}) {
    for (DType b : {DType::kQ4_0, DType::kQ8_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K, DType::kMXFP4}) {
      c.b = b;
      EXPECT_TRUE(may_fall_back(c));
      EXPECT_EQ(count(target, c), 1) << name_of(b);
    }
    c.b = DType::kQ5_K;
    EXPECT_EQ(count(target, c), 0);
    c.b = DType::kMXF8E4M3;
    EXPECT_FALSE(may_fall_back(c)) << "scales apart";
    EXPECT_EQ(count(target, c), 0);
  }
}

// Each format would need three more kernels in the bundle.
TEST(Generic, HasNoKernelThatComparesLogitsOfBlockFormats) {
  ProblemClass c = some_class();
  for (DType b : {DType::kQ8_0, DType::kQ6_K}) {
    c.op = Op::kMatmul;
    c.b = b;
    EXPECT_TRUE(may_fall_back(c));
    c.op = Op::kMatmulArgmax;
    EXPECT_FALSE(may_fall_back(c));
    EXPECT_EQ(count(kCpu, c), 0);
  }
}

TEST(Generic, CannotReplaceAKernelWithScalesOrZeroPoints) {
  for (int field = 0; field < 4; ++field) {
    ProblemClass c = some_class();
    if (field == 0) c.scale_a = Scale::kPerTensor;
    if (field == 1) c.scale_b = Scale::kPerChannel;
    if (field == 2) c.zero_a = 1;
    if (field == 3) c.zero_b = Scale::kPerTensor;
    EXPECT_FALSE(may_fall_back(c)) << field;
  }
}

TEST(Generic, ReplacesAProductOnlyIfDeterminismIsFast) {
  ProblemClass c = some_class();
  EXPECT_TRUE(may_fall_back(c));
  c.determinism = Determinism::kRunToRun;
  EXPECT_FALSE(may_fall_back(c));
  c.op = Op::kArgmax;
  EXPECT_TRUE(may_fall_back(c));
}

}  // namespace
}  // namespace lathe
