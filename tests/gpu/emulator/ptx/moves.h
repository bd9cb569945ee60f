// A plain move between registers, which the tracking of products in flight must know from anything else.
#pragma once

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {
Step run_move(Thread& t, const Instruction& i);
}  // namespace lathe::ptx
