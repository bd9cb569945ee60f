// Grouped products: the class that groups share, where their slots lie, and what is refused with which reason.
#include "request/request_grouped_matmul.h"

#include <gmock/gmock.h>

#include <functional>

namespace lathe {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument, kUnsupported = absl::StatusCode::kUnimplemented;

// 4 tokens of 2 slots each, 3 groups, N 6, K 8. Its memory is never read.
struct Grouped {
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  alignas(16) float a[512] = {}, b[512] = {}, d[512] = {}, bias[32] = {};
  int32_t routing[512] = {};
  float weights[512] = {};

  Grouped() {
    desc.grouping = LATHE_GROUPING_INDEXED;
    desc.m = 4, desc.n = 6, desc.k = 8, desc.groups = 3, desc.used = 2;
    desc.routing = routing;
    desc.a.data = a, desc.b.data = b, desc.d.data = d;
    desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR;
    desc.b.batch_stride = 6 * 8;
    desc.d.leading_dimension = 2 * 6, desc.d.batch_stride = 6;
  }
  Grouped(const Grouped&) = delete;
  absl::Status read(GroupedRequest* r, Purpose purpose = Purpose::kRun, bool is_cpu = true) const {
    RequestContext context;
    context.device = is_cpu ? "cpu" : "cuda:0";
    context.is_cpu = is_cpu;
    return read_grouped_matmul(&desc, purpose, context, nullptr, r);
  }
};

TEST(GroupedRequest, SharesTheClassOfOneGroup) {
  Grouped g;
  g.desc.epilogue.bias = g.bias;
  g.desc.epilogue.bias_dtype = LATHE_F32;
  GroupedRequest r;
  ASSERT_TRUE(g.read(&r).ok()) << g.read(&r);
  EXPECT_EQ(r.product.request.key.problem.op, Op::kMatmul);
  EXPECT_EQ(r.product.request.key.problem.n, 6);
  EXPECT_EQ(r.product.request.key.problem.k, 8);
  EXPECT_EQ(r.product.request.key.problem.bias, DType::kF32);
  EXPECT_EQ(r.product.request.args.batch, 1);
  EXPECT_EQ(r.slots, 8);
  EXPECT_EQ(r.b_stride, 6 * 8 * 4);
  EXPECT_EQ(r.bias_stride, 6 * 4);
  EXPECT_EQ(describe(r), "grouped_matmul f32 a=n b=t m=4 n=6 k=8 groups=3 used=2 bias=f32");
}

// 8 slots of 3 groups: 3 rows in the mean.
TEST(GroupedRequest, PlansForTheMeanRowsOfAGroup) {
  Grouped g;
  g.desc.a.data = g.desc.b.data = g.desc.d.data = nullptr;
  GroupedRequest of_cpu, of_gpu;
  ASSERT_TRUE(g.read(&of_cpu, Purpose::kPlan).ok());
  const Request& cpu = of_cpu.product.request;
  EXPECT_EQ(cpu.dims.m, 3);
  EXPECT_EQ(cpu.dims.batch, 1);
  EXPECT_EQ(cpu.key.problem.m_lo, 3);
  EXPECT_EQ(cpu.key.problem.m_hi, 3);
  EXPECT_EQ(cpu.key.problem.rows, Rows::kIndexed) << "their places are listed";
  ASSERT_TRUE(g.read(&of_gpu, Purpose::kPlan, /*is_cpu=*/false).ok());
  const Request& gpu = of_gpu.product.request;
  EXPECT_EQ(gpu.key.problem.m_lo, 3);
  EXPECT_EQ(gpu.key.problem.rows, Rows::kIndexed);
  EXPECT_EQ(gpu.dims.m, 8);
  EXPECT_EQ(gpu.dims.batch, 3);
  // The class of the launch, if the operands are as aligned as a plan assumes.
  Grouped with_memory;
  GroupedRequest run;
  ASSERT_TRUE(with_memory.read(&run, Purpose::kRun, /*is_cpu=*/false).ok());
  EXPECT_TRUE(gpu.key.problem == run.product.request.key.problem);
}

TEST(GroupedRequest, PlacesSlots) {
  Grouped g;
  GroupedRequest r;
  ASSERT_TRUE(g.read(&r).ok()) << g.read(&r);
  EXPECT_EQ(r.inner, 2);
  EXPECT_EQ(r.a.outer_bytes, 8 * 4);
  EXPECT_EQ(r.a.inner_bytes, 0);  // batch_stride 0: the slots of a token share its row
  EXPECT_EQ(r.d.outer_bytes, 12 * 4);
  EXPECT_EQ(r.d.inner_bytes, 6 * 4);

  g.desc.grouping = LATHE_GROUPING_COUNTS;
  g.desc.used = 1;
  g.desc.a.batch_stride = 4 * 8;
  g.desc.d.leading_dimension = 6, g.desc.d.batch_stride = 4 * 6;
  GroupedRequest counts;
  ASSERT_TRUE(g.read(&counts).ok()) << g.read(&counts);
  EXPECT_EQ(counts.inner, 4);
  EXPECT_EQ(counts.slots, 12);
  EXPECT_EQ(counts.a.outer_bytes, 4 * 8 * 4);
  EXPECT_EQ(counts.a.inner_bytes, 8 * 4);
}

TEST(GroupedRequest, SumsInF32) {
  Grouped g;
  g.desc.router_weights = g.weights;
  g.desc.d.dtype = LATHE_BF16;
  g.desc.d.leading_dimension = 7;
  GroupedRequest r;
  ASSERT_TRUE(g.read(&r).ok()) << g.read(&r);
  EXPECT_EQ(r.product.request.key.problem.d, DType::kF32);
  EXPECT_EQ(r.sum, DType::kBF16);
  EXPECT_EQ(r.sum_row_bytes, 7 * 2);
  EXPECT_EQ(r.weights_stride, 2);
}

TEST(GroupedRequest, NothingToDo) {
  for (int64_t lathe_grouped_matmul_desc::*size :
       {&lathe_grouped_matmul_desc::m, &lathe_grouped_matmul_desc::n, &lathe_grouped_matmul_desc::groups,
        &lathe_grouped_matmul_desc::used}) {
    Grouped g;
    g.desc.*size = 0;
    g.desc.a.data = g.desc.b.data = g.desc.d.data = nullptr;
    GroupedRequest r;
    ASSERT_TRUE(g.read(&r).ok()) << g.read(&r);
    EXPECT_TRUE(r.nothing_to_do);
  }
}

TEST(GroupedRequest, WarmUpIgnoresMAndPointers) {
  Grouped g;
  g.desc.m = -5;
  g.desc.a.data = g.desc.b.data = g.desc.d.data = nullptr;
  g.desc.routing = nullptr;
  GroupedRequest r;
  EXPECT_TRUE(g.read(&r, Purpose::kWarm).ok()) << g.read(&r, Purpose::kWarm);
}

TEST(GroupedRequest, RefusalsNameTheCause) {
  const struct {
    std::function<void(Grouped&)> change;
    absl::StatusCode code;
    const char* cause;
  } cases[] = {
      {[](Grouped& g) { g.desc.m = -1; }, kInvalid, "m -1 is not in [0, 2147483647]"},
      {[](Grouped& g) { g.desc.groups = int64_t{1} << 31; }, kInvalid, "groups 2147483648 is not in"},
      {[](Grouped& g) { g.desc.m = 1 << 30, g.desc.used = 4; }, kInvalid, "m * used is 4294967296"},
      {[](Grouped& g) { g.desc.grouping = static_cast<lathe_grouping>(9); }, kInvalid,
       "grouping 9 is unknown"},
      {[](Grouped& g) { g.desc.grouping = LATHE_GROUPING_OFFSETS; }, kInvalid, "used 2 must be 1"},
      {[](Grouped& g) { g.desc.routing_stride = 1; }, kInvalid,
       "routing_stride 1 is neither 0 nor at least used 2"},
      {[](Grouped& g) { g.desc.routing_stride = INT64_MAX / 4; }, kInvalid,
       "routing_stride 2305843009213693951: the rows of m 4 span more than 2^63 - 1 bytes"},
      {[](Grouped& g) { g.desc.router_weights_stride = 4; }, kInvalid, "must be 0 without router_weights"},
      {[](Grouped& g) { g.desc.routing = nullptr; }, kInvalid, "routing is NULL"},
      {[](Grouped& g) { g.desc.a.data = nullptr; }, kInvalid, "a is NULL"},
      {[](Grouped& g) { g.desc.b.data = nullptr; }, kInvalid, "b is NULL"},
      {[](Grouped& g) { g.desc.d.data = nullptr; }, kInvalid, "d is NULL"},
      {[](Grouped& g) { g.desc.d.data = g.a; }, kInvalid, "d overlaps a"},
      {[](Grouped& g) { g.desc.d.data = g.b; }, kInvalid, "d overlaps b"},
      {[](Grouped& g) { g.desc.d.data = g.routing; }, kInvalid, "d overlaps routing"},
      {[](Grouped& g) { g.desc.router_weights = g.weights, g.desc.d.data = g.weights; }, kInvalid,
       "d overlaps router_weights"},
      {[](Grouped& g) { g.desc.d.batch_stride = 5; }, kInvalid, "d overlaps itself"},
      {[](Grouped& g) { g.desc.a.leading_dimension = 7; }, kInvalid, "lda 7 < k 8"},
      {[](Grouped& g) { g.desc.b.leading_dimension = 7; }, kInvalid, "ldb 7 < k 8"},
      {[](Grouped& g) { g.desc.struct_size = 8; }, kInvalid, "struct_size 8"},
      {[](Grouped& g) { g.desc.epilogue.beta = 1; }, kUnsupported, "beta 1 is not 0"},
      {[](Grouped& g) { g.desc.epilogue.residual.data = g.bias; }, kUnsupported, "no residual"},
      {[](Grouped& g) { g.desc.a.layout = LATHE_COLUMN_MAJOR; }, kUnsupported, "a: only ROW_MAJOR"},
      {[](Grouped& g) { g.desc.d.layout = LATHE_COLUMN_MAJOR; }, kUnsupported, "d: only ROW_MAJOR"},
      {[](Grouped& g) { g.desc.a.dtype = g.desc.b.dtype = LATHE_I32; }, kUnsupported, "a: dtype i32"},
      {[](Grouped& g) { g.desc.router_weights = g.weights, g.desc.d.dtype = LATHE_I32; }, kUnsupported,
       "d: dtype i32"},
      {[](Grouped& g) { g.desc.reserved2 = 1; }, kUnsupported, "reserved is not 0"}};
  for (const auto& c : cases) {
    Grouped g;
    c.change(g);
    GroupedRequest r;
    const absl::Status status = g.read(&r);
    EXPECT_EQ(status.code(), c.code) << status << " instead of " << c.cause;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(c.cause));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("grouped_matmul"));
  }
}

