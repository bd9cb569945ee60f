// Which combinations of dtypes a matmul accepts, and the class of each.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "fake_device.h"
#include "request/request.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock};
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;

// Buffers of f32 are large enough for every other dtype of A and B.
struct ProductRequest : MatmulRequest {
  ProductRequest(lathe_dtype in, lathe_dtype out) : MatmulRequest(5, 6, 7) {
    desc.a.dtype = desc.b.dtype = in;
    desc.d.dtype = out;
  }
};

// The table has values that the enum of the public header cannot hold.
void set_dtype(DType value, lathe_dtype* out) {
  const auto number = static_cast<std::underlying_type_t<lathe_dtype>>(value);
  std::memcpy(out, &number, sizeof(*out));
}

absl::Status read(const lathe_matmul_desc& desc, Request* out) {
  return read_matmul(&desc, Purpose::kRun, kCpu, nullptr, out);
}

TEST(Dtypes, AcceptsExactlyTheRowsOfTheTable) {
  constexpr RequestContext kGpu = {"cuda:0", false, MissPolicy::kBlock};
  for (const RequestContext& context : {kCpu, kGpu})
    for (const DTypeRow& a : kDTypes)
      for (const DTypeRow& b : kDTypes)
        for (const DTypeRow& d : kDTypes) {
          ProductRequest p(LATHE_F32, LATHE_F32);
          set_dtype(a.value, &p.desc.a.dtype);
          set_dtype(b.value, &p.desc.b.dtype);
          set_dtype(d.value, &p.desc.d.dtype);
          p.desc.k = 2 * b.elements;
          const Product* row = find_product(a.value, b.value);
          // Blocks whose scales are apart are described by the elements and a lathe_scale.
          const bool legal = row != nullptr && meet(row->requests, context.devices()) &&
                             row->results.has(d.value) && !has_scales_apart(b.value);
          Request r;
          const absl::Status status = read_matmul(&p.desc, Purpose::kPlan, context, nullptr, &r);
          EXPECT_EQ(status.ok(), legal) << a.name << " by " << b.name << " to " << d.name << ": " << status;
          if (!legal) continue;
          EXPECT_EQ(r.key.problem.a, a.value);
          EXPECT_EQ(r.key.problem.b, b.value);
          EXPECT_EQ(r.key.problem.d, d.value);
          EXPECT_TRUE(find_defect(r.key.problem, context.devices()).ok());
        }
}

TEST(Dtypes, OtherResultsAreUnsupported) {
  for (lathe_dtype out : {LATHE_I32, LATHE_I64, LATHE_I8, LATHE_F8_E4M3, LATHE_Q4_0}) {
    const ProductRequest p(LATHE_F32, out);
    Request r;
    EXPECT_EQ(read(p.desc, &r).code(), kUnsupported) << out;
  }
}

TEST(Dtypes, AAndBMustHaveTheSameDtype) {
  for (lathe_dtype other : {LATHE_F32, LATHE_F8_E5M2, LATHE_I8, LATHE_F8_E4M3_FNUZ}) {
    ProductRequest p(LATHE_F8_E4M3, LATHE_F32);
    p.desc.b.dtype = other;
    Request r;
    const absl::Status status = read(p.desc, &r);
    EXPECT_EQ(status.code(), kInvalid) << status;
    EXPECT_NE(status.message().find("the dtype of a"), absl::string_view::npos) << status;
  }
}

// Only the CPU multiplies f32 A by 16-bit B. No other dtypes of A and B may differ.
TEST(Dtypes, WeightsOf16BitsAreWidenedOnTheCpu) {
  constexpr RequestContext kGpu = {"cuda:0", false, MissPolicy::kBlock};
  const lathe_dtype floats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
  for (lathe_dtype a : floats) {
    for (lathe_dtype b : floats) {
      ProductRequest p(a, LATHE_F32);
      p.desc.b.dtype = b;
      p.desc.math = LATHE_MATH_TF32;
      const bool widened = a == LATHE_F32 && b != a;
      Request r;
      absl::Status status = read(p.desc, &r);
      EXPECT_EQ(status.code(), a == b || widened ? absl::StatusCode::kOk : kInvalid) << status;
      if (status.ok()) {
        EXPECT_EQ(static_cast<int>(r.key.problem.a), a);
        EXPECT_EQ(static_cast<int>(r.key.problem.b), b);
        EXPECT_EQ(r.key.problem.math == Math::kTf32, b == LATHE_F32) << "of f32 by f32 alone";
      }
      status = read_matmul(&p.desc, Purpose::kRun, kGpu, nullptr, &r);
      EXPECT_EQ(status.code(), a == b ? absl::StatusCode::kOk : widened ? kUnsupported : kInvalid) << status;
    }
  }
  ProductRequest p(LATHE_F32, LATHE_F32);
  p.desc.b.dtype = LATHE_BF16;
  Request r;
  EXPECT_EQ(
      read_matmul(&p.desc, Purpose::kRun, kGpu, nullptr, &r).message(),
      "matmul f32 by bf16 a=n b=t m=5 n=6 k=7 batch=1 on cuda:0: b: only the CPU multiplies f32 by bf16; "
      "this device multiplies f32 by f32, q4_0, q8_0, q4_1, q4_k, q6_k, mxfp4, u4_128");
}

