#include "core/kernels.h"

namespace lathe {

bool parse(absl::string_view name, KernelKind* out) {
  for (const KernelRow& row : kKernels)
    if (name == row.name) {
      *out = row.kind;
      return true;
    }
  return false;
}

}  // namespace lathe
