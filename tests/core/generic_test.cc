#include "core/generic.h"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Generic, ListsAGenericClassForEveryRequest) {
  for (const Target& target : {kCpu, kGpu, kAmdGpu}) {
    const std::vector<ProblemClass> classes = generic_classes(target);
    const bool cpu = target.backend == Backend::kCpu;
    for (Op op : {Op::kMatmul, Op::kArgmax, Op::kMatmulArgmax})
      for (DType a : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2,
                      DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz})
        for (DType d : {DType::kF16, DType::kI32})
          for (Alignment alignment : {Alignment::kElement, Alignment::k16, Alignment::kByte}) {
            if (!is_float(a) && (cpu || op != Op::kMatmul)) continue;
            if (op == Op::kMatmul && d == DType::kI32 && a != DType::kI8) continue;
            if (cpu && alignment != Alignment::kElement) continue;
            ProblemClass c;
            c.op = op;
            c.a = a;
            c.b = op == Op::kArgmax ? DType::kNone : a;
            c.d = d;
            c.alignment = alignment;
            EXPECT_EQ(std::count(classes.begin(), classes.end(), generic_class_of(c)), 1)
                << describe(c, {1, 1, 1, 1}) << " alignment " << static_cast<int>(alignment);
          }
  }
}

TEST(Generic, ListsBlockFormatWeightsOnlyOnTheCpu) {
  ProblemClass c = some_class();
  c.b = DType::kQ4_0;
  c.trans_b = 1;
  const ProblemClass g = generic_class_of(c);
  EXPECT_EQ(g.b, DType::kQ4_0);
  EXPECT_EQ(g.trans_b, 1) << "blocks lie along K";
  const auto count = [&](const Target& target) {
    const std::vector<ProblemClass> classes = generic_classes(target);
    return std::count(classes.begin(), classes.end(), g);
  };
  EXPECT_EQ(count(kCpu), 1);
  EXPECT_EQ(count(kGpu), 0);
}

TEST(Generic, ListsF32By16BitWeightsOnlyOnTheCpu) {
  for (Op op : {Op::kMatmul, Op::kMatmulArgmax})
    for (DType b : {DType::kF16, DType::kBF16}) {
      ProblemClass c = some_class();
      c.op = op;
      c.a = DType::kF32;
      c.b = b;
      for (const auto& [target, wanted] : {std::pair{kCpu, 1}, {kGpu, 0}}) {
        const std::vector<ProblemClass> classes = generic_classes(target);
        EXPECT_EQ(std::count(classes.begin(), classes.end(), generic_class_of(c)), wanted)
            << describe(c, {1, 1, 1, 1});
      }
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
