// Lathe's CPU device, opened at the first call that can use it.
#pragma once

#include <lathe/lathe.h>

#include "settings.h"

namespace lathe_blas {

// The functions of liblathe, which is opened at run time: without it, every call goes to the next BLAS.
struct Api {
  decltype(&lathe_context_create) context_create;
  decltype(&lathe_context_set_miss) context_set_miss;
  decltype(&lathe_device_open) device_open;
  decltype(&lathe_matmul) matmul;
  decltype(&lathe_manifest_create) manifest_create;
  decltype(&lathe_manifest_parse) manifest_parse;
  decltype(&lathe_manifest_destroy) manifest_destroy;
  decltype(&lathe_warmup) warmup;
  decltype(&lathe_last_error) last_error;
};

struct Engine {
  const Api* api;
  lathe_device* device;
  OnMiss on_miss;
};

// What to do if another thread is just opening the device, which takes milliseconds.
enum class IfOpening { kReturn, kWait };

// The engine of this process. Null: Lathe cannot run here, and one line on stderr has said why; or another thread is
// opening the device. A child of a fork opens a device of its own, because it has no worker threads. The device is
// never closed: programs call BLAS until their last destructor.
const Engine* engine(IfOpening if_opening);

}  // namespace lathe_blas
