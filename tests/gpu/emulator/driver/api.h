// Entry points that other entry points call.
#pragma once

#include "tests/gpu/emulator/driver/types.h"

extern "C" int cuDeviceGetAttribute(int* value, int attribute, int device);
