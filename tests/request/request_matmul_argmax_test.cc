#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/packed.h"
#include "fake_device.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock},
                         kGpu = {"cuda:0", false, MissPolicy::kBlock};
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;

// f32 rows (M by K) times a weight stored N by K, as in the head of a language model.
struct MatmulArgmaxRequest {
  MatmulArgmaxRequest(int64_t m, int64_t n, int64_t k)
      : a(static_cast<size_t>(m * k)),
        b(static_cast<size_t>(k * n)),
        bias(static_cast<size_t>(n)),
        indices(static_cast<size_t>(m)),
        values(static_cast<size_t>(m)) {
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.a.data = a.data();
    desc.b.data = b.data();
    desc.a.dtype = desc.b.dtype = desc.logits_dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.indices = indices.data();
  }
  std::vector<float> a, b, bias;
  std::vector<int64_t> indices;
  std::vector<float> values;
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
};

absl::Status read(const lathe_matmul_argmax_desc& desc, Request* out, const RequestContext& context = kCpu,
                  Purpose purpose = Purpose::kRun, void* stream = nullptr) {
  return read_matmul_argmax(&desc, purpose, context, stream, out);
}
absl::Status read(const lathe_matmul_argmax_desc& desc) {
  Request request;
  return read(desc, &request);
}

