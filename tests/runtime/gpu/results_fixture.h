// Every result code of a driver, as the caller of a launch sees it.
#pragma once

#include <set>

#include "base/status.h"
#include "fake_gpu.h"
#include "runtime/gpu/results.h"

namespace lathe {

// The status that each of these results becomes.
struct ExpectedResults {
  absl::StatusCode code;
  std::vector<int> results;
  bool lost = false;  // every later call in the context fails
};

// `Fixture` is FakeGpu or FakeHip.
template <typename Fixture>
class ResultsTest : public Fixture {
 protected:
  // `function` launches a kernel, `prefix` begins the fake driver's name of a result.
  void expect_reported(const std::vector<ExpectedResults>& all, const Artifact& artifact,
                       const char* function, const std::string& prefix) {
    using ::testing::AllOf;
    using ::testing::HasSubstr;
    auto driver = this->open();
    const auto kernel = load(*driver, artifact);
    TestLaunch l(*kernel);
    for (const ExpectedResults& expected : all)
      for (int result : expected.results) {
        this->state_->fail_once[function] = result;
        const absl::Status status = driver->launch(l.launch);
        EXPECT_EQ(status.code(), expected.code) << result;
        EXPECT_THAT(message(status),
                    AllOf(HasSubstr("tall_kernel"),
                          HasSubstr(prefix + std::to_string(result) + " (as the fake driver says)")));
        EXPECT_EQ(message(status).find(" context is lost: ") != std::string::npos, expected.lost) << result;
        EXPECT_TRUE(driver->launch(l.launch).ok()) << "the fake driver recovers after " << result;
      }
  }

  static void expect_known_once(const std::vector<ExpectedResults>& all,
                                const std::vector<gpu::ResultRow>& rows) {
    std::set<int> known, seen;
    for (const ExpectedResults& expected : all)
      for (int result : expected.results) EXPECT_TRUE(known.insert(result).second) << result;
    for (const gpu::ResultRow& row : rows) {
      EXPECT_TRUE(seen.insert(row.result).second) << row.result;
      EXPECT_EQ(known.count(row.result), 1u) << row.result;
      EXPECT_NE(row.code, absl::StatusCode::kOk);
    }
  }
};

}  // namespace lathe