TEST(Dtypes, MessagesNameTheDtypes) {
  Request r;
  ProductRequest p(LATHE_I32, LATHE_F32);
  EXPECT_EQ(
      read(p.desc, &r).message(),
      "matmul i32 a=n b=t m=5 n=6 k=7 batch=1 d=f32 on cpu: a: dtype i32 is not one of f32, f16, bf16, i8, "
      "f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz");
  ProductRequest q(LATHE_F8_E4M3, LATHE_I32);
  ProductRequest beyond(LATHE_F32, LATHE_F32);
  set_dtype(static_cast<DType>(kDTypeCount), &beyond.desc.a.dtype);
  EXPECT_NE(read(beyond.desc, &r).message().find(absl::StrCat("a: dtype ", kDTypeCount, " is unknown")),
            absl::string_view::npos)
      << read(beyond.desc, &r);
  EXPECT_EQ(
      read(q.desc, &r).message(),
      "matmul f8e4m3 a=n b=t m=5 n=6 k=7 batch=1 d=i32 on cpu: d: dtype i32 is not one of f32, f16, bf16");
}

TEST(Dtypes, QuantisedOperandsSupportTheWholeEpilogue) {
  for (lathe_dtype in : {LATHE_I8, LATHE_F8_E4M3, LATHE_F8_E5M2, LATHE_F8_E4M3_FNUZ, LATHE_F8_E5M2_FNUZ}) {
    ProductRequest p(in, LATHE_BF16);
    std::vector<float> c(30), bias(6), residual(30);
    p.desc.c.data = c.data();
    p.desc.c.dtype = LATHE_F32;
    p.desc.epilogue.alpha = 0.25f;
    p.desc.epilogue.beta = 2.0f;
    p.desc.epilogue.bias = bias.data();
    p.desc.epilogue.bias_dtype = LATHE_F16;
    p.desc.epilogue.activation = LATHE_ACTIVATION_GELU;
    p.desc.epilogue.residual.data = residual.data();
    p.desc.epilogue.residual.dtype = LATHE_F32;
    Request r;
    ASSERT_TRUE(read(p.desc, &r).ok()) << read(p.desc, &r);
    EXPECT_EQ(r.key.problem.c, DType::kF32);
    EXPECT_EQ(r.key.problem.bias, DType::kF16);
    EXPECT_EQ(r.key.problem.residual, DType::kF32);
    EXPECT_EQ(r.key.problem.activation, Activation::kGelu);
    // The epilogue's operands must be floats.
    p.desc.epilogue.bias_dtype = LATHE_I8;
    EXPECT_EQ(read(p.desc, &r).code(), kUnsupported);
    p.desc.epilogue.bias_dtype = LATHE_F16;
    p.desc.c.dtype = LATHE_F8_E4M3;
    EXPECT_EQ(read(p.desc, &r).code(), kUnsupported);
  }
}

