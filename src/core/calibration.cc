#include "core/calibration.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/json_object.h"

namespace lathe {
namespace {

constexpr int64_t kFileVersion = 1;
constexpr size_t kMostFileBytes = 16 << 20, kMostMachines = 1024;
constexpr int64_t kMostCacheBytes = int64_t{1} << 50;

// Calls f(name, value) for every field of the identity but the target.
template <typename Identity, typename F>
void for_each_field(Identity& machine, F f) {
  f("vendor", machine.vendor);
  f("family", machine.family);
  f("model", machine.model);
  f("stepping", machine.stepping);
  f("name", machine.name);
  f("cores", machine.cores);
  f("processors", machine.processors);
  f("l1d_bytes", machine.l1d_bytes);
  f("l2_bytes", machine.l2_bytes);
  f("l3_bytes", machine.l3_bytes);
  f("hypervisor", machine.hypervisor);
}
constexpr size_t kIdentityFields = 12;

void read_field(const Json& j, const char* name, std::string* out) { *out = text_field(j, name); }
void read_field(const Json& j, const char* name, int32_t* out) {
  *out = static_cast<int32_t>(int_field(j, name, 0, INT32_MAX));
}
void read_field(const Json& j, const char* name, int64_t* out) {
  *out = int_field(j, name, 0, kMostCacheBytes);
}

MachineIdentity read_identity(const Json& j) {
  MachineIdentity machine;
  for_each_field(machine, [&](const char* name, auto& value) { read_field(j, name, &value); });
  absl::StatusOr<Target> target = target_from_json(j.at("target"));
  if (!target.ok()) throw std::invalid_argument(std::string(target.status().message()));
  machine.target = *std::move(target);
  expect_fields(j, kIdentityFields);
  return machine;
}

bool is_of_all_workers(absl::string_view fact) {
  return absl::StartsWith(fact, "all_") || fact == "memory_bytes_per_second" || fact == "task_seconds" ||
         fact == "step_seconds" || fact == "wake_seconds";
}

// Why the file has no entry for the machine. With several entries: the difference to the first one of the same
// processor and target, if there is one.
std::string absence(const CalibrationFile& file, const MachineIdentity& machine) {
  if (file.machines.empty()) return "it has no usable entry";
  if (file.machines.size() == 1)
    return absl::StrCat("it is for another machine: ", file.machines[0].machine.difference(machine));
  const auto same_processor = [&](const Calibration& c) {
    return c.machine.name == machine.name && c.machine.target == machine.target;
  };
  const auto near = std::find_if(file.machines.begin(), file.machines.end(), same_processor);
  const std::string count = absl::StrCat("none of its ", file.machines.size(), " machines is this one");
  if (near == file.machines.end()) return absl::StrCat(count, " (", machine.name, ")");
  return absl::StrCat(count, "; the nearest differs: ", near->machine.difference(machine));
}

}  // namespace

bool MachineIdentity::operator==(const MachineIdentity& o) const {
  return std::tie(vendor, family, model, stepping, name, cores, processors, l1d_bytes, l2_bytes, l3_bytes,
                  hypervisor, target.backend, target.arch, target.features) ==
         std::tie(o.vendor, o.family, o.model, o.stepping, o.name, o.cores, o.processors, o.l1d_bytes,
                  o.l2_bytes, o.l3_bytes, o.hypervisor, o.target.backend, o.target.arch, o.target.features);
}

std::string MachineIdentity::difference(const MachineIdentity& o) const {
  std::vector<std::pair<const char*, std::string>> mine;
  for_each_field(*this,
                 [&](const char* name, const auto& value) { mine.emplace_back(name, absl::StrCat(value)); });
  std::string first;
  size_t i = 0;
  for_each_field(o, [&](const char* name, const auto& value) {
    const std::string theirs = absl::StrCat(value);
    if (first.empty() && mine[i].second != theirs)
      first = absl::StrCat(name, " is ", mine[i].second, ", not ", theirs);
    ++i;
  });
  if (first.empty() && !(target == o.target))
    first = absl::StrCat("target is ", target.arch, " ", target.features, ", not ", o.target.arch, " ",
                         o.target.features);
  return first;
}

Json to_json(const Calibration& calibration) {
  Json machine = json_object("target", to_json(calibration.machine.target));
  for_each_field(calibration.machine,
                 [&](const char* name, const auto& value) { set_fields(&machine, name, value); });
  return json_object("machine", std::move(machine), "workers", calibration.workers, "facts",
                     fact_values_json(calibration.facts));
}

absl::StatusOr<Calibration> calibration_from_json(const Json& j) {
  return read_json("calibration", [&] {
    Calibration calibration;
    calibration.machine = read_identity(j.at("machine"));
    calibration.workers = static_cast<int32_t>(int_field(j, "workers", 1, INT32_MAX));
    calibration.facts = read_fact_values(j.at("facts"));
    expect_fields(j, 3);
    for (const auto& [name, fact] : calibration.facts)
      if (origin_of(fact) != "measured")
        throw std::invalid_argument(absl::StrCat("the source of fact \"", name, "\" is \"", fact.source,
                                                 "\"; it must start with \"", kMeasuredPrefix, "\""));
    return calibration;
  });
}

std::string calibration_text(const std::vector<Calibration>& machines) {
  std::string text = absl::StrCat("{\"lathe_calibration\": ", kFileVersion, ", \"machines\": [");
  const char* separator = "\n";
  for (const Calibration& machine : machines) {
    absl::StrAppend(&text, separator, canonical_text(to_json(machine)));
    separator = ",\n";
  }
  absl::StrAppend(&text, "\n]}\n");
  return text;
}

absl::StatusOr<CalibrationFile> parse_calibrations(absl::string_view text) {
  if (text.size() > kMostFileBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("calibration file: ", text.size(), " bytes, more than the limit of ", kMostFileBytes));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(text, "calibration file"));
  return read_json("calibration file", [&] {
    const int64_t version = int_field(json, "lathe_calibration", 0, INT32_MAX);
    if (version != kFileVersion)
      throw std::invalid_argument(absl::StrCat("\"lathe_calibration\": version ", version,
                                               ", but this library reads version ", kFileVersion,
                                               ": run lathe calibrate again"));
    expect_fields(json, 2);
    const Json& machines = json.at("machines");
    if (!machines.is_array() || machines.size() > kMostMachines)
      throw std::invalid_argument(
          absl::StrCat("\"machines\" is not an array of at most ", kMostMachines, " machines"));
    CalibrationFile file;
    for (size_t i = 0; i < machines.size(); ++i) {
      absl::StatusOr<Calibration> machine = calibration_from_json(machines[i]);
      if (machine.ok())
        put_calibration(*std::move(machine), &file.machines);
      else
        file.refused.push_back(absl::StrCat("machines[", i, "]: ", machine.status().message()));
    }
    return file;
  });
}

