// Lathe's GPUs as devices of ggml. Such a device computes MUL_MAT and ARGMAX; ggml's scheduler gives every other
// operation to another device, and copies between them.
#pragma once

#include <vector>

#include "ggml-backend.h"

namespace lathe_ggml {

// A device for each name in $LATHE_GGML_GPUS ("cuda:0,hip:1"); without it none. One that cannot be opened is left out,
// and the reason is logged. They stay until the process ends.
const std::vector<ggml_backend_dev_t>& gpu_devices(ggml_backend_reg_t reg);

}  // namespace lathe_ggml
