// Measures what the cost models need to know of this processor: rates of instructions, read rates of caches and
// memory, and what a step of the worker pool costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/facts.h"

namespace lathe {

inline constexpr double kMostMeasureSeconds = 10;

struct MeasureOptions {
  int32_t workers = 1, processors = 1;  // as for WorkerPool
  double seconds = 6;                   // for everything, at most kMostMeasureSeconds
  size_t pool_bytes = 0;                // memory to read from; 0: see pool_bytes_for
};

struct Measurement {
  std::map<std::string, Fact> facts;          // by the names of DeviceFacts::facts
  std::map<std::string, std::string> absent;  // facts that could not be measured, with the reason
  // Rates whose windows differ by more than a quarter (the middle half of them): other work disturbed the measurement.
  int32_t unsteady = 0;
};

// Measures on the calling thread and on a worker pool that ends with the call. `facts` gives the target, which the
// processor must have with its registers acquired, and the sizes of the caches. Other work on the machine makes the
// results smaller. So measurements take turns. A rate is the 90th percentile of its windows, a cost the 25th.
Measurement measure_cpu(const DeviceFacts& facts, const MeasureOptions& options);

// Four times the last-level cache for each worker, because workers may have caches of their own. So no line is still in
// a cache when its turn comes again. At least 64 MB, at most 1.5 GB, and at most a quarter of the available memory.
size_t pool_bytes_for(const DeviceFacts& facts, int32_t workers, size_t available_bytes);

}  // namespace lathe
