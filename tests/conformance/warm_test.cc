// After a warm-up of a weight, no M needs a compilation.
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "argmax_case.h"
#include "case_limits.h"
#include "device.h"
#include "matmul_case.h"
#include "tests/warm_weight.h"

namespace lathe::conformance {
namespace {

// The weights of shapes.csv (model,layer,n,k), each (n, k) once.
std::set<std::pair<int64_t, int64_t>> real_weights() {
  std::set<std::pair<int64_t, int64_t>> weights;
  std::ifstream file(source_path("LATHE_SHAPES_CSV", LATHE_SHAPES_CSV));
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string model, layer, n, k;
    std::getline(fields, model, ',');
    std::getline(fields, layer, ',');
    std::getline(fields, n, ',');
    std::getline(fields, k, ',');
    if (!k.empty()) weights.emplace(std::stoll(n), std::stoll(k));
  }
  return weights;
}

// A PyTorch Linear weight [n, k]. A plan needs no pointers.
lathe_matmul_desc linear(int64_t n, int64_t k, lathe_dtype dtype) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1;
  desc.n = n;
  desc.k = k;
  desc.a.dtype = desc.b.dtype = desc.d.dtype = dtype;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  return desc;
}

class WarmUp : public ConformanceTest {
 protected:
  static constexpr int64_t kMaxM = 8192;

  // Plans every M of `rows` with the miss policy ERROR.
  static void expect_no_miss(lathe_device* device, lathe_matmul_desc desc, const std::vector<int64_t>& rows) {
    desc.miss_policy = LATHE_MISS_ERROR;
    for (int64_t m : rows) {
      desc.m = m;
      lathe_plan* plan = nullptr;
      ASSERT_EQ(lathe_plan_matmul(device, &desc, &plan), LATHE_OK) << "m=" << m << ": " << lathe_last_error();
      lathe_plan_destroy(plan);
    }
  }
  static std::vector<int64_t> every_m() {
    std::vector<int64_t> rows(kMaxM);
    std::iota(rows.begin(), rows.end(), 1);
    return rows;
  }
  // Every M up to 300, powers of two and their neighbours, and random M.
  std::vector<int64_t> many_m() {
    std::vector<int64_t> rows(300);
    std::iota(rows.begin(), rows.end(), 1);
    for (int64_t power = 512; power <= kMaxM; power *= 2)
      rows.insert(rows.end(), {power - 1, power, power + 1});
    rows.back() = 1;  // kMaxM + 1 was not warmed
    for (int i = 0; i < 100; ++i) rows.push_back(random_.between(1, kMaxM));
    return rows;
  }
  Random random_ = random_stream(9);
};

TEST_F(WarmUp, NoMOfTheRealWeightsCompiles) {
  // With LATHE_TEST_EVERY_M every M of every weight is planned, which takes minutes; else every M of each eighth
  // weight.
  const bool thorough = std::getenv("LATHE_TEST_EVERY_M") != nullptr;
  int index = 0;
  const auto weights = real_weights();
  ASSERT_GT(weights.size(), 20u) << LATHE_SHAPES_CSV;
  for (const auto& [n, k] : weights) {
    if (is_quick() && index > 0) break;
    SCOPED_TRACE("n=" + std::to_string(n) + " k=" + std::to_string(k));
    const lathe_matmul_desc desc = linear(n, k, LATHE_F32);
    lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
    ASSERT_LATHE_OK(warm_weight(device(), desc, kMaxM, &report));
    EXPECT_GT(report.classes, 0u);
    EXPECT_EQ(report.compiled + report.loaded + report.present, report.classes);
    const uint64_t compiles = shared_->statistics().compiles;
    expect_no_miss(device(), desc, thorough || index++ % 8 == 0 ? every_m() : many_m());
    if (HasFatalFailure()) return;
    EXPECT_EQ(shared_->statistics().compiles, compiles);
  }
}