// The slots of a token share a row of A and its scale, so 4 tokens have 4 scales. D may begin behind them.
TEST(GroupedRequest, SharedRowsHaveOneScaleEach) {
  Grouped g;
  lathe_scale scale = LATHE_SCALE_INIT;
  scale.dtype = LATHE_F32;
  scale.granularity = LATHE_PER_CHANNEL;
  scale.data = g.d;
  g.desc.a.dtype = g.desc.b.dtype = LATHE_I8;
  g.desc.a.scale = &scale;
  g.desc.d.data = g.d + 4;
  GroupedRequest r;
  EXPECT_TRUE(g.read(&r).ok()) << g.read(&r);
  g.desc.d.data = g.d + 3;
  EXPECT_THAT(std::string(g.read(&r).message()), testing::HasSubstr("d overlaps the scale of a"));
  g.desc.d.data = g.d + 4;
  g.desc.a.batch_stride = 8, g.desc.a.leading_dimension = 16;  // every slot has a row
  EXPECT_THAT(std::string(g.read(&r).message()), testing::HasSubstr("d overlaps the scale of a"));
}

// Block scales of B and a factor for each of the 3 groups.
TEST(GroupedRequest, BlockScalesOfGroups) {
  Grouped g;
  lathe_scale scale = LATHE_SCALE_INIT;
  scale.dtype = LATHE_F8_E8M0;
  scale.granularity = LATHE_PER_BLOCK;
  scale.block_size = 32;
  scale.global = g.weights;
  g.desc.b.scale = &scale;
  g.desc.b.dtype = LATHE_F8_E4M3;
  g.desc.k = 0, g.desc.b.batch_stride = 0;
  g.desc.a.data = g.desc.b.data = nullptr;
  GroupedRequest r;
  EXPECT_TRUE(g.read(&r).ok()) << g.read(&r) << ": K is 0, so there are no scales";
  g.desc.d.data = g.weights + 3;
  EXPECT_TRUE(g.read(&r).ok()) << g.read(&r);
  g.desc.d.data = g.weights + 2;
  EXPECT_THAT(std::string(g.read(&r).message()), testing::HasSubstr("d overlaps the global scale of b"));
  g.desc.d.data = g.d;
  g.desc.k = 32, g.desc.b.batch_stride = 6 * 32;
  g.desc.a.data = g.a, g.desc.b.data = g.b;
  EXPECT_THAT(std::string(g.read(&r).message()), testing::HasSubstr("b: scale: data is NULL"));
}

