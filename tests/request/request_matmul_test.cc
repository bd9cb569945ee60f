#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fake_device.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock};

absl::Status read(const lathe_matmul_desc& desc, Request* out, Purpose purpose = Purpose::kRun,
                  void* stream = nullptr) {
  return read_matmul(&desc, purpose, kCpu, stream, out);
}
absl::Status read(const lathe_matmul_desc& desc, Purpose purpose = Purpose::kRun) {
  Request request;
  return read(desc, &request, purpose);
}

// A request that uses everything: 7 by 33 times 33 by 40, C, bias, residual.
struct Full : MatmulRequest {
  Full() : MatmulRequest(7, 40, 33), c(7 * 40), bias(40), residual(7 * 40) {
    desc.c.data = c.data();
    desc.c.dtype = LATHE_F32;
    desc.epilogue.beta = 0.5f;
    desc.epilogue.bias = bias.data();
    desc.epilogue.bias_dtype = LATHE_F32;
    desc.epilogue.residual.data = residual.data();
    desc.epilogue.residual.dtype = LATHE_F32;
  }
  std::vector<float> c, bias, residual;
};

struct BadCase {
  const char* name;
  std::function<void(lathe_matmul_desc*)> change;
  absl::StatusCode code;
  const char* says;  // part of the message
};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;

const lathe_scale kScale = LATHE_SCALE_INIT;
const float kOne = 1.0f;
const lathe_chain kUnknown = {sizeof(lathe_chain), nullptr, 99, 0};
const lathe_chain kTiny = {8, nullptr, LATHE_CHAIN_TUNING, 0};

