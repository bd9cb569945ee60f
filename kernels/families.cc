#include "kernels/candidates.h"

namespace lathe {

absl::Span<const KernelFamily> families_of(Op op) {
  switch (op) {
#define LATHE_FAMILIES(op, value, name, rows, traits) \
  case Op::op: return name##_families();
    LATHE_OPS(LATHE_FAMILIES)
#undef LATHE_FAMILIES
  }
  return {};
}

}  // namespace lathe