// On the CPU every group has a class of its own. On a GPU a product has one class.
TEST(GroupedRequest, TakesACandidateOnGpusOnly) {
  Grouped g;
  GroupedRequest r;
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.candidate = 2;
  g.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  const absl::Status status = g.read(&r);
  EXPECT_EQ(status.code(), kUnsupported);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("lathe_tuning"));
  GroupedRequest on_gpu;
  ASSERT_TRUE(g.read(&on_gpu, Purpose::kRun, /*is_cpu=*/false).ok());
  EXPECT_EQ(on_gpu.product.request.key.candidate, 2);
  tuning.split_k = 2;
  EXPECT_EQ(g.read(&on_gpu, Purpose::kRun, /*is_cpu=*/false).code(), kUnsupported);
}

// ---- GPUs

GroupedRequest read_on_gpu(const Grouped& g) {
  GroupedRequest r;
  const absl::Status status = g.read(&r, Purpose::kRun, /*is_cpu=*/false);
  EXPECT_TRUE(status.ok()) << status;
  return r;
}

// Formats that GPUs do not decode.
TEST(GroupedRequestOnGpu, RefusesSomeWeightsInBlocks) {
  Grouped g;
  g.desc.k = 64;
  g.desc.b.batch_stride = 6 * 64;
  g.desc.b.dtype = LATHE_Q5_0;
  g.desc.b.layout = LATHE_COLUMN_MAJOR;
  GroupedRequest r;
  const absl::Status status = g.read(&r, Purpose::kPlan, /*is_cpu=*/false);
  EXPECT_EQ(status.code(), kUnsupported) << status;
  EXPECT_TRUE(g.read(&r, Purpose::kPlan).ok()) << g.read(&r, Purpose::kPlan);
}

