#include "runtime/cpu/caller_avoidance.h"

namespace lathe {

void CallerAvoidance::leave(int processor) {
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getcpu() != processor) return;
  cpu_set_t now;
  if (sched_getaffinity(0, sizeof now, &now) != 0)
    return;  // the system has more processors than a cpu_set_t holds
  if (!CPU_EQUAL(&now, &without_)) allowed_ = now;
  cpu_set_t others = allowed_;
  CPU_CLR(processor, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0) without_ = others;
}

}  // namespace lathe
