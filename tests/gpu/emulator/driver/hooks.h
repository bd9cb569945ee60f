// What a test can ask of the driver library in addition to the CUDA API. Look these up with dlsym. Thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Makes one call of `function` (for example "cuMemAlloc_v2") return `result` without doing anything, after `after`
// normal calls. emu_fail_always does so for every call, until it is called with result 0.
void emu_fail_next(const char* function, int result, int after);
void emu_fail_always(const char* function, int result);
// The number of calls of the function since the library was loaded or emu_reset was called.
uint64_t emu_call_count(const char* function);

// One launch, as requested from the driver. Replays of a graph are included.
struct EmuLaunch {
  char kernel[256];
  uint32_t grid[3], block[3], cluster[3], dynamic_shared;
  int device, programmatic;  // programmatic stream serialization was requested
  void* stream;
  const uint8_t* parameters;  // valid until emu_record or emu_reset is called
  size_t parameter_bytes;
  uint64_t instructions;  // executed by all its threads
  int result;             // 0, or the sticky error that it caused
};
// Starts (1) or stops (0) the log of launches; either way the log is cleared.
void emu_record(int on);
size_t emu_launch_count(void);
int emu_get_launch(size_t index, struct EmuLaunch* launch);  // 0 if there is none

// Sets the seed and the policy ("late", "early", "random") of all later launches. A null policy keeps the current one.
// Returns 0 for an unknown policy.
int emu_schedule(uint64_t seed, const char* async);
// The message of the last launch that failed, or "". Valid until the next launch.
const char* emu_last_fault(void);
// Bytes of device memory that are allocated now, over all devices.
uint64_t emu_allocated_bytes(void);
// Clears the injected failures, the call counts and the log. Contexts, memory and modules stay.
void emu_reset(void);

#ifdef __cplusplus
}
#endif
