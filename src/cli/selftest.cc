#include "cli/selftest.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/files.h"
#include "cli/selftest_run.h"
#include "cli/session.h"
#include "cli/trial.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

constexpr size_t kQuickCandidates = 6;

// A different seed for each command, short enough to type.
uint64_t seed_of(const std::string& command, uint64_t seed) {
  uint64_t hash = seed ^ 0xcbf29ce484222325u;
  for (const char c : command) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return (hash ^ hash >> 32) & 0x7fffffffu;
}

SelftestCheck check_of(const SelftestDevice& d, const std::string& group, const AnyRequest& request) {
  const std::string command = command_of(request);
  const uint64_t seed = seed_of(command, d.seed);
  return {group,
          command,
          absl::StrCat("lathe run ", command, " --seed ", seed, " --device ", d.name),
          [d, request, seed]() -> absl::StatusOr<reference::CheckResult> {
            auto trial = make_trial(d.device, *d.stream, request, seed);
            if (!trial.ok()) return trial.status();
            return run_checked(**trial);
          },
          [d, request] { plan(d.device, request).IgnoreError(); },
          std::make_shared<const AnyRequest>(request)};
}

// Selects the checks. A check runs if its line contains `filter` and no dimension of its request exceeds `largest`.
// With `family` the request is forced onto that kernel family.
struct Selection {
  std::string filter, family;
  std::string requests;  // the text of a request file; "": the built-in table
  int64_t largest = INT64_MAX;
  int64_t best = 1;  // candidates per request of a request file
};

// A candidate to force. Rank 0 is the oracle's choice.
struct Rank {
  int32_t rank = 0;
  std::string group;  // "wgmma, merge last"
};

std::string group_of(const Json& config) {
  constexpr const char* kMerges[] = {"none", "step", "last", "cluster"};  // by Split (core/plan.h)
  const auto split = static_cast<size_t>(config.value("split", 0));
  return absl::StrCat(config.value("kernel", ""), ", merge ", split < 4 ? kMerges[split] : "?");
}

// The legal candidates of the family, or all legal ones if no family is named.
absl::StatusOr<std::vector<Json>> legal_candidates(const SelftestDevice& d, const AnyRequest& request,
                                                   const std::string& family) {
  const size_t misalign = common_fields(request).misalign;
  if (misalign % 16 != 0 && d.name.rfind("cpu", 0) != 0)
    return absl::UnimplementedError(
        "candidates for misaligned pointers are unknown: a plan reads no pointers and assumes aligned ones");
  auto json = explain(d.device, request);
  if (!json.ok()) return json.status();
  std::vector<Json> legal;
  for (const Json& c : json->value("candidates", Json::array())) {
    const std::string kernel = c.value("config", Json::object()).value("kernel", "");
    if (c.value("legal", false) && (family.empty() || kernel == family)) legal.push_back(c);
  }
  if (legal.empty())
    return absl::UnimplementedError(absl::StrCat("the family ", family, " has no legal candidate"));
  return legal;
}

// All candidates; with --quick the best of each kernel family, and some evenly spaced ones.
std::vector<Rank> each_of(const SelftestDevice& d, const std::vector<Json>& legal, const std::string& group) {
  std::set<size_t> chosen;
  std::set<std::string> kernels;
  for (size_t i = 0; i < legal.size(); ++i)
    if (!d.quick || kernels.insert(legal[i].at("config").value("kernel", "")).second) chosen.insert(i);
  for (size_t i = 0; i < kQuickCandidates; ++i) chosen.insert(i * legal.size() / kQuickCandidates);
  std::vector<Rank> ranks;
  for (const size_t i : chosen) ranks.push_back({legal[i].value("rank", 0), group});
  return ranks;
}

// With a family: its best candidate for each way to merge splits. Without: the first `best` candidates.
std::vector<Rank> few_of(const std::vector<Json>& legal, const Selection& selection) {
  std::vector<Rank> ranks;
  std::set<std::string> groups;
  for (const Json& c : legal) {
    const std::string group = group_of(c.at("config"));
    if (selection.family.empty() ? ranks.size() < static_cast<size_t>(selection.best)
                                 : groups.insert(group).second)
      ranks.push_back({c.value("rank", 0), group});
  }
  if (selection.family.empty()) ranks[0].rank = 0;  // runs the oracle's choice without forcing a candidate
  return ranks;
}

absl::StatusOr<std::vector<Rank>> ranks_of(const SelftestDevice& d, const SelftestCase& c,
                                           const Selection& selection) {
  const bool as_it_is = c.forced == Forced::kNone
                            ? selection.family.empty() || !selection.requests.empty()
                            : c.forced == Forced::kMerge && selection.best == 1 && selection.family.empty();
  if (as_it_is) return std::vector<Rank>{{common_fields(c.request).candidate, c.group}};
  auto legal = legal_candidates(d, c.request, selection.family);
  if (!legal.ok()) return legal.status();
  if (c.forced == Forced::kEach) return each_of(d, *legal, c.group);
  if (c.forced == Forced::kMerge) return few_of(*legal, selection);
  return std::vector<Rank>{{legal->front().value("rank", 0), c.group}};
}