TEST(ReadMatmulArgmax, RefusalsNameTheCause) {
  using D = lathe_matmul_argmax_desc;
  static const lathe_scale scale = LATHE_SCALE_INIT;
  static const lathe_chain unknown = {sizeof(lathe_chain), nullptr, 99, 0};
  static const lathe_tuning negative = {sizeof(lathe_tuning), nullptr, LATHE_CHAIN_TUNING, 0, -1, 0};
  const auto inside = [](void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; };
  struct {
    const char* name;
    std::function<void(D*)> change;
    absl::StatusCode code;
    const char* says;
  } const cases[] = {
      {"desc size", [](D* d) { d->struct_size = 3; }, kInvalid, "struct_size 3"},
      {"a size", [](D* d) { d->a.struct_size = 3; }, kInvalid, "a: struct_size 3"},
      {"b size", [](D* d) { d->b.struct_size--; }, kInvalid, "b: struct_size"},
      {"chain", [](D* d) { d->next = &unknown; }, kUnsupported, "kind 99"},
      {"tuning", [](D* d) { d->next = reinterpret_cast<const lathe_chain*>(&negative); }, kInvalid,
       "split_k -1"},
      {"a chain", [](D* d) { d->a.next = &unknown; }, kUnsupported, "a: no chain"},
      {"b scale", [](D* d) { d->b.scale = &scale; }, kUnsupported, "b: scale"},
      {"a packed", [](D* d) { d->a.packed_layout = 2; }, kUnsupported, "a: packed_layout 2"},
      {"b packed", [](D* d) { d->b.packed_layout = 2; }, kInvalid, "b: packed_layout 0x2 has version 0"},
      {"b packed elsewhere", [](D* d) { d->b.packed_layout = packed_layout_id(kByColumn, DType::kF32); },
       kInvalid, "is not the layout for n 100"},
      {"ldb of a packed b",
       [](D* d) {
         d->b.packed_layout = packed_layout_id(kColumns16, DType::kF32);
         d->b.leading_dimension = 40;
       },
       kInvalid, "leading_dimension 40 must be 0"},
      {"k of packed blocks",
       [](D* d) {
         d->b.dtype = LATHE_Q8_0;
         d->b.packed_layout = packed_layout_id(kColumns16, DType::kQ8_0);
       },
       kInvalid, "k 33 is not a multiple of 32"},
      {"a layout", [](D* d) { d->a.layout = static_cast<lathe_layout>(2); }, kInvalid, "a: layout 2"},
      {"a dtype none", [](D* d) { d->a.dtype = LATHE_DTYPE_NONE; }, kInvalid, "a: dtype is not set"},
      {"a dtype 77", [](D* d) { d->a.dtype = static_cast<lathe_dtype>(77); }, kInvalid, "a: dtype 77"},
      {"a i8", [](D* d) { d->a.dtype = d->b.dtype = LATHE_I8; }, kUnsupported, "a: dtype i8"},
      {"b f8", [](D* d) { d->b.dtype = LATHE_F8_E4M3; }, kUnsupported, "b: dtype f8e4m3"},
      {"blocks of a row-major b",
       [](D* d) {
         d->b.dtype = LATHE_Q8_0;
         d->b.layout = LATHE_ROW_MAJOR;
       },
       kUnsupported, "b: q8_0 has its blocks along K, so only COLUMN_MAJOR is supported"},
      {"blocks that K does not fill", [](D* d) { d->b.dtype = LATHE_Q8_0; }, kInvalid,
       "k 33 is not a multiple of 32, the elements of a block of q8_0"},
      {"ldb of parts of blocks",
       [](D* d) {
         d->b.dtype = LATHE_Q8_0;
         d->k = 32;
         d->b.leading_dimension = 33;
       },
       kInvalid, "ldb 33 is not a multiple of 32"},
      {"mixed", [](D* d) { d->a.dtype = LATHE_F16; }, kInvalid, "b: dtype f32 differs from f16"},
      {"logits none", [](D* d) { d->logits_dtype = LATHE_DTYPE_NONE; }, kInvalid, "logits: dtype"},
      {"logits i32", [](D* d) { d->logits_dtype = LATHE_I32; }, kUnsupported, "logits: dtype i32"},
      {"bias dtype",
       [](D* d) {
         d->bias = d->b.data;
         d->bias_dtype = LATHE_I32;
       },
       kUnsupported, "bias: dtype i32"},
      {"bias no dtype", [](D* d) { d->bias = d->b.data; }, kInvalid, "bias: dtype is not set"},
      {"index dtype", [](D* d) { d->index_dtype = LATHE_F32; }, kInvalid, "index_dtype 1"},
      {"determinism", [](D* d) { d->determinism = static_cast<lathe_determinism>(3); }, kInvalid,
       "determinism 3"},
      {"math", [](D* d) { d->math = static_cast<lathe_math>(4); }, kInvalid, "math 4"},
      {"policy", [](D* d) { d->miss_policy = static_cast<lathe_miss_policy>(4); }, kInvalid, "miss_policy 4"},
      {"m -1", [](D* d) { d->m = -1; }, kInvalid, "m -1 < 0"},
      {"n large", [](D* d) { d->n = int64_t{1} << 31; }, kInvalid, "n 2147483648 >"},
      {"k min", [](D* d) { d->k = INT64_MIN; }, kInvalid, "< 0"},
      {"n 0", [](D* d) { d->n = 0; }, kInvalid, "n 0: an empty row has no maximum"},
      {"lda", [](D* d) { d->a.leading_dimension = 32; }, kInvalid, "lda 32 < k 33"},
      {"ldb", [](D* d) { d->b.leading_dimension = 32; }, kInvalid, "ldb 32 < k 33"},
      {"ldb max", [](D* d) { d->b.leading_dimension = INT64_MAX; }, kInvalid, "b: spans more than"},
      {"a batch", [](D* d) { d->a.batch_stride = 7; }, kInvalid, "a: batch_stride"},
      {"b batch", [](D* d) { d->b.batch_stride = 7; }, kInvalid, "b: batch_stride"},
      {"offset i32",
       [](D* d) {
         d->index_dtype = LATHE_I32;
         d->index_offset = INT32_MAX - 98;
       },
       kInvalid, "index_offset"},
      {"offset i64", [](D* d) { d->index_offset = INT64_MAX - 98; }, kInvalid, "index_offset"},
      {"a NULL", [](D* d) { d->a.data = nullptr; }, kInvalid, "a is NULL"},
      {"b NULL", [](D* d) { d->b.data = nullptr; }, kInvalid, "b is NULL"},
      {"indices NULL", [](D* d) { d->indices = nullptr; }, kInvalid, "indices is NULL"},
      {"indices in a", [&](D* d) { d->indices = inside(d->a.data, 8); }, kInvalid, "indices overlaps a"},
      {"indices in b", [&](D* d) { d->indices = inside(d->b.data, 8); }, kInvalid, "indices overlaps b"},
      {"indices in bias",
       [&](D* d) {
         d->bias = inside(d->indices, 8);
         d->bias_dtype = LATHE_F32;
       },
       kInvalid, "indices overlaps bias"},
      {"values in a", [&](D* d) { d->values = reinterpret_cast<float*>(inside(d->a.data, 4)); }, kInvalid,
       "values overlaps a"},
      {"values in indices", [&](D* d) { d->values = reinterpret_cast<float*>(inside(d->indices, 4)); },
       kInvalid, "values overlaps indices"},
  };
  for (const auto& bad : cases) {
    MatmulArgmaxRequest good(5, 100, 33);
    ASSERT_TRUE(read(good.desc).ok()) << read(good.desc);
    bad.change(&good.desc);
    const absl::Status status = read(good.desc);
    EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status;
    EXPECT_NE(std::string(status.message()).find(bad.says), std::string::npos) << bad.name << ": " << status;
    EXPECT_EQ(std::string(status.message()).find("matmul_argmax"), 0u) << bad.name << ": " << status;
  }
  EXPECT_EQ(read_matmul_argmax(nullptr, Purpose::kRun, kCpu, nullptr, nullptr).message(),
            "matmul_argmax: desc is NULL");
}