std::vector<BadCase> bad_cases() {
  using D = lathe_matmul_desc;
  const auto with_chain = [](const void* element) {
    return [element](D* d) { d->next = static_cast<const lathe_chain*>(element); };
  };
  static const lathe_tuning negative_split = {sizeof(lathe_tuning), nullptr, LATHE_CHAIN_TUNING, 0, -1, 0};
  static const lathe_tuning large_split = {sizeof(lathe_tuning), nullptr, LATHE_CHAIN_TUNING, 0, 65536, 0};
  static const lathe_tuning negative_candidate = {
      sizeof(lathe_tuning), nullptr, LATHE_CHAIN_TUNING, 0, 0, -1};
  static const lathe_tuning reserved = {sizeof(lathe_tuning), nullptr, LATHE_CHAIN_TUNING, 1, 0, 0};
  static const lathe_tuning larger = {sizeof(lathe_tuning) + 8, nullptr, LATHE_CHAIN_TUNING, 0, 0, 0};
  static const lathe_tuning first = LATHE_TUNING_INIT;
  static const lathe_tuning twice = {
      sizeof(lathe_tuning), reinterpret_cast<const lathe_chain*>(&first), LATHE_CHAIN_TUNING, 0, 0, 0};
  static const lathe_workspace nowhere = {
      sizeof(lathe_workspace), nullptr, LATHE_CHAIN_WORKSPACE, 0, nullptr, 64};
  static const lathe_workspace skewed = {sizeof(lathe_workspace),
                                         nullptr,
                                         LATHE_CHAIN_WORKSPACE,
                                         0,
                                         reinterpret_cast<void*>(uintptr_t{4096 + 8}),
                                         64};
  static const lathe_workspace short_one = {
      sizeof(lathe_workspace) - 8, nullptr, LATHE_CHAIN_WORKSPACE, 0, nullptr, 0};
  static const lathe_workspace flagged = {
      sizeof(lathe_workspace), nullptr, LATHE_CHAIN_WORKSPACE, 2, nullptr, 0};
  return {
      {"desc size", [](D* d) { d->struct_size = 12; }, kInvalid, "struct_size 12"},
      {"a size", [](D* d) { d->a.struct_size = 8; }, kInvalid, "a: struct_size 8"},
      {"b size", [](D* d) { d->b.struct_size = 0; }, kInvalid, "b: struct_size 0"},
      {"c size", [](D* d) { d->c.struct_size++; }, kInvalid, "c: struct_size"},
      {"d size", [](D* d) { d->d.struct_size--; }, kInvalid, "d: struct_size"},
      {"epilogue size", [](D* d) { d->epilogue.struct_size = 1; }, kInvalid, "epilogue: struct_size 1"},
      {"residual size", [](D* d) { d->epilogue.residual.struct_size = 1; }, kInvalid,
       "residual: struct_size 1"},
      {"unknown chain", with_chain(&kUnknown), kUnsupported, "kind 99"},
      {"tiny chain", with_chain(&kTiny), kInvalid, "struct_size 8"},
      {"tuning size", with_chain(&larger), kInvalid, "lathe_tuning: struct_size"},
      {"tuning reserved", with_chain(&reserved), kUnsupported, "reserved"},
      {"tuning split -1", with_chain(&negative_split), kInvalid, "split_k -1"},
      {"tuning split 65536", with_chain(&large_split), kInvalid, "split_k 65536"},
      {"tuning candidate -1", with_chain(&negative_candidate), kInvalid, "candidate -1"},
      {"tuning twice", with_chain(&twice), kInvalid, "twice"},
      {"workspace NULL", with_chain(&nowhere), kInvalid, "data is NULL but bytes is 64"},
      {"workspace flags", with_chain(&flagged), kUnsupported, "lathe_workspace: flags 2"},
      {"workspace skewed", with_chain(&skewed), kInvalid, "data is not 64-byte aligned"},
      {"workspace size", with_chain(&short_one), kInvalid, "lathe_workspace: struct_size"},
      {"a chain", [](D* d) { d->a.next = &kUnknown; }, kUnsupported, "a: no chain"},
      {"epilogue chain", [](D* d) { d->epilogue.next = &kUnknown; }, kUnsupported, "epilogue: no chain"},
      {"a scale", [](D* d) { d->a.scale = &kScale; }, kUnsupported, "scale_a: only a matmul of i8"},
      {"b zero point", [](D* d) { d->b.zero_point = &kOne; }, kUnsupported, "zero_b: only a matmul of i8"},
      {"a packed", [](D* d) { d->a.packed_layout = 3; }, kUnsupported, "a: packed_layout 3"},
      {"b packed", [](D* d) { d->b.packed_layout = 3; }, kInvalid, "b: packed_layout 0x3 has version 0"},
      {"d reserved", [](D* d) { d->d.reserved = 1; }, kUnsupported, "d: reserved"},
      {"residual scale", [](D* d) { d->epilogue.residual.scale = &kScale; }, kUnsupported, "residual: scale"},
      {"alpha device", [](D* d) { d->epilogue.alpha_device = &kOne; }, kUnsupported, "alpha_device"},
      {"beta device", [](D* d) { d->epilogue.beta_device = &kOne; }, kUnsupported, "beta_device"},
      {"a dtype none", [](D* d) { d->a.dtype = LATHE_DTYPE_NONE; }, kInvalid, "a: dtype is not set"},
      {"a dtype 77", [](D* d) { d->a.dtype = static_cast<lathe_dtype>(77); }, kInvalid, "a: dtype 77"},
      {"a i64", [](D* d) { d->a.dtype = LATHE_I64; }, kUnsupported, "a: dtype i64"},
      {"b i32", [](D* d) { d->b.dtype = LATHE_I32; }, kUnsupported, "b: dtype i32"},
      {"d f8", [](D* d) { d->d.dtype = LATHE_F8_E4M3; }, kUnsupported, "d: dtype f8e4m3"},
      {"d i32", [](D* d) { d->d.dtype = LATHE_I32; }, kUnsupported, "d: dtype i32"},
      {"mixed", [](D* d) { d->a.dtype = LATHE_F16; }, kInvalid, "b: dtype f32 differs from f16"},
      {"c dtype", [](D* d) { d->c.dtype = LATHE_DTYPE_NONE; }, kInvalid, "c: dtype"},
      {"bias dtype", [](D* d) { d->epilogue.bias_dtype = LATHE_DTYPE_NONE; }, kInvalid, "bias: dtype"},
      {"residual dtype", [](D* d) { d->epilogue.residual.dtype = LATHE_I64; }, kUnsupported,
       "residual: dtype"},
      {"a layout", [](D* d) { d->a.layout = static_cast<lathe_layout>(5); }, kInvalid, "a: layout 5"},
      {"c layout", [](D* d) { d->c.layout = LATHE_COLUMN_MAJOR; }, kUnsupported, "c: only ROW_MAJOR"},
      {"d layout", [](D* d) { d->d.layout = LATHE_COLUMN_MAJOR; }, kUnsupported, "d: only ROW_MAJOR"},
      {"residual layout", [](D* d) { d->epilogue.residual.layout = LATHE_COLUMN_MAJOR; }, kUnsupported,
       "residual: only ROW_MAJOR"},
      {"activation", [](D* d) { d->epilogue.activation = static_cast<lathe_activation>(9); }, kInvalid,
       "activation 9"},
      {"combine", [](D* d) { d->epilogue.combine = static_cast<lathe_combine>(2); }, kInvalid, "combine 2"},
      {"combine without a residual",
       [](D* d) { d->epilogue.combine = LATHE_COMBINE_MULTIPLY, d->epilogue.residual.data = nullptr; },
       kInvalid, "combine: multiply needs a residual"},
      {"determinism", [](D* d) { d->determinism = static_cast<lathe_determinism>(9); }, kInvalid,
       "determinism 9"},
      {"miss policy", [](D* d) { d->miss_policy = static_cast<lathe_miss_policy>(9); }, kInvalid,
       "miss_policy 9"},
      {"m -1", [](D* d) { d->m = -1; }, kInvalid, "m -1 < 0"},
      {"n -1", [](D* d) { d->n = -1; }, kInvalid, "n -1 < 0"},
      {"k min", [](D* d) { d->k = INT64_MIN; }, kInvalid, "< 0"},
      {"batch -1", [](D* d) { d->batch = -1; }, kInvalid, "batch -1 < 0"},
      {"m 2^31", [](D* d) { d->m = int64_t{1} << 31; }, kInvalid, "m 2147483648 > 2147483647"},
      {"k max", [](D* d) { d->k = INT64_MAX; }, kInvalid, "k 9223372036854775807 >"},
      {"bytes",
       [](D* d) {
         d->m = INT32_MAX;
         d->a.leading_dimension = INT64_MAX / 16;
       },
       kInvalid, "a: spans more than"},
      {"pitch", [](D* d) { d->b.leading_dimension = INT64_MAX; }, kInvalid, "b: spans more than"},
      {"stride bytes",
       [](D* d) {
         d->batch = 3;
         d->d.batch_stride = INT64_MAX / 4;
       },
       kInvalid, "d: spans more than"},
      {"lda", [](D* d) { d->a.leading_dimension = 31; }, kInvalid, "lda 31 < k 33"},
      {"ldb transposed", [](D* d) { d->b.leading_dimension = 32; }, kInvalid, "ldb 32 < k 33"},
      {"ldb",
       [](D* d) {
         d->b.layout = LATHE_ROW_MAJOR;
         d->b.leading_dimension = 39;
       },
       kInvalid, "ldb 39 < n 40"},
      {"lda transposed",
       [](D* d) {
         d->a.layout = LATHE_COLUMN_MAJOR;
         d->a.leading_dimension = 6;
       },
       kInvalid, "lda 6 < m 7"},
      {"ldc", [](D* d) { d->c.leading_dimension = 39; }, kInvalid, "ldc 39 < n 40"},
      {"ldd", [](D* d) { d->d.leading_dimension = 39; }, kInvalid, "ldd 39 < n 40"},
      {"ldr", [](D* d) { d->epilogue.residual.leading_dimension = 1; }, kInvalid, "ldr 1 < n 40"},
      {"ldd negative", [](D* d) { d->d.leading_dimension = -40; }, kInvalid, "ldd -40 < 0"},
      {"stride negative",
       [](D* d) {
         d->batch = 2;
         d->a.batch_stride = -1;
       },
       kInvalid, "a: batch_stride -1 < 0"},
      {"d broadcast", [](D* d) { d->batch = 2; }, kInvalid, "d overlaps itself"},
      {"d stride",
       [](D* d) {
         d->batch = 2;
         d->d.batch_stride = 279;
       },
       kInvalid, "d overlaps itself"},
      {"a NULL", [](D* d) { d->a.data = nullptr; }, kInvalid, "a is NULL"},
      {"b NULL", [](D* d) { d->b.data = nullptr; }, kInvalid, "b is NULL"},
      {"c NULL", [](D* d) { d->c.data = nullptr; }, kInvalid, "c is NULL"},
      {"d NULL", [](D* d) { d->d.data = nullptr; }, kInvalid, "d is NULL"},
      {"d in a", [](D* d) { d->d.data = d->a.data; }, kInvalid, "d overlaps a"},
      {"d in b", [](D* d) { d->d.data = static_cast<char*>(d->b.data) + 4; }, kInvalid, "d overlaps b"},
      {"d in bias", [](D* d) { d->epilogue.bias = static_cast<char*>(d->d.data) + 400; }, kInvalid,
       "d overlaps bias"},
      {"d in c", [](D* d) { d->c.data = static_cast<char*>(d->d.data) + 4; }, kInvalid, "d overlaps c"},
      {"d is c of another dtype",
       [](D* d) {
         d->c.data = d->d.data;
         d->c.dtype = LATHE_BF16;
       },
       kInvalid, "d overlaps c"},
      {"d in residual", [](D* d) { d->epilogue.residual.data = static_cast<char*>(d->d.data) - 160; },
       kInvalid, "d overlaps residual"},
  };
}

