// The checks of a device that need more than one request.
#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/plan_text.h"
#include "cli/selftest.h"
#include "cli/stream_capture.h"
#include "cli/trial.h"

namespace lathe::cli {
namespace {

using Result = absl::StatusOr<reference::CheckResult>;

reference::CheckResult wrong(std::string what) {
  reference::CheckResult r;
  r.what = std::move(what);
  return r;
}

reference::MatmulRequest product(int64_t m, int64_t n, int64_t k, int32_t split_k = 0) {
  reference::MatmulRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  r.split_k = split_k;
  r.bias = true;
  return r;
}

// Checks that `status` is `wanted`.
reference::CheckResult expect_status(lathe_status status, lathe_status wanted) {
  reference::CheckResult r;
  r.ok = status == wanted;
  r.what = r.ok ? "refused"
                : absl::StrCat("got ", lathe_status_name(status), ", expected ", lathe_status_name(wanted),
                               status == LATHE_OK ? "" : absl::StrCat(": ", lathe_last_error()));
  return r;
}

// A refused launch must write nothing. After `heal` the device must serve the same request.
Result expect_refusal(Trial& trial, lathe_status wanted, const std::function<void()>& heal) {
  if (absl::Status s = trial.reset(); !s.ok()) return s;
  reference::CheckResult refused = expect_status(trial.launch(), wanted);
  if (!refused.ok) return refused;
  auto untouched = trial.untouched();
  if (!untouched.ok()) return untouched.status();
  if (!*untouched) return wrong("the refused launch wrote to its result");
  heal();
  return run_checked(trial);
}

Result small_workspace(const SelftestDevice& d) {
  auto trial = make_trial(d.device, *d.stream, product(12, 64, 4096, 8), d.seed);
  if (!trial.ok()) return trial.status();
  auto plan = (*trial)->plan();
  if (!plan.ok()) return plan.status();
  size_t needed = 0;
  if (absl::Status s = check(lathe_plan_workspace_bytes(plan->get(), &needed)); !s.ok()) return s;
  if (needed <= 64) return absl::UnimplementedError("the plan with 8 splits needs no workspace here");
  auto memory = DeviceBuffer::make(d.device, d.stream->get(), std::vector<uint8_t>(needed));
  if (!memory.ok()) return memory.status();
  (*trial)->set_workspace(memory->data(), needed - 1);
  return expect_refusal(**trial, LATHE_INVALID_ARGUMENT,
                        [&] { (*trial)->set_workspace(memory->data(), needed); });
}

Result refused_miss(const SelftestDevice& d) {
  auto trial = make_trial(d.device, *d.stream, product(11, 13, 1009), d.seed);
  if (!trial.ok()) return trial.status();
  (*trial)->set_miss_policy(LATHE_MISS_ERROR);
  return expect_refusal(**trial, LATHE_MISS, [&] { (*trial)->set_miss_policy(LATHE_MISS_DEFAULT); });
}

// The number of launches in a check of overlapping launches.
int repeats(const SelftestDevice& d) { return d.quick ? 4 : 100; }

// Uses the workspaces and counters of two streams at the same time, many times. Each launch in flight writes its own
// result.
Result two_streams(const SelftestDevice& d, const reference::MatmulRequest& request) {
  if (d.stream->get() == nullptr) return absl::UnimplementedError(absl::StrCat(d.name, " has no streams"));
  auto other = Stream::make(d.device);
  if (!other.ok()) return other.status();
  const int in_flight = std::min(repeats(d), 10);
  std::vector<std::unique_ptr<Trial>> trials;
  for (int i = 0; i < 2 * in_flight; ++i) {
    auto trial = make_trial(d.device, i % 2 ? *other : *d.stream, request, d.seed + static_cast<uint64_t>(i));
    if (!trial.ok()) return trial.status();
    trials.push_back(*std::move(trial));
  }
  Result result = reference::CheckResult();
  for (int lap = 0; lap < repeats(d) / in_flight; ++lap) {
    for (const auto& trial : trials)
      if (absl::Status s = trial->reset(); !s.ok()) return s;
    for (const auto& trial : trials)
      if (absl::Status s = check(trial->launch()); !s.ok()) return s;
    for (const auto& trial : trials) {
      result = trial->verify();
      if (!result.ok() || !result->ok) return result;
    }
  }
  return result;
}

// The same with the best candidate of a kernel family that splits K.
Result two_streams_of(const SelftestDevice& d, const std::string& family) {
  reference::MatmulRequest request = product(13, 104, 2072);
  request.dtype = request.out_dtype = LATHE_BF16;
  auto trial = make_trial(d.device, *d.stream, request, d.seed);
  if (!trial.ok()) return trial.status();
  auto plan = (*trial)->plan();
  if (!plan.ok()) return plan.status();
  auto json = explain(plan->get());
  if (!json.ok()) return json.status();
  for (const Json& c : json->value("candidates", Json::array())) {
    const bool is_it = c.value("legal", false) && c.value("splits", 1) > 1 &&
                       c.value("config", Json::object()).value("kernel", "") == family;
    if (!is_it) continue;
    request.candidate = c.value("rank", 0);
    return two_streams(d, request);
  }
  return absl::UnimplementedError(absl::StrCat("no candidate of the family ", family, " splits K here"));
}

// Two host threads launch at the same time, each on its own stream.
Result two_threads(const SelftestDevice& d) {
  const auto work = [&d](uint64_t seed, Result* result) {
    auto stream = Stream::make(d.device);
    if (!stream.ok()) return void(*result = stream.status());
    auto trial = make_trial(d.device, *stream, product(9, 80, 1536, 5), seed);
    if (!trial.ok()) return void(*result = trial.status());
    for (int i = 0; i < repeats(d) / 2; ++i) {
      *result = run_checked(**trial);
      if (!result->ok() || !(*result)->ok) return;
    }
  };
  Result one = reference::CheckResult(), two = reference::CheckResult();
  std::thread thread(work, d.seed, &one);
  work(d.seed + 1, &two);
  thread.join();
  return one.ok() && one->ok ? two : one;
}

// Captures what `inside` launches. Ends the capture even if `inside` fails.
absl::StatusOr<std::unique_ptr<CapturedGraph>> capture(Capture& with, lathe_stream stream,
                                                       const std::function<absl::Status()>& inside) {
  if (absl::Status s = with.begin(stream); !s.ok()) return s;
  const absl::Status done = inside();
  auto graph = with.end(stream);
  if (!done.ok()) return done;
  return graph;
}

// A launch whose class is prepared is captured, runs with the graph, and runs again with each replay.
template <typename Request>
Result captured_hit(const SelftestDevice& d, const Request& request) {
  auto with = open_capture(d.name);
  if (!with.ok()) return with.status();
  auto trial = make_trial(d.device, *d.stream, request, d.seed);
  if (!trial.ok()) return trial.status();
  Result prepared = run_checked(**trial);
  if (!prepared.ok() || !prepared->ok) return prepared;
  if (absl::Status s = (*trial)->reset(); !s.ok()) return s;
  auto graph = capture(**with, d.stream->get(), [&] { return check((*trial)->launch()); });
  if (!graph.ok()) return graph.status();
  auto untouched = (*trial)->untouched();
  if (!untouched.ok()) return untouched.status();
  if (!*untouched) return wrong("the captured launch ran at once");
  Result result = reference::CheckResult();
  for (int replay = 0; replay < 3; ++replay) {
    if (absl::Status s = (*trial)->reset(); !s.ok()) return s;
    if (absl::Status s = (*graph)->launch(); !s.ok()) return s;
    result = (*trial)->verify();
    if (!result.ok() || !result->ok) return result;
  }
  return result;
}

// A miss during a capture returns CAPTURE_MISS. It leaves the capture valid and the result unchanged.
Result captured_miss(const SelftestDevice& d) {
  auto with = open_capture(d.name);
  if (!with.ok()) return with.status();
  auto trial = make_trial(d.device, *d.stream, product(19, 23, 1013), d.seed);
  if (!trial.ok()) return trial.status();
  reference::CheckResult refused;
  auto graph = capture(**with, d.stream->get(), [&] {
    refused = expect_status((*trial)->launch(), LATHE_CAPTURE_MISS);
    return absl::OkStatus();
  });
  if (!graph.ok()) return graph.status();
  if (!refused.ok) return refused;
  if (absl::Status s = (*graph)->launch(); !s.ok()) return s;
  auto untouched = (*trial)->untouched();
  if (!untouched.ok()) return untouched.status();
  if (!*untouched) return wrong("the refused launch was captured");
  return run_checked(**trial);
}

// Another thread compiles, loads and allocates while this one captures. Neither may disturb the other.
Result load_beside_a_capture(const SelftestDevice& d) {
  auto with = open_capture(d.name);
  if (!with.ok()) return with.status();
  auto trial = make_trial(d.device, *d.stream, product(14, 48, 700), d.seed);
  if (!trial.ok()) return trial.status();
  Result prepared = run_checked(**trial), beside = reference::CheckResult();
  if (!prepared.ok() || !prepared->ok) return prepared;
  if (absl::Status s = (*trial)->reset(); !s.ok()) return s;
  auto graph = capture(**with, d.stream->get(), [&] {
    std::thread thread([&] {
      lathe_plan* plan = nullptr;
      lathe_tuning tuning;
      const lathe_matmul_desc desc = descriptor(product(15, 52, 1019, 3), &tuning);
      const absl::Status planned = check(lathe_plan_matmul(d.device, &desc, &plan));
      lathe_plan_destroy(plan);
      beside = planned.ok() ? Result(expect_status(LATHE_OK, LATHE_OK)) : Result(planned);
    });
    thread.join();
    return check((*trial)->launch());
  });
  if (!beside.ok()) return beside;
  if (!graph.ok()) return graph.status();
  if (absl::Status s = (*graph)->launch(); !s.ok()) return s;
  return (*trial)->verify();
}

}  // namespace

std::vector<Behaviour> selftest_behaviours(const SelftestDevice& d) {
  reference::ArgmaxRequest rows;
  rows.rows = 3;
  rows.n = 70000;
  rows.values = true;
  return {
      {"refusals", "a workspace that is too small", [d] { return small_workspace(d); }},
      {"refusals", "a miss under the policy ERROR", [d] { return refused_miss(d); }},
      {"streams", "two at once", [d] { return two_streams(d, product(24, 96, 1024, 6)); }},
      {"streams", "two at once, mma", [d] { return two_streams_of(d, "mma"); }},
      {"streams", "two at once, wgmma", [d] { return two_streams_of(d, "wgmma"); }},
      {"streams", "two at once, skinny", [d] { return two_streams_of(d, "skinny"); }},
      {"streams", "two threads at once", [d] { return two_threads(d); }},
      {"capture", "a matmul", [d] { return captured_hit(d, product(33, 64, 256)); }},
      {"capture", "a matmul of split K", [d] { return captured_hit(d, product(5, 64, 2048, 6)); }},
      {"capture", "an argmax", [d, rows] { return captured_hit(d, rows); }},
      {"capture", "a miss", [d] { return captured_miss(d); }},
      {"capture", "a load beside it", [d] { return load_beside_a_capture(d); }},
  };
}

}  // namespace lathe::cli
