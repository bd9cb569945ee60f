#include "cli/selftest.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/planned.h"
#include "cli/selftest_run.h"
#include "cli/session.h"
#include "cli/trial.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

constexpr size_t kQuickCandidates = 6;

// A seed of its own for each command, short enough to type.
uint64_t seed_of(const std::string& command, uint64_t seed) {
  uint64_t hash = seed ^ 0xcbf29ce484222325u;
  for (const char c : command) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return (hash ^ hash >> 32) & 0x7fffffffu;
}

SelftestCheck check_of(const SelftestDevice& d, const std::string& group, const AnyRequest& request) {
  const std::string command = command_of(request);
  const uint64_t seed = seed_of(command, d.seed);
  return {group, command, absl::StrCat("lathe run ", command, " --seed ", seed, " --device ", d.name),
          [d, request, seed]() -> absl::StatusOr<CheckResult> {
            auto trial =
                std::visit([&](const auto& r) { return make_trial(d.device, *d.stream, r, seed); }, request);
            if (!trial.ok()) return trial.status();
            return run_checked(**trial);
          },
          [d, request] { std::visit([&](const auto& r) { plan(d.device, r).IgnoreError(); }, request); }};
}

// What of the table is run: checks whose line contains the text, of requests without a larger side, forced
// onto one kernel family or as the oracle has it.
struct Selection {
  std::string filter, family;
  int64_t largest;  // side of a request
};

// The ranks of the request's legal candidates, of the family alone if one is named; some of them when quick:
// the best of each kernel and an even choice.
absl::StatusOr<std::vector<int32_t>> candidates_of(const SelftestDevice& d, const AnyRequest& request,
                                                   const std::string& family) {
  const size_t misalign = std::visit([](const auto& r) { return r.misalign; }, request);
  if (misalign % 16 != 0 && d.stream->get() != nullptr)
    return absl::UnimplementedError("a plan reads no pointers: candidates for misaligned ones are not told");
  auto json = std::visit([&](const auto& r) { return explain(d.device, r); }, request);
  if (!json.ok()) return json.status();
  std::vector<int32_t> all;
  std::set<int32_t> some;
  std::set<std::string> kernels;
  for (const Json& c : json->value("candidates", Json::array())) {
    const std::string kernel = c.value("config", Json::object()).value("kernel", "");
    if (!c.value("legal", false) || (!family.empty() && kernel != family)) continue;
    all.push_back(c.value("rank", 0));
    if (kernels.insert(kernel).second) some.insert(all.back());
  }
  if (all.empty()) return absl::UnimplementedError(absl::StrCat("no legal candidate of the family ", family));
  if (!d.quick) return all;
  for (size_t i = 0; i < kQuickCandidates && !all.empty(); ++i)
    some.insert(all[i * all.size() / kQuickCandidates]);
  return std::vector<int32_t>(some.begin(), some.end());
}

// A row of the table as checks: itself, or forced onto the family's best candidate, or one a candidate.
std::vector<SelftestCheck> expand(const SelftestDevice& d, const SelftestCase& c, const std::string& family) {
  if (!c.every_candidate && family.empty()) return {check_of(d, c.group, c.request)};
  auto ranks = candidates_of(d, c.request, family);
  if (ranks.ok() && !c.every_candidate) ranks->resize(1);
  if (!ranks.ok()) {
    SelftestCheck failed = check_of(d, c.group, c.request);
    failed.run = [status = ranks.status()] { return absl::StatusOr<CheckResult>(status); };
    return {failed};
  }
  std::vector<SelftestCheck> checks;
  for (const int32_t rank : *ranks) {
    AnyRequest forced = c.request;
    std::visit([rank](auto& r) { r.candidate = rank; }, forced);
    checks.push_back(check_of(d, c.group, forced));
  }
  return checks;
}

bool is_wanted(const std::string& filter, const std::string& group, const std::string& what) {
  return absl::StrContains(absl::StrCat(group, " ", what), filter);
}

int64_t largest_of(const MatmulRequest& r) { return std::max({r.m, r.n, r.k}); }
int64_t largest_of(const ArgmaxRequest& r) { return std::max(r.rows, r.n); }
int64_t largest_of(const MatmulArgmaxRequest& r) { return std::max({r.m, r.n, r.k}); }

// Whether a check that is the row, with whatever rank forced, may be wanted: the rank ends a command.
bool may_be_wanted(const std::string& filter, const SelftestCase& c, bool forced) {
  const std::string what = command_of(c.request);
  if (!forced) return is_wanted(filter, c.group, what);
  return is_wanted(filter.substr(0, filter.find_last_not_of("0123456789") + 1), c.group,
                   absl::StrCat(what, " --candidate "));
}

