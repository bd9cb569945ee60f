// External libraries, each row of their table: a library must compute what the interface defines. A library that is not
// installed skips its tests with the message of the loader.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "candidates.h"
#include "case_limits.h"
#include "device.h"
#include "kernels/candidates_external.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

struct Row {
  lathe_external_library provider;
  const char* name;  // as in lathe_plan_explain
  lathe_dtype in;
  std::vector<lathe_dtype> out, bias;  // bias: NONE means the dtype of D
};
std::string name_of(const testing::TestParamInfo<Row>& info) {
  const char* in = info.param.in == LATHE_F32   ? "_f32"
                   : info.param.in == LATHE_F16 ? "_f16"
                   : info.param.in == LATHE_I8  ? "_i8"
                                                : "_bf16";
  return std::string(info.param.name) + in;
}

lathe_context_options options_with(lathe_external_use use, lathe_external_library library) {
  lathe_context_options options = memory_only(2);
  options.external = use;
  options.external_library = library;
  return options;
}

// The explanation of a small plan. Sets *absent to the reason if the library `name` is not available.
nlohmann::json explained(lathe_device* device, const Row& row, std::string* absent) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = desc.n = desc.k = 64;
  desc.a.dtype = desc.b.dtype = row.in;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.d.dtype = row.out[0];
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_matmul(device, &desc, &plan));
  const nlohmann::json json = nlohmann::json::parse(explain(plan));
  lathe_plan_destroy(plan);
  *absent = "not for this device";
  for (const auto& found : json["external"]["found"])
    if (found["library"] == row.name) *absent = found["absent"];
  return json;
}

class External : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    OpenDevice off(memory_only(2));
    if (off.status() != LATHE_OK) GTEST_SKIP() << lathe_last_error();
    std::string absent, unknown;
    OpenDevice allowed(options_with(LATHE_EXTERNAL_ALLOW, LATHE_EXTERNAL_ANY));
    ASSERT_EQ(allowed.status(), LATHE_OK) << lathe_last_error();
    explained(allowed.get(), GetParam(), &absent);
    const nlohmann::json plan = explained(off.get(), GetParam(), &unknown);
    EXPECT_TRUE(plan["external"]["found"].empty())
        << "a library was opened although external libraries are off";
    if (!absent.empty()) GTEST_SKIP() << device_name() << ": " << GetParam().name << ": " << absent;
    for (const auto& c : plan["candidates"])
      if (c["config"]["external"]["library"] == GetParam().name) rejection_ = c["rejection"];
    // With external libraries off, the row is listed with its price and rejected by the policy only. Any other
    // rejection means that this processor cannot use the row.
    if (rejection_.find("LATHE_EXTERNAL") == std::string::npos)
      GTEST_SKIP() << GetParam().name << ": " << rejection_;
    open(LATHE_EXTERNAL_REQUIRE);
    begin_cases();
  }
  void open(lathe_external_use use) {
    operands_.reset();
    device_ = std::make_unique<OpenDevice>(
        options_with(use, use == LATHE_EXTERNAL_OFF ? LATHE_EXTERNAL_ANY : GetParam().provider));
    ASSERT_EQ(device_->status(), LATHE_OK) << lathe_last_error();
    operands_ = std::make_unique<OperandsOn>(device_->get());
  }
  lathe_device* device() { return device_->get(); }
  bool bytes() const { return GetParam().in == LATHE_I8; }
  // cuBLASLt multiplies bytes only with K contiguous, sizes that are multiples of four, and 16-byte alignment.
  bool fours() const { return bytes() && !is_cpu(); }

  MatmulCase make(int64_t m, int64_t n, int64_t k, int layout) {
    MatmulCase c;
    c.m = capped(m);
    c.n = capped(n);
    c.k = capped(k);
    c.in = GetParam().in;
    c.out = GetParam().out[0];
    c.trans_a = layout & 1;
    c.trans_b = layout & 2;
    if (fours()) {
      c.n = (c.n + 3) / 4 * 4;
      c.k = (c.k + 15) / 16 * 16;
      c.trans_a = false;
      c.trans_b = true;
      c.flush = Flush::kStart;
    }
    return c;
  }
  void expect(const MatmulCase& c) {
    if (failures_ >= 8) return;
    const testing::AssertionResult result = run_case(device(), c, &random_);
    EXPECT_TRUE(result);
    failures_ += !result;
  }

  Random random_ = random_stream(71);
  std::string rejection_;
  std::unique_ptr<OpenDevice> device_;
  std::unique_ptr<OperandsOn> operands_;
  int failures_ = 0;
};

TEST_P(External, EveryShapeLayoutAndResult) {
  const int64_t shapes[][3] = {{1, 1, 2},    {1, 33, 129}, {7, 1, 65},    {5, 31, 2},    {16, 80, 144},
                               {65, 31, 77}, {2, 256, 3},  {33, 17, 300}, {130, 72, 320}};
  for (const auto& shape : shapes)
    for (int layout = 0; layout < 4; ++layout)
      for (const lathe_dtype out : GetParam().out) {
        MatmulCase c = make(shape[0], shape[1], shape[2], layout);
        c.out = out;
        c.values = random_.below(2) ? Values::kSmallIntegers : Values::kNormal;
        c.padding = fours() ? 0 : random_.below(3);
        if (!bytes()) c.alpha = random_.below(2) ? 1.0f : -0.75f;
        expect(c);
      }
}