TEST(Dtypes, ExactSumsHaveNoEpilogue) {
  static float some[30];
  struct {
    const char* says;
    std::function<void(lathe_matmul_desc*)> change;
  } const cases[] = {
      {"alpha 2 is not 1", [](lathe_matmul_desc* d) { d->epilogue.alpha = 2; }},
      {"c is set",
       [](lathe_matmul_desc* d) {
         d->epilogue.beta = -1;
         d->c.data = some;
         d->c.dtype = LATHE_F32;
       }},
      {"bias is set",
       [](lathe_matmul_desc* d) {
         d->epilogue.bias = some;
         d->epilogue.bias_dtype = LATHE_F32;
       }},
      {"activation is set", [](lathe_matmul_desc* d) { d->epilogue.activation = LATHE_ACTIVATION_RELU; }},
      {"residual is set",
       [](lathe_matmul_desc* d) {
         d->epilogue.residual.data = some;
         d->epilogue.residual.dtype = LATHE_F32;
       }},
  };
  for (const auto& c : cases) {
    Request r;
    ProductRequest p(LATHE_I8, LATHE_I32);
    ASSERT_TRUE(read(p.desc, &r).ok());
    c.change(&p.desc);
    const absl::Status status = read(p.desc, &r);
    EXPECT_EQ(status.code(), kInvalid) << c.says << ": " << status;
    EXPECT_NE(status.message().find(c.says), absl::string_view::npos) << status;
  }
  Request r;
  ProductRequest p(LATHE_I8, LATHE_I32);
  p.desc.d.layout = LATHE_COLUMN_MAJOR;
  EXPECT_EQ(read(p.desc, &r).code(), kUnsupported);
}

TEST(Dtypes, LeadingDimensionsAreInElements) {
  // A is 5 by 7 bytes and ends where D begins. With a leading dimension of 8 it overlaps D.
  ProductRequest p(LATHE_I8, LATHE_I32);
  p.desc.d.data = reinterpret_cast<char*>(p.a.data()) + 36;
  Request r;
  EXPECT_TRUE(read(p.desc, &r).ok()) << read(p.desc, &r);
  p.desc.a.leading_dimension = 8;
  EXPECT_EQ(read(p.desc, &r).code(), kInvalid);
}

TEST(Dtypes, MathTf32AppliesToF32Only) {
  for (lathe_dtype in : {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I8, LATHE_F8_E4M3}) {
    ProductRequest p(in, LATHE_F32);
    p.desc.math = LATHE_MATH_TF32;
    Request r;
    ASSERT_TRUE(read(p.desc, &r).ok());
    EXPECT_EQ(r.key.problem.math, in == LATHE_F32 ? Math::kTf32 : Math::kStrict) << in;
  }
  ProductRequest p(LATHE_F32, LATHE_F32);
  p.desc.math = static_cast<lathe_math>(4);
  Request r;
  const absl::Status status = read(p.desc, &r);
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_NE(status.message().find("math 4 is unknown"), absl::string_view::npos) << status;
}

TEST(Dtypes, MathBf16AppliesToF32ByBf16Only) {
  for (lathe_dtype a : {LATHE_F32, LATHE_BF16}) {
    for (lathe_dtype b : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
      if (a == LATHE_BF16 && b != a) continue;
      ProductRequest p(a, LATHE_F32);
      p.desc.b.dtype = b;
      p.desc.math = LATHE_MATH_BF16;
      Request r;
      ASSERT_TRUE(read(p.desc, &r).ok());
      const bool named = a == LATHE_F32 && b == LATHE_BF16;
      EXPECT_EQ(r.key.problem.math, named ? Math::kBf16 : Math::kStrict) << a << " by " << b;
    }
  }
}

// If the CPU has no kernel for a request, the status is UNSUPPORTED and the message names the request.
TEST(Dtypes, CpuHasNoKernelsFor8BitFloats) {
  FakeDevice fake;
  for (lathe_dtype in : {LATHE_F8_E4M3, LATHE_F8_E5M2, LATHE_F8_E4M3_FNUZ, LATHE_F8_E5M2_FNUZ}) {
    ProductRequest p(in, LATHE_F16);
    EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &p.desc), LATHE_UNSUPPORTED);
    const std::string message = lathe_last_error();
    EXPECT_EQ(message.find("matmul " + std::string(name_of(static_cast<DType>(in))) +
                           " a=n b=t m=5 n=6 k=7 batch=1 d=f16 on fake: "),
              0u)
        << message;
    lathe_plan* plan = nullptr;
    EXPECT_EQ(lathe_plan_matmul(fake.device.get(), &p.desc, &plan), LATHE_UNSUPPORTED);
    EXPECT_EQ(warm_weight(fake.device.get(), p.desc, 4), LATHE_UNSUPPORTED);
  }
  EXPECT_EQ(fake.driver->launches.load(), 0);
  // An empty product needs no kernel.
  ProductRequest empty(LATHE_I8, LATHE_I32);
  empty.desc.k = 0;
  std::vector<int32_t> d(30, 77);
  empty.desc.d.data = d.data();
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &empty.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(d, std::vector<int32_t>(30, 0));
}

}  // namespace
}  // namespace lathe
