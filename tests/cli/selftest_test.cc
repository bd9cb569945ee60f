// Tests `lathe selftest`: what it counts and prints, its verdict, and the completeness of its table of requests.
#include "cli/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "cli/selftest_run.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SelftestCheck check(const std::string& group, const std::string& what,
                    absl::StatusOr<reference::CheckResult> result) {
  return {group, what, "lathe run " + what + " --seed 7", [result] { return result; }, nullptr};
}
reference::CheckResult right() {
  reference::CheckResult r;
  r.ok = true;
  return r;
}
reference::CheckResult wrong(const std::string& what) {
  reference::CheckResult r;
  r.what = what;
  return r;
}

struct Ran {
  Tally tally;
  absl::Status verdict;
  std::string out;
};
Ran run(const std::vector<SelftestCheck>& checks) {
  testing::internal::CaptureStdout();
  Ran ran;
  ran.tally = run_checks(checks, "cuda:0");
  ran.verdict = conclude(ran.tally, "cuda:0");
  ran.out = testing::internal::GetCapturedStdout();
  return ran;
}

TEST(Selftest, CountsResultsAndPrintsTheVerdict) {
  const absl::Status unsupported =
      absl::UnimplementedError("UNSUPPORTED: matmul i8 m=3 on cuda:0: sm_70 has no such thing");
  const Ran ran =
      run({check("shapes", "matmul 1x2x3", right()), check("shapes", "matmul 2x2x3", right()),
           check("dtypes", "matmul 3x2x3", unsupported), check("dtypes", "matmul 4x2x3", unsupported),
           check("dtypes", "matmul 5x2x3", right())});
  EXPECT_TRUE(ran.verdict.ok()) << ran.verdict;
  EXPECT_THAT(ran.out, HasSubstr("skipped    2  dtypes: sm_70 has no such thing\n"));
  EXPECT_THAT(ran.out, HasSubstr("\nselftest cuda:0: 3 right, 0 wrong, 2 skipped\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("WRONG")));
}

TEST(Selftest, PrintsTheCommandOfEachFailure) {
  const Ran ran =
      run({check("shapes", "matmul 1x2x3", wrong("row 3 is off")), check("shapes", "matmul 2x2x3", right()),
           check("shapes", "matmul 3x2x3", absl::UnknownError("INTERNAL: lost"))});
  EXPECT_EQ(ran.tally.wrong, 2);
  EXPECT_FALSE(ran.verdict.ok());
  EXPECT_THAT(
      ran.out,
      HasSubstr("WRONG  shapes matmul 1x2x3: row 3 is off\n       lathe run matmul 1x2x3 --seed 7\n"));
  EXPECT_THAT(
      ran.out,
      HasSubstr("WRONG  shapes matmul 3x2x3: INTERNAL: lost\n       lathe run matmul 3x2x3 --seed 7\n"));
  EXPECT_THAT(ran.out, HasSubstr("selftest cuda:0: 1 right, 2 wrong, 0 skipped\n"));
}

TEST(Selftest, FailsIfNothingWasTested) {
  EXPECT_FALSE(
      run({check("capture", "a miss", absl::UnimplementedError("cpu has no streams"))}).verdict.ok());
}

TEST(Selftest, StopsAfterManyFailuresInARow) {
  std::vector<SelftestCheck> checks(100,
                                    check("shapes", "matmul 1x2x3", absl::UnknownError("INTERNAL: lost")));
  checks[5] = check("shapes", "matmul 1x2x3", right());
  const Ran ran = run(checks);
  EXPECT_EQ(ran.tally.wrong, 25);  // 5 before the right one, and 20 in a row after it
  EXPECT_THAT(ran.out, HasSubstr("stopped after 20 failures in a row; 74 checks were not run"));
}

TEST(Selftest, CompilesEachCheckAheadAtMostOnce) {
  std::atomic<int> prepared{0};
  std::vector<SelftestCheck> checks(50, check("shapes", "matmul 1x2x3", right()));
  for (SelftestCheck& c : checks) c.prepare = [&] { ++prepared; };
  run(checks);
  EXPECT_LE(prepared.load(), 50);
}

TEST(SelftestCases, HaveDistinctCommands) {
  std::set<std::string> commands;
  for (const SelftestCase& c : selftest_cases(false)) {
    EXPECT_TRUE(commands.insert(c.group + command_of(c.request)).second)
        << "duplicate: " << command_of(c.request);
  }
  EXPECT_GT(commands.size(), 400u);
}

// The table must cover all dtypes, layouts, activations, in-place operands, alignments and determinism levels.
TEST(SelftestCases, CoverAllValuesOfEachField) {
  std::map<std::string, std::set<int64_t>> seen;
  for (const SelftestCase& c : selftest_cases(false)) {
    const auto* r = std::get_if<reference::MatmulRequest>(&c.request);
    if (r == nullptr) continue;
    seen["dtype"].insert(r->dtype);
    seen["out"].insert(r->out_dtype);
    seen["layout"].insert(r->dtype * 4 + r->trans_a * 2 + r->trans_b);
    seen["activation"].insert(r->activation);
    seen["places"].insert((r->beta != 0) + 2 * r->c_in_place + 4 * r->residual + 8 * r->residual_in_place);
    seen["misalign"].insert(static_cast<int64_t>(r->misalign));
    seen["broadcast"].insert(r->batch > 1 ? r->broadcast_a + 2 * r->broadcast_b : 0);
    seen["determinism"].insert(r->determinism);
    seen["zero"].insert(r->m == 0 ? 1 : r->n == 0 ? 2 : r->k == 0 ? 3 : r->batch == 0 ? 4 : 0);
    seen["fill"].insert(static_cast<int64_t>(r->fill));
    seen["math"].insert(r->math);
    if (r->m <= 16) seen["decode"].insert(r->m);
    if (r->k > 50000) seen["long"].insert(r->dtype);
  }
  EXPECT_EQ(seen["dtype"].size(), 8u);
  EXPECT_EQ(seen["out"].size(), 4u);
  EXPECT_EQ(seen["layout"].size(), 32u);
  EXPECT_EQ(seen["activation"].size(), 5u);
  EXPECT_EQ(seen["places"].size(), 8u)
      << "C and the residual are each absent, in their own memory or in D's, but not both in D's";
  EXPECT_EQ(seen["misalign"].size(), 6u);
  EXPECT_EQ(seen["broadcast"].size(), 4u);
  EXPECT_EQ(seen["determinism"].size(), 3u);
  EXPECT_EQ(seen["zero"].size(), 5u);
  EXPECT_EQ(seen["fill"].size(), 3u);
  EXPECT_EQ(seen["math"].size(), 2u);
  EXPECT_EQ(seen["decode"].size(), 17u) << "0 to 16";
  EXPECT_GE(seen["long"].size(), 3u);
}

TEST(SelftestCases, QuickTakesUpToEightCasesOfEachGroup) {
  std::map<std::string, int> all, quick;
  for (const SelftestCase& c : selftest_cases(false)) ++all[c.group];
  for (const SelftestCase& c : selftest_cases(true)) ++quick[c.group];
  ASSERT_EQ(all.size(), quick.size());
  for (const auto& [group, count] : all) EXPECT_EQ(quick[group], std::min(count, 8)) << group;
}

}  // namespace
}  // namespace lathe::cli
