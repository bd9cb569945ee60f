// Which fields of CompileConfig each kernel uses, and what they mean for it. The table (kernel_fields.cc) has a row for
// each family of kernels. `lathe explain` shows it, and the compiler refuses a config that sets any other field.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "core/plan.h"

namespace lathe {

struct FieldUse {
  const char* name;     // of a field in LATHE_CONFIG_FIELDS
  const char* meaning;  // for this kernel: "columns of D of a task"
};

// In the order of the table; empty if the kernel does not serve the op on the backend, or needs no code.
absl::Span<const FieldUse> fields_of(KernelKind kernel, Op op, Backend backend);

// Why the config cannot be one for this op and backend, "" if it can. It names a field that the kernel does not use and
// whose value is not the initial one: "kernel 'panel' does not use narrow_passes, which is 1 instead of 0".
std::string unused_field(const CompileConfig& config, Op op, Backend backend);

// What the config's numbers mean: [{"name": "tile_m", "value": 16, "meaning": "rows of D of a task"}, ...].
Json describe_fields(const CompileConfig& config, Op op, Backend backend);

}  // namespace lathe
