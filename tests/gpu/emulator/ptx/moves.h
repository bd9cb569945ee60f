// The plain register-to-register move. wgmma.cc compares handlers with it: a value in flight may only be moved.
#pragma once

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {
Step run_move(Thread& t, const Instruction& i);
}  // namespace lathe::ptx