TEST(ReadMatmul, RefusalsNameTheCause) {
  for (const BadCase& bad : bad_cases()) {
    Full full;
    ASSERT_TRUE(read(full.desc).ok()) << read(full.desc);
    bad.change(&full.desc);
    const absl::Status status = read(full.desc);
    EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
    EXPECT_NE(std::string(status.message()).find(bad.says), std::string::npos) << bad.name << ": " << status;
    EXPECT_EQ(std::string(status.message()).find("matmul"), 0u) << bad.name << ": " << status;
  }
}

TEST(ReadMatmul, MessageNamesRequestAndCause) {
  MatmulRequest r(7, 4096, 33);
  r.desc.a.leading_dimension = 31;
  EXPECT_EQ(read(r.desc).message(), "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1 on cpu: lda 31 < k 33");
  EXPECT_EQ(read_matmul(nullptr, Purpose::kRun, kCpu, nullptr, nullptr).message(), "matmul: desc is NULL");
}

TEST(ReadMatmul, StreamMustBeNullOnTheCpu) {
  Full full;
  Request request;
  int stream = 0;
  EXPECT_EQ(read(full.desc, &request, Purpose::kRun, &stream).code(), kInvalid);
  Request on_gpu;
  EXPECT_TRUE(
      read_matmul(&full.desc, Purpose::kRun, {"cuda:0", false, MissPolicy::kBlock}, &stream, &on_gpu).ok());
  EXPECT_EQ(on_gpu.stream, &stream);
}