TEST_P(External, KOfOne) {
  if (!is_cpu()) GTEST_SKIP() << "refused: on GPUs the class of K = 1 includes empty products";
  for (int layout = 0; layout < 4; ++layout) expect(make(19, 23, 1, layout));
  expect(make(1, 1, 1, 0));
}

TEST_P(External, BatchesAndBroadcasts) {
  for (int layout = 0; layout < 4; ++layout)
    for (int shared = 0; shared < 3; ++shared) {
      MatmulCase c = make(18, 20, 33, layout);
      c.batch = 3;
      c.broadcast_a = shared == 1;
      c.broadcast_b = shared == 2;
      c.padding = fours() ? 0 : layout;
      expect(c);
    }
}

TEST_P(External, WholeEpilogue) {
  if (bytes()) GTEST_SKIP() << "sums of bytes have no epilogue";
  for (const lathe_dtype out : GetParam().out)
    for (const lathe_dtype bias : GetParam().bias)
      for (const CMode c_mode : {CMode::kNone, CMode::kSeparate, CMode::kInPlace, CMode::kUnreadNan}) {
        MatmulCase c = make(21, 36, 70, static_cast<int>(random_.below(4)));
        c.out = out;
        c.c_mode = c_mode;
        c.c = out;
        c.beta = c_mode == CMode::kSeparate || c_mode == CMode::kInPlace ? -0.5f : 0.0f;
        c.alpha = random_.below(2) ? 1.0f : 0.25f;
        c.bias = bias == LATHE_DTYPE_NONE ? out : bias;
        c.padding = random_.below(4);
        c.batch = 1 + random_.below(2);
        expect(c);
      }
  if (GetParam().bias.empty()) {
    for (const CMode c_mode : {CMode::kNone, CMode::kSeparate, CMode::kInPlace, CMode::kUnreadNan})
      for (const int64_t m : {1, 21}) {
        MatmulCase c = make(m, 36, 70, 2);
        c.c_mode = c_mode;
        c.beta = c_mode == CMode::kSeparate || c_mode == CMode::kInPlace ? -0.5f : 0.0f;
        c.padding = 2;
        c.batch = 2;
        expect(c);
      }
  }
}

TEST_P(External, NanAndInfinity) {
  if (bytes()) GTEST_SKIP() << "bytes have no special values";
  for (int layout = 0; layout < 4; ++layout)
    for (const int64_t m : {1, 37}) {
      MatmulCase c = make(m, 29, 83, layout);
      c.values = Values::kSpecial;
      expect(c);
    }
}

// Requests that the library cannot compute as the interface defines run on Lathe's own kernels where that is allowed.
TEST_P(External, FallsBackToOwnKernels) {
  open(LATHE_EXTERNAL_PREFER);
  MatmulCase c = make(9, 40, 64, 2);
  expect(c);  // runs in the library and creates the class of the next request
  if (!bytes()) {
    c.alpha = 0;
    c.values = Values::kSpecial;
    expect(c);
    c.alpha = 1;
    c.values = Values::kNormal;
    c.activation = LATHE_ACTIVATION_RELU;
    expect(c);
    c.activation = LATHE_ACTIVATION_NONE;
  }
  c.misalign = 1;
  expect(c);
  c.misalign = 0;
  c.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
  expect(c);
  if (!is_cpu() || bytes()) return;
  open(LATHE_EXTERNAL_REQUIRE);
  MatmulRequest request(c, &random_);
  EXPECT_EQ(lathe_matmul(device(), nullptr, request.desc()), LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("determinism fast only"), std::string::npos)
      << lathe_last_error();
}

// One artifact serves all M of a bucket, including its edges.
TEST_P(External, EveryMOfABucket) {
  const lathe_statistics before = device_->statistics();
  for (const int64_t m : {17, 24, 31, 32}) expect(make(m, 48, 64, 2));
  EXPECT_EQ(device_->statistics().compiles - before.compiles, 1u);
}

// Calls on the same stream share a workspace, so they must not use it at the same time.
TEST_P(External, ThreadsOfOneStream) {
  constexpr uint64_t kThreads = 4;
  const MatmulCase c = make(18, 32, 64, 2);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random = random_stream(300 + t);
      for (int i = 0; i < 25; ++i) failures += !run_case(device(), c, &random);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures.load(), 0) << lathe_last_error();
}