// A column of K = 256 has 144 bytes in q4_0 and 272 in q8_0; one of K = 64 in q4_0 has 36.
TEST(GroupedRequestOnGpu, AlignsWeightsInBlocksByTheirBytes) {
  for (const auto& [dtype, k, alignment] :
       {std::tuple(LATHE_Q4_0, 256, Alignment::k16), std::tuple(LATHE_Q8_0, 256, Alignment::k16),
        std::tuple(LATHE_Q4_0, 64, Alignment::kElement)}) {
    Grouped g;
    g.desc.k = k;
    g.desc.n = 32;
    g.desc.d.leading_dimension = 2 * 32, g.desc.d.batch_stride = 32;
    g.desc.b.dtype = dtype;
    g.desc.b.leading_dimension = 0;
    g.desc.b.batch_stride = int64_t{32} * k;
    g.desc.b.layout = LATHE_COLUMN_MAJOR;
    GroupedRequest r;
    const absl::Status status = g.read(&r, Purpose::kPlan, /*is_cpu=*/false);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(r.product.request.key.problem.alignment, alignment) << k;
  }
}

TEST(GroupedRequestOnGpu, HasOneClassForTheMeanOfTheGroups) {
  Grouped g;
  const ProblemClass c = read_on_gpu(g).product.request.key.problem;  // 8 slots, 3 groups
  EXPECT_EQ(c.rows, Rows::kIndexed);
  EXPECT_EQ(c.m_lo, 3);
  EXPECT_EQ(c.m_hi, 3);
  g.desc.groups = 10;
  EXPECT_EQ(read_on_gpu(g).product.request.key.problem.m_hi, 1);
  g.desc.groups = 1;
  g.desc.m = 20;
  EXPECT_EQ(read_on_gpu(g).product.request.key.problem.m_hi, 64);
  EXPECT_EQ(read_on_gpu(g).product.request.dims.m, 40);
  EXPECT_EQ(read_on_gpu(g).product.request.dims.batch, 1);
}