TEST(ReadMatmul, FillsClassDimensionsAndArguments) {
  Full full;
  full.desc.batch = 3;
  full.desc.a.leading_dimension = 35;
  full.desc.a.batch_stride = 1000;
  full.desc.c.batch_stride = 0;
  full.desc.d.batch_stride = 280;
  full.desc.epilogue.residual.batch_stride = 281;
  full.desc.epilogue.alpha = 2.0f;
  full.desc.epilogue.activation = LATHE_ACTIVATION_SILU;
  full.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  full.desc.miss_policy = LATHE_MISS_ERROR;
  // The buffers hold only one matrix, but the reader does not access them. D (3 * 1120 bytes) must not overlap the
  // other operands.
  std::vector<float> d(3 * 280);
  full.desc.d.data = d.data();
  std::vector<float> residual(2 * 281 + 280);
  full.desc.epilogue.residual.data = residual.data();
  std::vector<float> a(2000 + 7 * 35);
  full.desc.a.data = a.data();
  Request r;
  ASSERT_TRUE(read(full.desc, &r).ok()) << read(full.desc);

  const ProblemClass& c = r.key.problem;
  EXPECT_EQ(c.op, Op::kMatmul);
  EXPECT_EQ(c.a, DType::kF32);
  EXPECT_EQ(c.b, DType::kF32);
  EXPECT_EQ(c.c, DType::kF32);
  EXPECT_EQ(c.d, DType::kF32);
  EXPECT_EQ(c.bias, DType::kF32);
  EXPECT_EQ(c.residual, DType::kF32);
  EXPECT_EQ(c.trans_a, 0);
  EXPECT_EQ(c.trans_b, 1);
  EXPECT_EQ(c.activation, Activation::kSilu);
  EXPECT_EQ(c.determinism, Determinism::kBatchInvariant);
  EXPECT_EQ(c.n, 40);
  EXPECT_EQ(c.k, 33);
  EXPECT_EQ(c.m_lo, 7);
  EXPECT_EQ(c.m_hi, 7);
  EXPECT_EQ(r.miss_policy, MissPolicy::kError);
  EXPECT_FALSE(r.needs_no_kernel());
  EXPECT_EQ(r.dims.batch, 3);

  const ArgumentBlock& args = r.args;
  EXPECT_EQ(args.a, a.data());
  EXPECT_EQ(args.b, full.b.data());
  EXPECT_EQ(args.c, full.c.data());
  EXPECT_EQ(args.d, d.data());
  EXPECT_EQ(args.bias, full.bias.data());
  EXPECT_EQ(args.residual, residual.data());
  EXPECT_EQ(args.lda, 35);
  EXPECT_EQ(args.ldb, 33);
  EXPECT_EQ(args.ldc, 40);
  EXPECT_EQ(args.ldd, 40);
  EXPECT_EQ(args.ldr, 40);
  EXPECT_EQ(args.stride_a, 1000);
  EXPECT_EQ(args.stride_b, 0);
  EXPECT_EQ(args.stride_c, 0);
  EXPECT_EQ(args.stride_d, 280);
  EXPECT_EQ(args.stride_r, 281);
  EXPECT_EQ(args.m, 7);
  EXPECT_EQ(args.n, 40);
  EXPECT_EQ(args.k, 33);
  EXPECT_EQ(args.batch, 3);
  EXPECT_EQ(args.alpha, 2.0f);
  EXPECT_EQ(args.beta, 0.5f);
}