void put_calibration(Calibration calibration, std::vector<Calibration>* machines) {
  const auto same = std::find_if(machines->begin(), machines->end(),
                                 [&](const Calibration& c) { return c.machine == calibration.machine; });
  if (same == machines->end())
    machines->push_back(std::move(calibration));
  else
    *same = std::move(calibration);
}

void apply_calibration(const CalibrationFile& file, const MachineIdentity& machine, int32_t workers,
                       DeviceFacts* facts) {
  if (file.path.empty()) return;
  const auto found = std::find_if(file.machines.begin(), file.machines.end(),
                                  [&](const Calibration& c) { return c.machine == machine; });
  if (found == file.machines.end()) {
    facts->calibration = absl::StrCat("not used: ", file.path, ": ", absence(file, machine));
    return;
  }
  const bool same_workers = found->workers == workers;
  for (const auto& [name, fact] : found->facts)
    if (same_workers || !is_of_all_workers(name)) facts->facts[name] = fact;
  facts->calibration = absl::StrCat("measured with ", found->workers,
                                    found->workers == 1 ? " worker: " : " workers: ", file.path);
  if (!same_workers)
    absl::StrAppend(&facts->calibration, "; this device has ", workers,
                    ", so the facts of all workers together are not used");
}

}  // namespace lathe
