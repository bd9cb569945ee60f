// Calibrations: facts that were measured on a machine, with the identity of that machine. A file holds those of
// several machines, so that a fleet can share it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/facts.h"
#include "core/json.h"

namespace lathe {

// Machines with equal identities share a calibration.
struct MachineIdentity {
  std::string vendor;                           // "GenuineIntel"
  int32_t family = 0, model = 0, stepping = 0;  // AArch64: 0, the part number, and the variant and revision
  std::string name;                             // the brand string
  Target target;
  // Physical cores and logical processors that the process may use, and the sizes of the caches of one core.
  int32_t cores = 0, processors = 0;
  int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  std::string hypervisor;  // "KVMKVMKVM"; "none" without one

  bool operator==(const MachineIdentity& o) const;
  // The first difference: "hypervisor is KVMKVMKVM, not none", with the value of `o` last. "" if both are equal.
  std::string difference(const MachineIdentity& o) const;
};

struct Calibration {
  MachineIdentity machine;
  int32_t workers = 1;                // that the facts of all workers together were measured with
  std::map<std::string, Fact> facts;  // only measured ones (kMeasuredPrefix)
};
Json to_json(const Calibration& calibration);
// kInvalidArgument: a field is missing, unknown or wrong, or a fact is not a measured one.
absl::StatusOr<Calibration> calibration_from_json(const Json& j);

// {"lathe_calibration": 1, "machines": [...]}, with one machine per line.
struct CalibrationFile {
  std::string path;                   // for messages; "": there is no file
  std::vector<Calibration> machines;  // of several entries with one identity, the last is kept
  std::vector<std::string> refused;   // one message for each damaged entry
};
std::string calibration_text(const std::vector<Calibration>& machines);
// kInvalidArgument: the text is not a calibration file, or its version is another. A damaged entry inside a file is
// not an error (`refused`). Accepts any text.
absl::StatusOr<CalibrationFile> parse_calibrations(absl::string_view text);

// Adds the calibration, or replaces that of the same machine.
void put_calibration(Calibration calibration, std::vector<Calibration>* machines);

// Replaces facts by those that the file has for the machine, and says in `calibration` what was used, or why nothing
// was. Facts of all workers together are used only if `workers` is the number they were measured with.
void apply_calibration(const CalibrationFile& file, const MachineIdentity& machine, int32_t workers,
                       DeviceFacts* facts);

}  // namespace lathe