TEST(ReadMatmul, ReadsTheChain) {
  MatmulRequest m(1, 1, 1);
  alignas(64) char memory[64];
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 77;
  tuning.candidate = 2;
  lathe_workspace workspace = LATHE_WORKSPACE_INIT;
  workspace.next = reinterpret_cast<const lathe_chain*>(&tuning);
  workspace.data = memory;
  workspace.bytes = sizeof memory;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&workspace);
  Request r;
  ASSERT_TRUE(read(m.desc, &r).ok());
  EXPECT_EQ(r.key.split_k, 77);
  EXPECT_EQ(r.key.candidate, 2);
  EXPECT_EQ(r.workspace, memory);
  EXPECT_EQ(r.workspace_bytes, 64u);
  EXPECT_FALSE(r.workspace_is_zeroed);
  workspace.flags = LATHE_WORKSPACE_ZEROED;
  ASSERT_TRUE(read(m.desc, &r).ok());
  EXPECT_TRUE(r.workspace_is_zeroed);
}

TEST(ReadMatmul, BetaZeroIgnoresC) {
  Full full;
  full.desc.epilogue.beta = 0.0f;
  full.desc.c.data = full.desc.d.data;
  full.desc.c.dtype = LATHE_DTYPE_NONE;
  full.desc.c.leading_dimension = 1;
  Request r;
  EXPECT_TRUE(read(full.desc, &r).ok());
  EXPECT_EQ(r.key.problem.c, DType::kNone);
}

