// Loops that read memory and do nothing else, with the widest loads of a target.
#pragma once

#include <cstddef>

#include "core/facts.h"

namespace lathe {

inline constexpr size_t kStreams = 4;  // as a register tile that reads four columns of a weight side by side
// The bytes of a read are a multiple of this.
inline constexpr size_t kReadGrain = kStreams * 256;

// Reads `bytes` from `data`, which is aligned to 64 bytes.
using ReadFn = void (*)(const char* data, size_t bytes);
struct ReadLoops {
  ReadFn one_stream;  // from the first byte to the last
  ReadFn streams;     // kStreams equal parts side by side
  ReadFn
      streams_prefetch;  // the same with a software prefetch 2 KiB ahead, as kernels prefetch (CpuFetch::kNear)
};
ReadLoops read_loops(const Target& target);

}  // namespace lathe
