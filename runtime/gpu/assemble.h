// PTX to a cubin by the driver's own linker.
#pragma once

#include "base/log.h"
#include "core/artifact.h"
#include "runtime/gpu/contexts.h"

namespace lathe::gpu {

// The artifact with a cubin for this device, "assembler" in its metadata, and there as in the log what the
// linker has against the code. As it was, with a warning logged, when the driver cannot: loading hands it the
// PTX then. So it does, and "assembler" says so, with PTX that is worse off linked (core/assembler_log.h).
Artifact link_ptx(Artifact artifact, const Library& library, const Contexts& contexts, const Logger& logger);

}  // namespace lathe::gpu
