// Several launches as one: each step of all members becomes one set of tasks, so that workers take tasks of every
// member from one queue.
#pragma once

#include <cstdint>

#include "core/args.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/driver.h"

namespace lathe {

// The tasks of each step. Task i of a step is task i - first_task[step] of the last member whose first_task[step] is at
// most i.
struct JointTasks {
  const MemberLaunch* members;
  int64_t members_count;
  size_t steps = 0;
  int64_t counts[CpuKernel::kMaxSteps] = {};
  size_t shared_bytes = 0;    // the members' workspaces, one after the other
  size_t scratch_stride = 0;  // of one worker
  int64_t most = 0;           // tasks of the largest step, `before` and `after` included
};

// Counts the tasks of each member and fills its first_task.
JointTasks count_joint_tasks(const JointLaunch& launch);
// Whether the two launches are as MemberLaunch::before demands.
bool has_tasks_of(const MemberLaunch& member, const MemberLaunch& before);
// Gives each member its part of `memory`, which has shared_bytes.
void share_workspace(const JointLaunch& launch, char* memory);

// A set of tasks in the form that the worker pool runs: `args.workspace` points to the object.
struct JointStep {
  const JointTasks* tasks;
  size_t step;
  static void run(const ArgumentBlock* args, int64_t index);
};
struct HostTasks {
  const HostStep* step;
  static void run(const ArgumentBlock* args, int64_t index);
};

}  // namespace lathe