// Turns a table row into checks, one per forced candidate. A row without candidates becomes a check that
// reports the reason.
std::vector<SelftestCheck> expand(const SelftestDevice& d, const SelftestCase& c,
                                  const Selection& selection) {
  auto ranks = ranks_of(d, c, selection);
  if (!ranks.ok()) {
    SelftestCheck failed = check_of(d, c.group, c.request);
    failed.run = [status = ranks.status()] { return absl::StatusOr<reference::CheckResult>(status); };
    failed.prepare = nullptr;
    failed.request = nullptr;
    return {failed};
  }
  std::vector<SelftestCheck> checks;
  for (const Rank& rank : *ranks) {
    AnyRequest forced = c.request;
    common_fields(forced).candidate = rank.rank;
    checks.push_back(check_of(d, rank.group, forced));
  }
  return checks;
}

bool is_wanted(const std::string& filter, const std::string& group, const std::string& what) {
  return absl::StrContains(absl::StrCat(group, " ", what), filter);
}

int64_t largest_size(const AnyRequest& request) {
  const std::vector<int64_t> sizes = std::visit([](const auto& r) { return r.sizes(); }, request);
  return *std::max_element(sizes.begin(), sizes.end());
}

// Whether the filter may select a check of this row. `forced`: a rank will be appended to the command, so the digits
// at the end of the filter are ignored.
bool may_be_wanted(const std::string& filter, const SelftestCase& c, bool forced) {
  const std::string what = command_of(c.request);
  if (!forced) return is_wanted(filter, c.group, what);
  return is_wanted(filter.substr(0, filter.find_last_not_of("0123456789") + 1), c.group,
                   absl::StrCat(what, " --candidate "));
}

absl::StatusOr<std::vector<SelftestCheck>> all_checks(const SelftestDevice& d, const Selection& selection) {
  const std::string& filter = selection.filter;
  absl::StatusOr<std::vector<SelftestCase>> table =
      selection.requests.empty() ? selftest_cases(d.quick) : read_requests(selection.requests);
  if (!table.ok()) return table.status();
  std::vector<SelftestCase> rows;
  size_t left_out = 0;
  for (SelftestCase& c : *table) {
    if (largest_size(c.request) > selection.largest) {
      ++left_out;
      continue;
    }
    if (c.forced == Forced::kMerge ||
        may_be_wanted(filter, c, c.forced == Forced::kEach || !selection.family.empty()))
      rows.push_back(std::move(c));
  }
  std::vector<SelftestCheck> checks;
  for (const SelftestCase& row : rows)
    for (SelftestCheck& check : expand(d, row, selection))
      if (is_wanted(filter, check.group, check.what)) checks.push_back(std::move(check));
  if (left_out > 0)
    absl::PrintF("  left out: %d requests with a dimension above %d\n", left_out, selection.largest);
  // Behaviours use the oracle's own plans.
  if (!selection.family.empty() || !selection.requests.empty()) return checks;
  for (const Behaviour& b : selftest_behaviours(d)) {
    if (!is_wanted(filter, b.group, b.name)) continue;
    checks.push_back({b.group, b.name,
                      absl::StrCat("lathe selftest --filter '", b.group, " ", b.name, "' --seed ", d.seed,
                                   " --device ", d.name),
                      b.run, nullptr, nullptr});
  }
  return checks;
}

// A manifest for `lathe warm`: the class of each check, with the candidate it forces.
absl::StatusOr<std::string> manifest_of(const SelftestDevice& d, const std::vector<SelftestCheck>& checks) {
  std::string lines;
  for (const SelftestCheck& c : checks) {
    if (c.request == nullptr) continue;
    auto json = explain(d.device, *c.request);
    if (!json.ok()) continue;  // the device refuses this request; the check reports it
    Json entry = json->at("class");
    const reference::OpRequest& fields = common_fields(*c.request);
    if (fields.split_k != 0) entry["split_k"] = fields.split_k;
    if (fields.candidate != 0) entry["candidate"] = fields.candidate;
    entry.erase("generic");
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n", entry.dump());
  }
  return absl::StrCat("{\"lathe_manifest\": 1, \"classes\": [\n", lines, "\n]}\n");
}

// The kernel families that have a candidate for a request of the quick table on this device.
std::vector<std::string> families_of(lathe_device* device) {
  std::set<std::string> families;
  for (const SelftestCase& c : selftest_cases(/*quick=*/true)) {
    auto json = explain(device, c.request);
    if (!json.ok()) continue;
    for (const Json& candidate : json->at("candidates")) {
      const Json& config = candidate.at("config");
      if (config.at("external").at("library") == "") families.insert(config.at("kernel").get<std::string>());
    }
  }
  return {families.begin(), families.end()};
}

