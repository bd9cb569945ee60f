#include "core/facts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/small_file.h"
#include "base/status.h"
#include "core/amd_targets.h"
#include "core/cpu_costs.h"
#include "core/json_object.h"

namespace lathe {
namespace {

constexpr absl::string_view kFactNames[] = {"cores",
                                            "clock_hz",
                                            "fma_units",
                                            "l1d_bytes",
                                            "l2_bytes",
                                            "l3_bytes",
                                            "memory_bytes_per_second",
                                            "core_bytes_per_second",
                                            "pace_bytes_per_second",
                                            "prefetch_into_l1",
                                            "ahead_bytes_per_second",
                                            "stream_bytes_per_second",
                                            "f32_products_per_second",
                                            "int8_products_per_second",
                                            "bf16_products_per_second",
                                            "tile_int8_products_per_second",
                                            "tile_bf16_products_per_second",
                                            "all_f32_products_per_second",
                                            "all_int8_products_per_second",
                                            "all_bf16_products_per_second",
                                            "all_tile_int8_products_per_second",
                                            "all_tile_bf16_products_per_second",
                                            "l1_bytes_per_second",
                                            "l2_bytes_per_second",
                                            "l3_bytes_per_second",
                                            "l1_stream_bytes_per_second",
                                            "l2_stream_bytes_per_second",
                                            "l3_stream_bytes_per_second",
                                            "all_l3_bytes_per_second",
                                            "task_seconds",
                                            "step_seconds",
                                            "wake_seconds",
                                            "compute_units",
                                            "shared_memory_bytes",
                                            "registers_per_unit",
                                            "max_workgroup_size",
                                            "threads_per_unit",
                                            "launch_seconds",
                                            "flops_f32",
                                            "flops_matrix_f16"};

struct NamedTarget {
  absl::string_view name;
  Backend backend;
  absl::string_view arch;
  absl::string_view features;
};
// One row per target. The AMD targets are in amd_targets.cc.
constexpr NamedTarget kTargets[] = {
    {"x86-64-avx2", Backend::kCpu, "x86-64", kX86Avx2},
    {"x86-64-avxvnni", Backend::kCpu, "x86-64", kX86AvxVnni},
    {"x86-64-avx512", Backend::kCpu, "x86-64", kX86Avx512},
    {"x86-64-avx512vnni", Backend::kCpu, "x86-64", kX86Avx512Vnni},
    {"x86-64-avx512bf16", Backend::kCpu, "x86-64", kX86Avx512Bf16},
    {"x86-64-amx", Backend::kCpu, "x86-64", kX86Amx},
    {"aarch64-neon", Backend::kCpu, "aarch64", kArmHalf},
    {"aarch64-dotprod", Backend::kCpu, "aarch64", kArmDotprod},
    {"aarch64-bf16", Backend::kCpu, "aarch64", kArmBf16},
    {"aarch64-sve2", Backend::kCpu, "aarch64", kArmSve2},
    {"sm_75", Backend::kCuda, "sm_75", ""},
    {"sm_80", Backend::kCuda, "sm_80", ""},
    {"sm_86", Backend::kCuda, "sm_86", ""},
    {"sm_87", Backend::kCuda, "sm_87", ""},
    {"sm_89", Backend::kCuda, "sm_89", ""},
    {"sm_90", Backend::kCuda, "sm_90", ""},
    {"sm_90a", Backend::kCuda, "sm_90a", ""},
    {"sm_100a", Backend::kCuda, "sm_100a", ""},
    {"sm_103a", Backend::kCuda, "sm_103a", ""},
    {"sm_120", Backend::kCuda, "sm_120", ""},
    {"sm_121", Backend::kCuda, "sm_121", ""},
    {"spirv64", Backend::kSpirv, "spirv64", ""},
    {"pvc", Backend::kSpirv, "pvc", ""},
    {"bmg", Backend::kSpirv, "bmg", ""},
};

Backend backend_from_name(const std::string& name) {
  for (Backend b : kBackends)
    if (name == name_of(b)) return b;
  throw std::invalid_argument(absl::StrCat("unknown backend ", name));
}

// Cost models multiply and divide facts. Values outside these limits could make a prediction infinite or NaN.
// A cache size of 0 means that there is no such cache. Throws like all readers inside read_json.
void check_value(const std::string& name, double value) {
  constexpr double kLimit = 1e18;
  const bool may_be_zero = name == "l1d_bytes" || name == "l2_bytes" || name == "l3_bytes";
  if (std::isfinite(value) && value < kLimit && (value > 0 || (may_be_zero && value == 0))) return;
  throw std::out_of_range(absl::StrCat("fact \"", name, "\" is ", value, ", not a finite number ",
                                       may_be_zero ? "of at least 0" : "above 0", " and below ", kLimit));
}

// Applies the modes of a name such as "gfx942:sramecc+:xnack-" to the target's features. A mode that the
// target does not have is an error.
absl::Status apply_modes(const std::vector<std::string>& modes, absl::string_view name, Target* target) {
  for (const std::string& mode : modes) {
    const bool on = absl::EndsWith(mode, "+");
    const std::string feature(absl::StripSuffix(absl::StripSuffix(mode, "+"), "-"));
    std::vector<std::string> features = absl::StrSplit(target->features, ',', absl::SkipEmpty());
    const auto found = std::find_if(features.begin(), features.end(),
                                    [&](const std::string& f) { return f.substr(1) == feature; });
    if ((!on && !absl::EndsWith(mode, "-")) || target->backend != Backend::kRocm || found == features.end())
      return absl::InvalidArgumentError(
          absl::StrCat("target \"", name, "\": ", target->arch, " has no mode \"", mode, "\""));
    *found = absl::StrCat(on ? "+" : "-", feature);
    std::sort(features.begin(), features.end());
    target->features = absl::StrJoin(features, ",");
  }
  return absl::OkStatus();
}

}  // namespace

int sm_version(const Target& target) {
  constexpr absl::string_view kPrefix = "sm_";
  if (target.backend != Backend::kCuda || !absl::StartsWith(target.arch, kPrefix)) return 0;
  return std::atoi(target.arch.c_str() + kPrefix.size());
}

absl::string_view name_of(Backend b) {
  switch (b) {
    case Backend::kCpu: return "cpu";
    case Backend::kCuda: return "cuda";
    case Backend::kRocm: return "rocm";
    case Backend::kSpirv: return "spirv";
  }
  return "unknown";
}

bool Target::has(absl::string_view feature) const {
  for (absl::string_view f : absl::StrSplit(features, ','))
    if (f.size() == feature.size() + 1 && f[0] == '+' && f.substr(1) == feature) return true;
  return false;
}

absl::StatusOr<std::string> canonical_features(absl::string_view features) {
  std::vector<std::string> parts = absl::StrSplit(features, ',', absl::SkipEmpty());
  std::set<std::string> names;
  for (const std::string& part : parts) {
    if (part.size() < 2 || (part[0] != '+' && part[0] != '-'))
      return absl::InvalidArgumentError(absl::StrCat("target feature \"", part, "\" has no sign"));
    if (!names.insert(part.substr(1)).second)
      return absl::InvalidArgumentError(
          absl::StrCat("target feature \"", part.substr(1), "\" is given twice"));
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, ",");
}

Json to_json(const Target& t) {
  return json_object("backend", std::string(name_of(t.backend)), "arch", t.arch, "features", t.features);
}

absl::StatusOr<Target> target_from_json(const Json& j) {
  std::string features;
  LATHE_ASSIGN_OR_RETURN(Target t, read_json("target", [&] {
                           Target target;
                           target.backend = backend_from_name(text_field(j, "backend"));
                           target.arch = text_field(j, "arch");
                           if (target.arch.empty()) throw std::invalid_argument("\"arch\" is empty");
                           features = text_field(j, "features");
                           expect_fields(j, 3);
                           return target;
                         }));
  LATHE_ASSIGN_OR_RETURN(t.features, canonical_features(features));
  return t;
}

absl::StatusOr<Target> parse_target(absl::string_view name) {
  std::vector<std::string> parts = absl::StrSplit(name, ':');
  std::optional<Target> found;
  for (const NamedTarget& row : kTargets)
    if (row.name == parts[0]) found = {row.backend, std::string(row.arch), std::string(row.features)};
  if (const AmdGpu* gpu = find_amd_gpu(parts[0]))
    found = {Backend::kRocm, std::string(gpu->name), std::string(gpu->features)};
  if (found) {
    parts.erase(parts.begin());
    LATHE_RETURN_IF_ERROR(apply_modes(parts, name, &*found));
    return *found;
  }
  const auto add_name = [](std::string* out, const auto& row) { absl::StrAppend(out, row.name); };
  return absl::InvalidArgumentError(absl::StrCat("unknown target \"", name,
                                                 "\"; known: ", absl::StrJoin(kTargets, " ", add_name), " ",
                                                 absl::StrJoin(amd_gpus(), " ", add_name)));
}

int vector_lanes(const Target& t) { return t.has("avx512f") ? 16 : t.has("avx2") ? 8 : 4; }
int vector_registers(const Target& t) { return t.has("avx512f") || t.arch == "aarch64" ? 32 : 16; }
int wave_size(const Target& t) {
  return t.backend == Backend::kRocm && absl::StartsWith(t.arch, "gfx9") ? 64 : 32;
}

double DeviceFacts::fact_or(const std::string& key, double fallback) const {
  const auto found = facts.find(key);
  return found == facts.end() ? fallback : found->second.value;
}

absl::string_view origin_of(const Fact& fact) {
  if (absl::StartsWith(fact.source, kMeasuredPrefix)) return "measured";
  return absl::StartsWith(fact.source, kTablePrefix) ? "table" : "system";
}

Json fact_values_json(const std::map<std::string, Fact>& facts) {
  Json json = Json::object();
  for (const auto& [name, fact] : facts) json[name] = json_object("value", fact.value, "source", fact.source);
  return json;
}

Json to_json(const DeviceFacts& f) {
  Json json = json_object("name", f.name, "target", to_json(f.target), "facts", fact_values_json(f.facts));
  if (!f.machine.empty()) set_fields(&json, "machine", f.machine);
  if (!f.calibration.empty()) set_fields(&json, "calibration", f.calibration);
  return json;
}

std::map<std::string, Fact> read_fact_values(const Json& j) {
  if (!j.is_object()) throw std::invalid_argument("\"facts\" is not an object");
  std::map<std::string, Fact> facts;
  for (const auto& [name, fact] : j.items()) {
    if (std::find(std::begin(kFactNames), std::end(kFactNames), name) == std::end(kFactNames) &&
        !is_cpu_cost(name))
      throw std::invalid_argument(
          absl::StrCat("unknown fact \"", name, "\"; known: ", absl::StrJoin(kFactNames, " ")));
    // number_field would also refuse a value that is not finite, but without the name of the fact.
    const Json& number = fact.at("value");
    const Fact value{number.is_number() ? number.get<double>() : number_field(fact, "value"),
                     text_field(fact, "source")};
    expect_fields(fact, 2);
    check_value(name, value.value);
    if (value.source.empty()) throw std::invalid_argument(absl::StrCat("fact \"", name, "\" has no source"));
    facts[name] = value;
  }
  return facts;
}

absl::StatusOr<DeviceFacts> facts_from_json(const Json& j) {
  LATHE_ASSIGN_OR_RETURN(DeviceFacts f, read_json("device facts", [&] {
                           DeviceFacts facts;
                           facts.name = text_field(j, "name");
                           facts.facts = read_fact_values(j.at("facts"));
                           j.at("target");  // throws if it is absent; read below
                           size_t fields = 3;
                           for (const auto& [name, text] : {std::pair("machine", &facts.machine),
                                                            std::pair("calibration", &facts.calibration)}) {
                             if (!j.contains(name)) continue;
                             *text = text_field(j, name);
                             ++fields;
                           }
                           expect_fields(j, fields);
                           return facts;
                         }));
  const Json& target = j["target"];
  if (target.is_string()) {
    LATHE_ASSIGN_OR_RETURN(f.target, parse_target(target.get<std::string>()));
  } else {
    LATHE_ASSIGN_OR_RETURN(f.target, target_from_json(target));
  }
  return f;
}

absl::StatusOr<DeviceFacts> load_facts(const std::string& path) {
  constexpr size_t kMaxBytes = 1 << 20;
  const std::optional<std::string> text = read_small_file(path, kMaxBytes);
  if (!text)
    return absl::InvalidArgumentError(
        absl::StrCat("facts file ", path, " cannot be read, or is not a regular file under 1 MiB"));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(*text, absl::StrCat("facts file ", path)));
  absl::StatusOr<DeviceFacts> facts = facts_from_json(json);
  if (!facts.ok())
    return absl::InvalidArgumentError(absl::StrCat("facts file ", path, ": ", facts.status().message()));
  return facts;
}

}  // namespace lathe