TEST(ReadMatmulArgmax, FillsClassDimensionsAndArguments) {
  MatmulArgmaxRequest r(40, 100, 33);
  r.desc.values = r.values.data();
  r.desc.bias = r.bias.data();
  r.desc.bias_dtype = LATHE_F32;
  r.desc.logits_dtype = LATHE_BF16;
  r.desc.index_dtype = LATHE_I32;
  r.desc.index_offset = -7;
  r.desc.a.leading_dimension = 33;
  r.desc.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  Request out;
  ASSERT_TRUE(read(r.desc, &out).ok()) << read(r.desc);
  const ProblemClass& c = out.key.problem;
  EXPECT_EQ(c.op, Op::kMatmulArgmax);
  EXPECT_EQ(c.a, DType::kF32);
  EXPECT_EQ(c.b, DType::kF32);
  EXPECT_EQ(c.bias, DType::kF32);
  EXPECT_EQ(c.logits, DType::kBF16);
  EXPECT_EQ(c.d, DType::kI32);
  EXPECT_EQ(c.c, DType::kNone);
  EXPECT_EQ(c.residual, DType::kNone);
  EXPECT_EQ(c.wants_values, 1);
  EXPECT_EQ(c.trans_a, 0);
  EXPECT_EQ(c.trans_b, 1);
  EXPECT_EQ(c.determinism, Determinism::kBatchInvariant);
  EXPECT_EQ(c.n, 100);
  EXPECT_EQ(c.k, 33);
  EXPECT_EQ(c.m_lo, 33);  // the bucket of 40
  EXPECT_EQ(c.m_hi, 64);
  EXPECT_EQ(out.dims.m, 40);
  EXPECT_EQ(out.dims.batch, 1);
  EXPECT_EQ(out.args.a, r.a.data());
  EXPECT_EQ(out.args.b, r.b.data());
  EXPECT_EQ(out.args.bias, r.bias.data());
  EXPECT_EQ(out.args.d, r.indices.data());
  EXPECT_EQ(out.args.values, r.values.data());
  EXPECT_EQ(out.args.lda, 33);
  EXPECT_EQ(out.args.ldb, 33);
  EXPECT_EQ(out.args.index_offset, -7);
  EXPECT_EQ(out.args.m, 40);
  EXPECT_EQ(out.args.n, 100);
  EXPECT_EQ(out.args.k, 33);
  EXPECT_EQ(out.args.batch, 1);
  EXPECT_EQ(out.args.alpha, 1.0f);
  EXPECT_FALSE(out.needs_no_kernel());
}

TEST(ReadMatmulArgmax, TakesWeightsInBlocks) {
  MatmulArgmaxRequest r(4, 100, 512);
  r.desc.b.dtype = LATHE_Q6_K;
  r.desc.b.leading_dimension = 768;
  r.desc.math = LATHE_MATH_INT8;
  Request out;
  ASSERT_TRUE(read(r.desc, &out).ok()) << read(r.desc);
  EXPECT_EQ(out.key.problem.b, DType::kQ6_K);
  EXPECT_EQ(out.key.problem.math, Math::kInt8);
  EXPECT_EQ(out.args.ldb, 768);
  // The last byte of the last column ends B: indices behind it do not overlap.
  const int64_t bytes = (99 * 3 + 2) * 210;
  r.desc.indices = reinterpret_cast<char*>(r.b.data()) + bytes;
  EXPECT_TRUE(read(r.desc).ok()) << read(r.desc);
  r.desc.indices = reinterpret_cast<char*>(r.b.data()) + bytes - 1;
  EXPECT_EQ(read(r.desc).code(), kInvalid);
  EXPECT_FALSE(read(r.desc, &out, kGpu).ok());
}

// What the request does not ask for is not part of the class. Without a bias, bias_dtype has no effect.
TEST(ReadMatmulArgmax, LeavesOutValuesAndBiasUnlessAskedFor) {
  MatmulArgmaxRequest r(5, 100, 33);
  r.desc.bias_dtype = LATHE_F32;
  Request out;
  ASSERT_TRUE(read(r.desc, &out).ok());
  EXPECT_EQ(out.key.problem.bias, DType::kNone);
  EXPECT_EQ(out.key.problem.wants_values, 0);
  EXPECT_EQ(out.args.bias, nullptr);
  EXPECT_EQ(out.args.values, nullptr);
}

// `math` has no effect on the class of other dtypes.
TEST(ReadMatmulArgmax, MathAppliesToItsDtypesOnly) {
  MatmulArgmaxRequest r(5, 100, 33);
  r.desc.math = LATHE_MATH_TF32;
  Request out;
  ASSERT_TRUE(read(r.desc, &out).ok());
  EXPECT_EQ(out.key.problem.math, Math::kTf32);
  r.desc.a.dtype = r.desc.b.dtype = LATHE_BF16;
  Request half;
  ASSERT_TRUE(read(r.desc, &half).ok());
  EXPECT_EQ(half.key.problem.math, Math::kStrict);
  r.desc.math = LATHE_MATH_BF16;
  Request same, weights;
  ASSERT_TRUE(read(r.desc, &same).ok());
  EXPECT_EQ(same.key.problem.math, Math::kStrict);
  r.desc.a.dtype = LATHE_F32;
  ASSERT_TRUE(read(r.desc, &weights).ok());
  EXPECT_EQ(weights.key.problem.math, Math::kBf16);
}