std::vector<SelftestCheck> all_checks(const SelftestDevice& d, const Selection& selection) {
  const std::string& filter = selection.filter;
  std::vector<SelftestCase> rows;
  size_t left_out = 0;
  for (SelftestCase& c : selftest_cases(d.quick)) {
    if (std::visit([](const auto& r) { return largest_of(r); }, c.request) > selection.largest) {
      ++left_out;
      continue;
    }
    if (may_be_wanted(filter, c, c.every_candidate || !selection.family.empty()))
      rows.push_back(std::move(c));
  }
  std::vector<SelftestCheck> checks;
  for (const SelftestCase& row : rows)
    for (SelftestCheck& check : expand(d, row, selection.family))
      if (is_wanted(filter, check.group, check.what)) checks.push_back(std::move(check));
  if (!selection.family.empty()) return checks;  // behaviours are of requests as the oracle plans them
  for (const Behaviour& b : selftest_behaviours(d)) {
    if (!is_wanted(filter, b.group, b.name)) continue;
    checks.push_back({b.group, b.name,
                      absl::StrCat("lathe selftest --filter '", b.group, " ", b.name, "' --seed ", d.seed,
                                   " --device ", d.name),
                      b.run, nullptr});
  }
  if (left_out > 0)
    absl::PrintF("  left out: %d rows of checks with a side of more than %d\n", left_out, selection.largest);
  return checks;
}

// The kernel families that requests of the table are measured against on the device.
std::vector<std::string> families_of(lathe_device* device) {
  std::set<std::string> families;
  for (const SelftestCase& c : selftest_cases(/*quick=*/true)) {
    auto json = std::visit([&](const auto& r) { return explain(device, r); }, c.request);
    if (!json.ok()) continue;
    for (const Json& candidate : json->at("candidates")) {
      const Json& config = candidate.at("config");
      if (config.at("external").at("library") == "") families.insert(config.at("kernel").get<std::string>());
    }
  }
  return {families.begin(), families.end()};
}

// "NVIDIA H200, sm_90a", "" when the library knows no such device.
absl::StatusOr<std::string> describe_device(lathe_context* context, const std::string& name) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_devices(context, collect_text, &pieces)); !s.ok()) return s;
  auto list = parse_json(pieces, "devices");
  if (!list.ok()) return list.status();
  for (const Json& device : *list) {
    if (device.value("name", "") != name) continue;
    return absl::StrCat(device.value("description", ""), ", ",
                        device.value("target", Json::object()).value("arch", ""));
  }
  return std::string();
}

absl::Status selftest(const Arguments& arguments) {
  auto seed = arguments.integer("seed", std::random_device()() & 0x7fffffff, 0, INT64_MAX);
  if (!seed.ok()) return seed.status();
  auto largest = arguments.integer("largest", INT64_MAX, 1, INT64_MAX);
  if (!largest.ok()) return largest.status();
  auto context = make_context(arguments);
  if (!context.ok()) return context.status();
  auto device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  auto stream = Stream::make(device->get());
  if (!stream.ok()) return stream.status();
  absl::StatusOr<std::string> family = std::string();
  if (arguments.has("family")) family = arguments.choice("family", families_of(device->get()));
  if (!family.ok()) return family.status();
  const std::string name = arguments.text("device", "cpu");
  const Selection selection = {arguments.text("filter", ""), *family, *largest};
  const SelftestDevice d = {device->get(), &*stream, name, static_cast<uint64_t>(*seed),
                            arguments.has("quick")};
  auto description = describe_device(context->get(), name);
  if (!description.ok()) return description.status();
  absl::PrintF(
      "selftest %s (%s), lathe %s, seed %d%s%s\n", name, *description, lathe_version(), *seed,
      selection.family.empty() ? "" : absl::StrCat(", every request on the kernel family ", selection.family),
      selection.filter.empty() ? "" : absl::StrCat(", what contains '", selection.filter, "' alone"));
  std::fflush(stdout);
  const std::vector<SelftestCheck> checks = all_checks(d, selection);
  if (checks.empty())
    return absl::InvalidArgumentError(absl::StrCat("no check contains '", selection.filter, "'"));
  return conclude(run_checks(checks, name), name);
}

}  // namespace

Verb selftest_verb() {
  return {
      "selftest",
      "",
      0,
      "test a device on this machine: every op against float64, with a verdict",
      {device_flag(),
       {"quick", nullptr, "an even choice of the checks, about a tenth"},
       {"largest", "N", "only requests without a side of more than N: for a device that an emulator plays"},
       {"filter", "TEXT", "only checks whose line contains this: 'epilogues', 'capture', 'bf16'"},
       {"family", "KERNEL",
        "force every request onto this kernel family where it is legal: simt, mma, wgmma, skinny, rows"},
       {"seed", "S", "of the random inputs (default: a fresh one, printed)"}},
      {"lathe selftest --quick", "lathe selftest --device cuda:0",
       "lathe selftest --device cuda:0 --family mma"},
      selftest};
}

}  // namespace lathe::cli
