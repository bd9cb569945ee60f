// Argmax over dtypes, row lengths, ties, NaN and infinities, index types, offsets, leading dimensions and alignments.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "argmax_case.h"
#include "case_limits.h"
#include "device.h"
#include "nlohmann/json.hpp"
#include "pairwise.h"

namespace lathe::conformance {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};

class Argmax : public ConformanceTest {
 protected:
  void expect(const ArgmaxCase& c) {
    if (failures_ >= 12) return;
    const testing::AssertionResult result = ArgmaxRequest(c, &random_).run(device());
    EXPECT_TRUE(result);
    failures_ += !result;
  }
  // The explanation of the request's plan.
  nlohmann::json explained(const ArgmaxCase& c, const lathe_tuning* tuning) {
    ArgmaxRequest request(c, &random_);
    request.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(tuning);
    lathe_plan* plan = nullptr;
    EXPECT_LATHE_OK(lathe_plan_argmax(device(), request.desc(), &plan));
    const nlohmann::json json = nlohmann::json::parse(explain(plan), nullptr, false);
    lathe_plan_destroy(plan);
    return json;
  }
  // Runs every legal candidate of the case with several kinds of rows; ukernels with all kinds, unless rows are long.
  // Returns the configs.
  std::vector<nlohmann::json> run_candidates(ArgmaxCase c) {
    const nlohmann::json all = explained(c, nullptr);
    const int legal = all.value("legal", 0);
    EXPECT_GT(legal, 1);
    std::vector<nlohmann::json> configs(all["candidates"].begin(), all["candidates"].begin() + legal);
    for (nlohmann::json& config : configs) config = config["config"];
    const auto is_ukernel = [](const nlohmann::json& config) { return config["kernel"] == "ukernel"; };
    // On a GPU, operands at odd addresses are a class of their own, which only generated kernels serve.
    const auto at_odd = is_cpu() ? legal : legal - std::count_if(configs.begin(), configs.end(), is_ukernel);
    for (int candidate = 1; candidate <= legal; ++candidate) {
      lathe_tuning tuning = LATHE_TUNING_INIT;
      tuning.candidate = candidate;
      const nlohmann::json& config = configs[static_cast<size_t>(candidate) - 1];
      EXPECT_EQ(explained(c, &tuning)["config"], config) << "the plan is not the forced candidate";
      const bool odd = candidate <= at_odd && (is_cpu() || !is_ukernel(config));
      const int64_t step = is_ukernel(config) && c.n < 10000 ? 1 : quick_or(4, 1);
      for (int kind = 0; kind < kRowsKinds; kind += static_cast<int>(step)) {
        c.kind = static_cast<Rows>(kind);
        c.wants_values = kind % 2;
        c.misalign = kind % 3 ? 0 : odd ? 1 : 8;
        ArgmaxRequest request(c, &random_);
        request.mutable_desc()->next = reinterpret_cast<const lathe_chain*>(&tuning);
        EXPECT_TRUE(request.run(device())) << config.dump();
      }
    }
    return configs;
  }
  Random random_ = random_stream(4);

 private:
  int failures_ = 0;
};

TEST_F(Argmax, EveryTwoFactorsTogether) {
  const int64_t rows[] = {0, 1, 2, 3, 5, 8, 17, 33, 64, 129, 300};
  const int64_t lengths[] = {1,  2,   3,   7,    8,    15,   16,   17,    31,    63,   64,
                             65, 127, 129, 1000, 1024, 1025, 4099, 16384, 16385, 20011};
  const int64_t offsets[] = {0, 1, -5, 128256, 1 << 30};
  const int64_t paddings[] = {0, 1, 5, 64};
  const size_t misaligns[] = {0, 0, 1, 2, 3, 4, 8, 13};
  const std::vector<std::vector<int>> array =
      covering_array({11, 21, 3, 2, 2, 5, 4, 8, 2, kRowsKinds, 3}, &random_);
  size_t number = 0;
  for (const std::vector<int>& row : array) {
    if (is_quick() && number++ % 4 != 0) continue;
    ArgmaxCase c;
    c.rows = rows[row[0]];
    c.n = lengths[row[1]];
    c.in = kFloats[row[2]];
    c.index = row[3] ? LATHE_I32 : LATHE_I64;
    c.wants_values = row[4];
    c.index_offset = offsets[row[5]];
    c.padding = paddings[row[6]];
    c.misalign = misaligns[row[7]];
    c.flush = row[8] ? Flush::kStart : Flush::kEnd;
    c.kind = static_cast<Rows>(row[9]);
    c.determinism = static_cast<lathe_determinism>(row[10]);
    if (c.rows * c.n > 600000) c.rows = 600000 / c.n;
    expect(c);
  }
}