TEST_F(WarmUp, OtherFormsOfAWeight) {
  struct Form {
    lathe_dtype dtype;
    lathe_layout a, b;
    lathe_determinism determinism;
    bool whole_epilogue;
  };
  const Form forms[] = {
      {LATHE_BF16, LATHE_ROW_MAJOR, LATHE_COLUMN_MAJOR, LATHE_DETERMINISM_FAST, true},
      {LATHE_F16, LATHE_ROW_MAJOR, LATHE_ROW_MAJOR, LATHE_DETERMINISM_BATCH_INVARIANT, false},
      {LATHE_F32, LATHE_COLUMN_MAJOR, LATHE_ROW_MAJOR, LATHE_DETERMINISM_RUN_TO_RUN, true}};
  for (const Form& form : forms) {
    lathe_matmul_desc desc = linear(256, 7168, form.dtype);
    desc.a.layout = form.a;
    desc.b.layout = form.b;
    desc.determinism = form.determinism;
    char presence = 0;  // a pointer that is never dereferenced
    if (form.whole_epilogue) {
      desc.epilogue.bias = &presence;
      desc.epilogue.bias_dtype = form.dtype;
      desc.epilogue.activation = LATHE_ACTIVATION_SILU;
      desc.epilogue.residual.data = &presence;
      desc.epilogue.residual.dtype = form.dtype;
      desc.epilogue.beta = 0.5f;
      desc.c.data = &presence;
      desc.c.dtype = form.dtype;
    }
    ASSERT_LATHE_OK(warm_weight(device(), desc, kMaxM));
    expect_no_miss(device(), desc, many_m());
  }
}

TEST_F(WarmUp, ServesEveryAlignment) {
  MatmulCase c;
  c.n = 40;
  c.k = 24;
  c.trans_b = true;
  c.values = Values::kSmallIntegers;
  const lathe_matmul_desc weight = linear(c.n, c.k, LATHE_F32);
  ASSERT_LATHE_OK(warm_weight(device(), weight, kMaxM));
  const uint64_t compiles = shared_->statistics().compiles;
  int64_t m = 1;
  while (m <= kMaxM) {
    c.m = m;
    c.misalign = static_cast<size_t>(m % 6);
    c.padding = m % 5;
    MatmulRequest request(c, &random_);
    request.mutable_desc()->miss_policy = LATHE_MISS_ERROR;
    ASSERT_TRUE(request.run(device()));
    m += m < 300 ? quick_or(11, 1) : quick_or(1999, 263);
  }
  EXPECT_EQ(shared_->statistics().compiles, compiles);
}

TEST_F(WarmUp, MissUnderErrorPolicyChangesNothing) {
  OpenDevice cold(memory_only(1));
  ASSERT_EQ(cold.status(), LATHE_OK) << lathe_last_error();
  MatmulCase c;
  c.m = 2;
  c.n = 3;
  c.k = 4;
  MatmulRequest request(c, &random_);
  request.mutable_desc()->miss_policy = LATHE_MISS_ERROR;
  request.reset_output();
  const std::vector<uint8_t> before = request.output_bytes();
  EXPECT_EQ(lathe_matmul(cold.get(), nullptr, request.desc()), LATHE_MISS);
  EXPECT_EQ(request.output_bytes(), before);
  EXPECT_EQ(cold.statistics().compiles, 0u);
}

TEST_F(WarmUp, EnumeratesWhatItPrepares) {
  const lathe_matmul_desc desc = linear(64, 64, LATHE_F32);
  uint64_t classes = 0;
  lathe_manifest* manifest = nullptr;
  ASSERT_LATHE_OK(lathe_manifest_create(&manifest));
  ASSERT_LATHE_OK(lathe_manifest_add_matmul(manifest, "square", &desc, kMaxM));
  ASSERT_LATHE_OK(lathe_manifest_classes(
      device(), manifest,
      [](void* user, const char*, const char*, size_t size) { *static_cast<uint64_t*>(user) += size > 0; },
      &classes));
  lathe_manifest_destroy(manifest);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_LATHE_OK(warm_weight(device(), desc, kMaxM, &report));
  EXPECT_EQ(report.classes, classes);
}

TEST_F(WarmUp, Argmax) {
  OpenDevice own(memory_only(2));
  ASSERT_EQ(own.status(), LATHE_OK) << lathe_last_error();
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = 1;
  desc.n = capped_columns(151936);
  desc.x.dtype = LATHE_BF16;
  ASSERT_LATHE_OK(warm_weight(own.get(), desc));
  const uint64_t compiles = own.statistics().compiles;
  for (int64_t rows : {1, 2, 64, 300}) {
    ArgmaxCase c;
    c.rows = rows;
    c.n = rows > 2 ? capped_columns(20000) : desc.n;
    c.in = LATHE_BF16;
    ArgmaxRequest request(c, &random_);
    request.mutable_desc()->miss_policy = LATHE_MISS_ERROR;
    EXPECT_TRUE(request.run(own.get()));
  }
  EXPECT_EQ(own.statistics().compiles, compiles);
}

}  // namespace
}  // namespace lathe::conformance