// "NVIDIA H200, sm_90a"; "" if there is no device of this name.
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

absl::StatusOr<Selection> selection_of(const Arguments& arguments, lathe_device* device) {
  Selection selection;
  selection.filter = arguments.text("filter", "");
  auto largest = arguments.integer("largest", INT64_MAX, 1, INT64_MAX);
  if (!largest.ok()) return largest.status();
  selection.largest = *largest;
  auto best = arguments.integer("best", 1, 1, 10000);
  if (!best.ok()) return best.status();
  selection.best = *best;
  if (arguments.has("requests")) {
    auto text = read_file(arguments.text("requests", ""));
    if (!text.ok()) return text.status();
    selection.requests = *std::move(text);
    if (selection.requests.empty()) return absl::InvalidArgumentError("--requests: the file is empty");
  } else if (arguments.has("best")) {
    return absl::InvalidArgumentError("--best can only be used with --requests");
  }
  if (!arguments.has("family")) return selection;
  auto family = arguments.choice("family", families_of(device));
  if (!family.ok()) return family.status();
  selection.family = *family;
  return selection;
}

absl::Status selftest(const Arguments& arguments) {
  auto seed = arguments.seed();
  if (!seed.ok()) return seed.status();
  auto from = arguments.integer("from", 0, 0, INT64_MAX);
  if (!from.ok()) return from.status();
  const bool only_lists = arguments.has("manifest");
  if (names_described_device(arguments) && !only_lists)
    return absl::InvalidArgumentError(
        "--facts and --target can only be used with --manifest: a described device cannot run checks");
  auto context = make_context(arguments);
  if (!context.ok()) return context.status();
  auto device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  auto stream = only_lists ? Stream() : Stream::make(device->get());
  if (!stream.ok()) return stream.status();
  auto selection = selection_of(arguments, device->get());
  if (!selection.ok()) return selection.status();
  const std::string name = names_described_device(arguments) ? "described" : arguments.text("device", "cpu");
  const SelftestDevice d = {device->get(), &*stream, name, static_cast<uint64_t>(*seed),
                            arguments.has("quick")};
  auto checks = all_checks(d, *selection);
  if (!checks.ok())
    return absl::InvalidArgumentError(
        absl::StrCat("--requests ", arguments.text("requests", ""), ": ", checks.status().message()));
  if (checks->empty())
    return absl::InvalidArgumentError(
        absl::StrCat("--filter: the line of no check contains '", selection->filter, "'"));
  if (only_lists) {
    auto manifest = manifest_of(d, *checks);
    return manifest.ok() ? write_file(arguments.text("manifest", ""), *manifest) : manifest.status();
  }
  if (arguments.has("each")) return run_each(*checks, name, static_cast<size_t>(*from));
  if (*from > 0) return absl::InvalidArgumentError("--from can only be used with --each");
  auto description = describe_device(context->get(), name);
  if (!description.ok()) return description.status();
  absl::PrintF(
      "selftest %s (%s), lathe %s, seed %d%s%s\n", name, *description, lathe_version(), *seed,
      selection->family.empty() ? ""
                                : absl::StrCat(", every request on the kernel family ", selection->family),
      selection->filter.empty() ? "" : absl::StrCat(", only checks that contain '", selection->filter, "'"));
  std::fflush(stdout);
  return conclude(run_checks(*checks, name), name);
}

}  // namespace

Verb selftest_verb() {
  return {
      "selftest",
      "",
      0,
      "test a device of this machine: run every op and check it against float64",
      {device_flag(),
       miss_flag(),
       facts_flag(),
       target_flag(),
       {"quick", nullptr, "run about a tenth of the checks, taken evenly from each group"},
       {"largest", "N", "skip requests with a dimension above N, for example on an emulated device"},
       {"filter", "TEXT", "run only checks whose line contains this text: 'epilogues', 'capture', 'bf16'"},
       {"family", "KERNEL",
        "force this kernel family wherever it is legal: simt, mma, wgmma, skinny, rows, ..."},
       {"requests", "FILE",
        "run the requests of this file instead, one per line as after 'lathe run'; with --family one "
        "candidate for each "
        "way to merge splits"},
       {"best", "N", "with --requests: run the N best candidates of each request (default: 1)"},
       {"each", nullptr, "print a line of JSON when each check begins and ends, for a program that watches"},
       {"from", "N", "with --each: begin at check N, counted from 0"},
       {"manifest", "FILE",
        "run nothing, but write the classes of the checks as a manifest for 'lathe warm'"},
       seed_flag()},
      {"lathe selftest --quick", "lathe selftest --device cuda:0",
       "lathe selftest --device cuda:0 --family mma"},
      selftest};
}

}  // namespace lathe::cli