// k16 if the bases of the inputs and their rows are multiples of 16 bytes, whatever the alignment of the outputs; else
// kElement or kByte.
TEST(ReadMatmulArgmax, K16DependsOnTheInputsOnly) {
  const auto alignment = [](int64_t k, int64_t a_offset, int64_t index_offset) {
    static std::vector<std::byte> memory(1 << 16);
    const auto base = (reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63};
    lathe_matmul_argmax_desc desc = MatmulArgmaxRequest(3, 8, k).desc;
    desc.a.data = reinterpret_cast<void*>(base + static_cast<uintptr_t>(a_offset));
    desc.b.data = reinterpret_cast<void*>(base + 8192);
    desc.indices = reinterpret_cast<void*>(base + 32768 + static_cast<uintptr_t>(index_offset));
    Request out;
    EXPECT_TRUE(read(desc, &out, kGpu).ok());
    return out.key.problem.alignment;
  };
  EXPECT_EQ(alignment(64, 0, 0), Alignment::k16);
  EXPECT_EQ(alignment(64, 0, 8), Alignment::k16);
  EXPECT_EQ(alignment(64, 4, 0), Alignment::kElement);
  EXPECT_EQ(alignment(63, 0, 0), Alignment::kElement);
  EXPECT_EQ(alignment(64, 2, 0), Alignment::kByte);
  EXPECT_EQ(alignment(64, 0, 4), Alignment::kByte);
}

TEST(ReadMatmulArgmax, ZeroRowsNeedNoPointers) {
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.a.dtype = desc.b.dtype = desc.logits_dtype = LATHE_F16;
  Request out;
  EXPECT_TRUE(read(desc, &out).ok()) << read(desc);
  EXPECT_TRUE(out.nothing_to_do);
}

// With K = 0 every logit is its bias or zero. The CPU needs no kernel. A GPU multiplies a zero that the driver owns.
TEST(ReadMatmulArgmax, EmptyProductReadsNoOperands) {
  MatmulArgmaxRequest r(5, 100, 0);
  r.desc.a.data = r.desc.b.data = nullptr;
  Request cpu, gpu;
  ASSERT_TRUE(read(r.desc, &cpu).ok()) << read(r.desc);
  EXPECT_TRUE(cpu.needs_no_kernel());
  EXPECT_FALSE(cpu.reads_operands());
  ASSERT_TRUE(read(r.desc, &gpu, kGpu).ok());
  EXPECT_FALSE(gpu.needs_no_kernel());
  EXPECT_FALSE(gpu.reads_operands());
  EXPECT_EQ(gpu.key.problem.k, 1);
  EXPECT_EQ(gpu.args.k, 1);
  EXPECT_EQ(gpu.args.lda, 0);
}

TEST(ReadMatmulArgmax, PlansReadNoPointersAndWarmUpNoRows) {
  lathe_matmul_argmax_desc desc = MatmulArgmaxRequest(40, 100, 33).desc;
  desc.a.data = desc.b.data = desc.indices = nullptr;
  Request plan, warm;
  ASSERT_TRUE(read(desc, &plan, kCpu, Purpose::kPlan).ok());
  EXPECT_EQ(plan.dims.m, 40);
  desc.m = -3;
  ASSERT_TRUE(read(desc, &warm, kCpu, Purpose::kWarm).ok());
  EXPECT_EQ(warm.dims.m, 1);
  EXPECT_EQ(warm.key.problem.n, 100);
}

TEST(ReadMatmulArgmax, StreamMustBeNullOnTheCpu) {
  MatmulArgmaxRequest r(5, 100, 33);
  int stream = 0;
  Request out;
  EXPECT_EQ(read(r.desc, &out, kCpu, Purpose::kRun, &stream).code(), kInvalid);
  Request gpu;
  ASSERT_TRUE(read(r.desc, &gpu, kGpu, Purpose::kRun, &stream).ok());
  EXPECT_EQ(gpu.stream, &stream);
}

TEST(ReadMatmulArgmax, LargestIndexMayJustFit) {
  MatmulArgmaxRequest r(1, 100, 3);
  r.desc.index_dtype = LATHE_I32;
  r.desc.index_offset = INT32_MAX - 99;
  EXPECT_TRUE(read(r.desc).ok()) << read(r.desc);
}

}  // namespace
}  // namespace lathe
