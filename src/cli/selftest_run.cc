#include "cli/selftest_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/plan_text.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostInARow = 20;
constexpr double kSecondsBetweenLines = 15;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Compiles kernels on its own threads before the checks need them. Compiling takes most of the time and does not use
// the device.
class CompileAhead {
 public:
  explicit CompileAhead(const std::vector<SelftestCheck>& checks, size_t from = 0)
      : checks_(checks), next_(from) {
    const unsigned cores = std::max(2u, std::thread::hardware_concurrency());
    for (unsigned i = 1; i < cores; ++i) threads_.emplace_back([this] { work(); });
  }
  ~CompileAhead() {
    next_ = checks_.size();
    for (std::thread& t : threads_) t.join();
  }

 private:
  void work() {
    for (size_t i = next_++; i < checks_.size(); i = next_++) {
      if (checks_[i].prepare)
        checks_[i].prepare();  // ignores a failure: the check fails again and reports it
    }
  }

  const std::vector<SelftestCheck>& checks_;
  std::atomic<size_t> next_;
  std::vector<std::thread> threads_;
};

// The message without the request: "UNSUPPORTED: matmul i8 ... on cpu: CAUSE" gives "CAUSE".
std::string cause_of(const absl::Status& status, const std::string& device) {
  const std::string message(status.message()), before = absl::StrCat(" on ", device, ": ");
  const size_t at = message.find(before);
  return at == std::string::npos ? message : message.substr(at + before.size());
}

void judge(const SelftestCheck& c, const std::string& device, Tally* tally) {
  const absl::StatusOr<reference::CheckResult> result = c.run();
  if (absl::IsUnimplemented(result.status())) {
    ++tally->skipped;
    ++tally->reasons[absl::StrCat(c.group, ": ", cause_of(result.status(), device))];
    return;
  }
  if (result.ok() && result->ok) {
    ++tally->right;
    tally->in_a_row = 0;
    return;
  }
  ++tally->wrong;
  ++tally->in_a_row;
  absl::PrintF("WRONG  %s %s: %s\n       %s\n", c.group, c.what,
               result.ok() ? result->what : std::string(result.status().message()), c.command);
  std::fflush(stdout);
}

void print_group(const std::string& group, const Tally& before, const Tally& now, double seconds) {
  const auto part = [](int64_t count, const char* name) {
    return count == 0 ? "" : absl::StrFormat("  %4d %s", count, name);
  };
  absl::PrintF("  %-18s%s%s%s  in %s\n", group, part(now.right - before.right, "right"),
               part(now.wrong - before.wrong, "wrong"), part(now.skipped - before.skipped, "skipped"),
               duration(seconds));
  std::fflush(stdout);
}

}  // namespace

Tally run_checks(const std::vector<SelftestCheck>& checks, const std::string& device) {
  const CompileAhead ahead(checks);
  Tally tally, before;
  auto group_start = Clock::now(), last_line = group_start;
  for (size_t i = 0; i < checks.size(); ++i) {
    judge(checks[i], device, &tally);
    const bool lost = tally.in_a_row == kMostInARow;
    if (lost || i + 1 == checks.size() || checks[i + 1].group != checks[i].group) {
      print_group(checks[i].group, before, tally, seconds_since(group_start));
      before = tally;
      group_start = last_line = Clock::now();
    } else if (seconds_since(last_line) > kSecondsBetweenLines) {
      absl::PrintF("  %-18s  ... %d of all %d checks done\n", checks[i].group, i + 1, checks.size());
      std::fflush(stdout);
      last_line = Clock::now();
    }
    if (!lost) continue;
    absl::PrintF("stopped after %d failures in a row; %d checks were not run\n", kMostInARow,
                 checks.size() - i - 1);
    break;
  }
  return tally;
}

absl::Status run_each(const std::vector<SelftestCheck>& checks, const std::string& device, size_t from) {
  const CompileAhead ahead(checks, from);
  size_t wrong = 0;
  const auto tell = [](const Json& line) {
    absl::PrintF("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  };
  for (size_t i = from; i < checks.size(); ++i) {
    const SelftestCheck& c = checks[i];
    tell(
        {{"case", i}, {"state", "prepare"}, {"of", checks.size()}, {"what", c.what}, {"command", c.command}});
    if (c.prepare) c.prepare();
    tell({{"case", i}, {"state", "begin"}, {"group", c.group}, {"what", c.what}, {"command", c.command}});
    const absl::StatusOr<reference::CheckResult> result = c.run();
    if (result.ok()) {
      tell({{"case", i},
            {"state", result->ok ? "right" : "wrong"},
            {"worst", result->worst},
            {"checked", result->checked},
            {"detail", result->what}});
      wrong += !result->ok;
    } else if (absl::IsUnimplemented(result.status())) {
      tell({{"case", i}, {"state", "refused"}, {"detail", cause_of(result.status(), device)}});
    } else {
      tell({{"case", i}, {"state", "failed"}, {"detail", std::string(result.status().message())}});
      ++wrong;
    }
  }
  return wrong == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat(wrong, " checks failed"));
}

absl::Status conclude(const Tally& tally, const std::string& device) {
  for (const auto& [reason, count] : tally.reasons) absl::PrintF("skipped %4d  %s\n", count, reason);
  const std::string verdict = absl::StrFormat("selftest %s: %d right, %d wrong, %d skipped", device,
                                              tally.right, tally.wrong, tally.skipped);
  absl::PrintF("%s\n", verdict);
  if (tally.wrong > 0) return absl::DataLossError(verdict);
  if (tally.right == 0) return absl::UnavailableError(absl::StrCat(verdict, ": nothing was tested"));
  return absl::OkStatus();
}

}  // namespace lathe::cli
