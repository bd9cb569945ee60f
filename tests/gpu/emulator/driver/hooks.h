// What a test asks of the driver library beside the CUDA API: it finds these by dlsym. Thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// After `after` more calls of `function` ("cuMemAlloc_v2") that go their way, the next one answers `result`
// instead of doing its work; once. emu_fail_always: every call, until result is 0.
void emu_fail_next(const char* function, int result, int after);
void emu_fail_always(const char* function, int result);
// How often the function was called since the library was loaded or emu_reset was called.
uint64_t emu_call_count(const char* function);

// One launch, as the driver was asked for it (also when replayed from a graph).
struct EmuLaunch {
  char kernel[256];
  uint32_t grid[3], block[3], cluster[3], dynamic_shared;
  int device, programmatic;  // programmatic stream serialization was asked for
  void* stream;
  const uint8_t* parameters;  // valid until emu_record or emu_reset is called
  size_t parameter_bytes;
  uint64_t instructions;  // that its threads executed
  int result;             // 0, or the sticky error that it caused
};
// Starts (1) or stops (0) the log of launches, empty.
void emu_record(int on);
size_t emu_launch_count(void);
int emu_get_launch(size_t index, struct EmuLaunch* launch);  // 0 if there is none

// Seed and policy ("late", "early", "random") of the launches from now on; a null policy keeps it. 0 for an
// unknown one.
int emu_schedule(uint64_t seed, const char* async);
// The message of the last launch that failed, or "". Valid until the next launch.
const char* emu_last_fault(void);
// Bytes of device memory allocated now, over all devices.
uint64_t emu_allocated_bytes(void);
// Forgets injected failures, counts and log. Contexts, memory and modules stay.
void emu_reset(void);

#ifdef __cplusplus
}
#endif