TEST(GroupedRequestOnGpu, NamesItsRows) {
  Grouped g;
  g.desc.router_weights = g.weights;
  g.desc.d.leading_dimension = 6;
  for (const auto& [dtype, rows] : {std::pair{LATHE_F32, Rows::kSumF32}, {LATHE_BF16, Rows::kSumBF16}}) {
    g.desc.d.dtype = dtype;
    const GroupedRequest r = read_on_gpu(g);
    EXPECT_EQ(r.product.request.key.problem.rows, rows);
    EXPECT_EQ(r.product.request.key.problem.d, DType::kF32);
  }
  g.desc.gate = LATHE_GATE_SILU;
  EXPECT_EQ(read_on_gpu(g).up->request.key.problem.rows, Rows::kIndexed);
}

TEST(GroupedRequestOnGpu, AlignsEveryRowOfEveryGroup) {
  const auto alignment = [](const auto& change) {
    Grouped g;
    g.desc.n = 8, g.desc.b.batch_stride = 8 * 8;
    g.desc.d.leading_dimension = 2 * 8, g.desc.d.batch_stride = 8;
    change(&g.desc);
    return read_on_gpu(g).product.request.key.problem.alignment;
  };
  EXPECT_EQ(alignment([](auto*) {}), Alignment::k16);
  EXPECT_EQ(alignment([](auto* d) { d->b.batch_stride += 1; }), Alignment::kElement);
  EXPECT_EQ(alignment([](auto* d) { d->a.leading_dimension = 9; }), Alignment::kElement);
  EXPECT_EQ(alignment([](auto* d) { d->a.batch_stride = 9, d->a.leading_dimension = 20; }),
            Alignment::kElement);
  EXPECT_EQ(alignment([](auto* d) { d->d.batch_stride = 9, d->d.leading_dimension = 20; }),
            Alignment::kElement);
  // The columns of u begin in the middle of a row of 16 bytes.
  EXPECT_EQ(alignment([](auto* d) { d->gate = LATHE_GATE_SILU, d->b.layout = LATHE_ROW_MAJOR, d->n = 4; }),
            Alignment::kElement);
}

TEST(GroupedRequestOnGpu, StepsOverInterleavedColumns) {
  Grouped g;
  g.desc.gate = LATHE_GATE_SILU;
  g.desc.gate_layout = LATHE_GATE_INTERLEAVED;
  g.desc.d.leading_dimension = 2 * 3, g.desc.d.batch_stride = 3;
  EXPECT_EQ(read_on_gpu(g).product.request.args.ldb, 16);
  EXPECT_EQ(read_on_gpu(g).product.column_step, 2);
  EXPECT_EQ(read_on_gpu(g).up->first_column, 1);
}

}  // namespace
}  // namespace lathe