TEST_F(Argmax, EveryShortLength) {
  for (int64_t n = 1; n <= 200; n += quick_or(13, 1)) {
    ArgmaxCase c;
    c.rows = 5;
    c.n = n;
    c.in = kFloats[n % 3];
    c.kind = static_cast<Rows>(n % kRowsKinds);
    c.wants_values = n % 2;
    expect(c);
    c.kind = Rows::kTies;
    expect(c);
  }
}

TEST_F(Argmax, MaximumInEveryColumn) {
  // The maximum visits every lane, every remainder and both ends of a row.
  for (lathe_dtype in : kFloats) {
    for (Rows kind : {Rows::kMostlyMinusInf, Rows::kMostlyOne}) {
      ArgmaxCase c;
      c.n = 259;
      c.in = in;
      c.kind = kind;
      c.rows = capped(300);
      expect(c);
      c.n = 1300;
      c.rows = std::min<int64_t>(c.rows, capped_columns(c.rows * c.n) / c.n);
      expect(c);
    }
  }
}

TEST_F(Argmax, VocabularyRows) {
  for (lathe_dtype in : kFloats) {
    for (Rows kind : {Rows::kNormal, Rows::kTies, Rows::kNan, Rows::kMinusInf, Rows::kAscending}) {
      ArgmaxCase c;
      c.in = in;
      c.kind = kind;
      c.wants_values = true;
      c.rows = 3;
      c.n = capped_columns(200000, c.rows);
      expect(c);
      c.rows = 1;
      c.n = capped_columns(151936);
      c.index = LATHE_I32;
      expect(c);
    }
  }
  ArgmaxCase wide;
  wide.rows = 300;
  wide.n = 32000;
  wide.in = LATHE_F16;
  expect(wide);
}

// More than 65,536 blocks of 256 columns, which a 16-bit lane cannot count.
TEST_F(Argmax, MoreBlocksThan16BitsCount) {
  if (is_quick()) GTEST_SKIP() << "32 MB";
  for (lathe_dtype in : {LATHE_F16, LATHE_BF16}) {
    ArgmaxCase c;
    c.in = in;
    c.kind = Rows::kMostlyOne;
    c.n = (int64_t{1} << 24) + 1007;
    c.maximum = c.n - 1;
    expect(c);
  }
}

// Every candidate, generated or ukernel, of every width and split, must break ties in the same way.
TEST_F(Argmax, EveryCandidate) {
  std::map<std::string, int> ran;
  std::set<std::string> ukernels;
  for (int64_t n : {7, 700, 9000, 70001}) {
    for (lathe_dtype in : kFloats) {
      ArgmaxCase c;
      c.rows = 3;
      c.n = n;
      c.in = in;
      for (const nlohmann::json& config : run_candidates(c)) {
        ++ran[config.value("kernel", "")];
        if (config["kernel"] == "ukernel") ukernels.insert(config["ukernel"]["function"]);
      }
    }
  }
  EXPECT_GT(ran["rows"], 0);
  std::set<std::string> wanted;
  const std::vector<const char*> kinds = is_cpu() ? std::vector<const char*>{"row_", "short_", "parts_"}
                                                  : std::vector<const char*>{"wave_", "block_"};
  for (const char* of : kinds)
    for (const char* type : {"f32", "f16", "bf16"}) wanted.insert(std::string("lathe_argmax_") + of + type);
  EXPECT_EQ(ukernels, wanted);
}

TEST_F(Argmax, LargeOffsetNeeds64Bits) {
  ArgmaxCase c;
  c.rows = 4;
  c.n = 100;
  c.index_offset = int64_t{1} << 40;
  expect(c);
}

TEST_F(Argmax, PlanServesEveryRowCountAndLengthOfItsBucket) {
  ArgmaxCase first;
  first.n = 2000;
  first.rows = 3;
  ArgmaxRequest planned(first, &random_);
  lathe_plan* plan = nullptr;
  ASSERT_LATHE_OK(lathe_plan_argmax(device(), planned.desc(), &plan));
  for (int64_t n : {1025, 3001, 16384}) {
    for (int64_t rows : {1, 7, 40}) {
      ArgmaxCase c;
      c.n = n;
      c.rows = rows;
      c.padding = rows % 4;
      ArgmaxRequest request(c, &random_);
      request.reset_output();
      ASSERT_LATHE_OK(lathe_plan_run_argmax(plan, nullptr, request.desc()));
      EXPECT_TRUE(request.check());
    }
  }
  lathe_plan_destroy(plan);
}

}  // namespace
}  // namespace lathe::conformance