TEST(ReadMatmul, DMayEqualCOrResidual) {
  Full full;
  full.desc.c.data = full.desc.d.data;
  EXPECT_TRUE(read(full.desc).ok()) << read(full.desc);
  full.desc.epilogue.residual.data = full.desc.d.data;
  EXPECT_TRUE(read(full.desc).ok()) << read(full.desc);
  full.desc.c.leading_dimension = 41;
  EXPECT_EQ(read(full.desc).code(), kInvalid);
}

TEST(ReadMatmul, SlicesOfOneBufferAreLegal) {
  // A is columns [0, 33) and D columns [33, 73) of one 7 by 80 buffer.
  std::vector<float> buffer(7 * 80);
  MatmulRequest m(7, 40, 33);
  m.desc.a.data = buffer.data();
  m.desc.a.leading_dimension = 80;
  m.desc.d.data = buffer.data() + 33;
  m.desc.d.leading_dimension = 80;
  EXPECT_TRUE(read(m.desc).ok()) << read(m.desc);
  m.desc.d.data = buffer.data() + 32;
  EXPECT_EQ(read(m.desc).code(), kInvalid);
}

TEST(ReadMatmul, HeadsSideBySideAreLegal) {
  // 4 heads of 40 columns in rows of 160.
  std::vector<float> d(7 * 160);
  MatmulRequest m(7, 40, 33);
  m.desc.batch = 4;
  m.desc.d.data = d.data();
  m.desc.d.leading_dimension = 160;
  m.desc.d.batch_stride = 40;
  EXPECT_TRUE(read(m.desc).ok()) << read(m.desc);
  m.desc.d.batch_stride = 39;
  EXPECT_EQ(read(m.desc).code(), kInvalid);
}

TEST(ReadMatmul, MisalignedPointersAreLegal) {
  std::vector<char> a(7 * 33 * 4 + 3), b(33 * 40 * 4 + 3), d(7 * 40 * 4 + 3);
  MatmulRequest m(7, 40, 33);
  m.desc.a.data = a.data() + 1;
  m.desc.b.data = b.data() + 2;
  m.desc.d.data = d.data() + 3;
  EXPECT_TRUE(read(m.desc).ok()) << read(m.desc);
}

TEST(ReadMatmul, EmptySizesNeedNoKernelAndNoPointers) {
  for (int zero = 0; zero < 3; ++zero) {
    lathe_matmul_desc desc = MatmulRequest(2, 3, 4).desc;
    (zero == 0 ? desc.m : zero == 1 ? desc.n : desc.batch) = 0;
    desc.a.data = desc.b.data = desc.d.data = nullptr;
    Request r;
    EXPECT_TRUE(read(desc, &r).ok()) << zero;
    EXPECT_TRUE(r.nothing_to_do) << zero;
  }
  MatmulRequest m(2, 3, 0);
  m.desc.a.data = m.desc.b.data = nullptr;
  Request r;
  EXPECT_TRUE(read(m.desc, &r).ok()) << read(m.desc);
  EXPECT_FALSE(r.nothing_to_do);
  EXPECT_TRUE(r.empty_product);
  m.desc.d.data = nullptr;
  EXPECT_EQ(read(m.desc).code(), kInvalid) << "D is written";
}

TEST(ReadMatmul, PlansNeedNoPointersAndWarmUpsNoM) {
  lathe_matmul_desc desc = MatmulRequest(2, 3, 4).desc;
  desc.a.data = desc.b.data = desc.d.data = nullptr;
  EXPECT_EQ(read(desc).code(), kInvalid);
  EXPECT_TRUE(read(desc, Purpose::kPlan).ok());
  desc.m = -5;
  EXPECT_EQ(read(desc, Purpose::kPlan).code(), kInvalid);
  Request weight;
  EXPECT_TRUE(read(desc, &weight, Purpose::kWarm).ok());
  EXPECT_EQ(weight.key.problem.m_lo, 1);
}

}  // namespace
}  // namespace lathe