// A request can override the choice of its context, in both directions.
TEST_P(External, OneRequestOverridesItsContext) {
  open(LATHE_EXTERNAL_OFF);
  lathe_external external = LATHE_EXTERNAL_INIT;
  external.use = LATHE_EXTERNAL_REQUIRE;
  external.which = GetParam().provider;
  const MatmulCase c = make(12, 32, 64, 2);
  MatmulRequest request(c, &random_);
  request.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(&external);
  EXPECT_TRUE(request.run(device()));
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), request.desc(), &plan));
  const nlohmann::json json = nlohmann::json::parse(explain(plan));
  EXPECT_EQ(json["config"]["external"]["library"], GetParam().name);
  EXPECT_EQ(json["external"]["use"], "require");
  lathe_plan_destroy(plan);
  request.mutable_desc()->next = nullptr;
  EXPECT_TRUE(request.run(device()));
  ASSERT_LATHE_OK(lathe_plan_matmul(device(), request.desc(), &plan));
  EXPECT_EQ(nlohmann::json::parse(explain(plan))["config"]["external"]["library"], "");
  lathe_plan_destroy(plan);
}

// The artifact is stored on disk; another context reads it and needs no compiler.
TEST_P(External, LoadsFromTheDiskCache) {
  std::string directory = (std::filesystem::temp_directory_path() / "lathe-external-XXXXXX").string();
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  for (int round = 0; round < 2; ++round) {
    operands_.reset();
    lathe_context_options options = options_with(LATHE_EXTERNAL_REQUIRE, GetParam().provider);
    options.cache_dir = directory.c_str();
    device_ = std::make_unique<OpenDevice>(options);
    ASSERT_EQ(device_->status(), LATHE_OK) << lathe_last_error();
    operands_ = std::make_unique<OperandsOn>(device_->get());
    expect(make(8, 48, 64, 2));
    EXPECT_EQ(device_->statistics().compiles, round == 0 ? 1u : 0u);
    EXPECT_EQ(device_->statistics().disk_hits, round == 0 ? 0u : 1u);
  }
  std::filesystem::remove_all(directory);
}

const std::vector<lathe_dtype> kFloats = {LATHE_F32, LATHE_BF16}, kOfD = {LATHE_DTYPE_NONE};
const std::vector<Row> kRows = {
    {LATHE_EXTERNAL_OPENBLAS, "openblas", LATHE_F32, {LATHE_F32}, {}},
    {LATHE_EXTERNAL_ONEDNN, "onednn", LATHE_F32, {LATHE_F32}, kFloats},
    {LATHE_EXTERNAL_ONEDNN, "onednn", LATHE_BF16, {LATHE_F32, LATHE_BF16}, kFloats},
    {LATHE_EXTERNAL_ONEDNN, "onednn", LATHE_I8, {LATHE_I32}, {}},
    {LATHE_EXTERNAL_CUBLASLT, "cublaslt", LATHE_F32, {LATHE_F32}, kOfD},
    {LATHE_EXTERNAL_CUBLASLT, "cublaslt", LATHE_F16, {LATHE_F16, LATHE_F32}, kOfD},
    {LATHE_EXTERNAL_CUBLASLT, "cublaslt", LATHE_BF16, {LATHE_BF16, LATHE_F32}, kOfD},
    {LATHE_EXTERNAL_CUBLASLT, "cublaslt", LATHE_I8, {LATHE_I32}, {}},
    {LATHE_EXTERNAL_HIPBLASLT, "hipblaslt", LATHE_F32, {LATHE_F32}, kOfD},
    {LATHE_EXTERNAL_HIPBLASLT, "hipblaslt", LATHE_F16, {LATHE_F16, LATHE_F32}, kOfD},
    {LATHE_EXTERNAL_HIPBLASLT, "hipblaslt", LATHE_BF16, {LATHE_BF16, LATHE_F32}, kOfD}};
INSTANTIATE_TEST_SUITE_P(Rows, External, testing::ValuesIn(kRows), name_of);

// Every row of the table must be listed in this test.
TEST(ExternalRows, MatchTheTable) {
  const auto dtype_of = [](lathe_dtype t) { return static_cast<DType>(t); };
  const auto dtypes_of = [&](const std::vector<lathe_dtype>& all) {
    std::vector<DType> out;
    for (lathe_dtype t : all) out.push_back(dtype_of(t));
    return out;
  };
  std::vector<std::string> tested, table;
  const auto text = [](const std::string& library, DType in, std::vector<DType> out,
                       std::vector<DType> bias) {
    std::sort(out.begin(), out.end());
    std::sort(bias.begin(), bias.end());
    std::string text = library + " " + std::string(lathe::name_of(in)) + " to";
    for (DType t : out) text += " " + std::string(lathe::name_of(t));
    text += ", bias";
    for (DType t : bias) text += " " + std::string(lathe::name_of(t));
    return text;
  };
  for (const Row& row : kRows)
    tested.push_back(text(row.name, dtype_of(row.in), dtypes_of(row.out), dtypes_of(row.bias)));
  for (const ExternalRow& row : external_rows()) {
    EXPECT_EQ(row.op, Op::kMatmul) << row.routine << ": these tests cover only matmul";
    table.push_back(text(std::string(lathe::name_of(row.id)), row.a, row.d, row.bias));
  }
  std::sort(tested.begin(), tested.end());
  std::sort(table.begin(), table.end());
  EXPECT_EQ(tested, table);
}

}  // namespace
}  // namespace lathe::conformance
