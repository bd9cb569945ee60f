// The step before a grouped product: it makes the product's tiles from the routing.
#pragma once

#include "compiler/gpu_kernel.h"

namespace lathe::emit {

struct ScheduleForm {
  Rows rows;
  bool tile_per_slot;  // GroupedWorkspace::has_tile_per_slot
};
// One workgroup counts the rows of each group, gives every group its tiles (in ascending order of the groups), and,
// for ROW_IDS and INDEXED, lists the slots of each group. The order within a group's list differs from run to run;
// the result of a row does not depend on its place. Whatever the routing holds, all tiles have rows, which lie within
// A and D. Only OFFSETS that overlap give a row to several tiles.
void emit_schedule(Emit& e, GpuKernel& kernel, const Arguments& arguments, const ScheduleForm& form);

}  // namespace lathe::emit
