// Links PTX to a cubin with the driver's own linker.
#pragma once

#include "base/log.h"
#include "core/artifact.h"
#include "runtime/gpu/contexts.h"

namespace lathe::gpu {

// Returns the artifact with a cubin for this device, and adds "assembler" and the linker's messages to its
// metadata (the messages are logged, too). If linking fails, logs a warning and returns the artifact
// unchanged; loading then passes PTX to the driver. PTX that is worse when linked (core/assembler_log.h) also
// stays PTX, and "assembler" says so.
Artifact link_ptx(Artifact artifact, const Library& library, const Contexts& contexts, const Logger& logger);

}  // namespace lathe::gpu
