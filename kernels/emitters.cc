#include "compiler/registry.h"

namespace lathe {

const OpEmitters* emitters_of(Op op) {
  switch (op) {
#define LATHE_EMITTERS(op, value, name, rows, traits) \
  case Op::op: return &name##_emitters();
    LATHE_OPS(LATHE_EMITTERS)
#undef LATHE_EMITTERS
  }
  return nullptr;
}

}  // namespace lathe
