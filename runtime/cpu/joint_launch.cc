#include "runtime/cpu/joint_launch.h"

#include <algorithm>
#include <cstdint>

#include "runtime/cpu/slab_pool.h"

namespace lathe {
namespace {

static_assert(MemberLaunch::kMaxSteps >= CpuKernel::kMaxSteps, "first_task has an element per step");

int64_t saturating_sum(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

size_t whole_lines(size_t bytes) { return (bytes + SlabPool::kAlignment - 1) & ~(SlabPool::kAlignment - 1); }

}  // namespace

JointTasks count_joint_tasks(const JointLaunch& launch) {
  JointTasks tasks{launch.members, launch.count};
  for (int64_t i = 0; i < launch.count; ++i) {
    MemberLaunch& member = launch.members[i];
    const auto& kernel = static_cast<const CpuKernel&>(*member.kernel);
    const VarValues sizes = var_values(member.dims, member.config);
    const size_t steps = kernel.steps().size();
    tasks.steps = std::max(tasks.steps, steps);
    for (size_t s = 0; s < CpuKernel::kMaxSteps; ++s) {
      member.first_task[s] = tasks.counts[s];
      if (s < steps) tasks.counts[s] = saturating_sum(tasks.counts[s], kernel.count(s, sizes));
    }
    tasks.shared_bytes += whole_lines(member.config.workspace_bytes);
    tasks.scratch_stride =
        std::max(tasks.scratch_stride, whole_lines(member.config.scratch_bytes_per_worker));
    if (member.before != nullptr)
      tasks.scratch_stride =
          std::max(tasks.scratch_stride, whole_lines(member.before->config.scratch_bytes_per_worker));
  }
  tasks.most = std::max(launch.before.count, launch.after.count);
  for (const int64_t count : tasks.counts) tasks.most = std::max(tasks.most, count);
  return tasks;
}

void share_workspace(const JointLaunch& launch, char* memory) {
  for (int64_t i = 0; i < launch.count; ++i) {
    MemberLaunch& member = launch.members[i];
    const size_t bytes = whole_lines(member.config.workspace_bytes);
    member.args.workspace = bytes != 0 ? memory : nullptr;
    member.args.counters = nullptr;
    memory += bytes;
  }
}

bool has_tasks_of(const MemberLaunch& member, const MemberLaunch& before) {
  const auto& kernel = static_cast<const CpuKernel&>(*member.kernel);
  const auto& earlier = static_cast<const CpuKernel&>(*before.kernel);
  return kernel.steps().size() == 1 && earlier.steps().size() == 1 && member.config.workspace_bytes == 0 &&
         before.config.workspace_bytes == 0 &&
         kernel.count(0, var_values(member.dims, member.config)) ==
             earlier.count(0, var_values(before.dims, before.config));
}

namespace {

void run_task(const MemberLaunch& member, size_t step, void* scratch, int64_t index) {
  ArgumentBlock args = member.args;
  args.scratch = scratch;
  static_cast<const CpuKernel*>(member.kernel)->steps()[step].task(&args, index);
}

}  // namespace

void JointStep::run(const ArgumentBlock* args, int64_t index) {
  const auto& [tasks, step] = *static_cast<const JointStep*>(args->workspace);
  const MemberLaunch* const end = tasks->members + tasks->members_count;
  const MemberLaunch* const after = std::upper_bound(
      tasks->members, end, index,
      [s = step](int64_t task, const MemberLaunch& member) { return task < member.first_task[s]; });
  const MemberLaunch& member = after[-1];
  const int64_t own = index - member.first_task[step];
  if (member.before != nullptr) run_task(*member.before, step, args->scratch, own);
  run_task(member, step, args->scratch, own);
}

void HostTasks::run(const ArgumentBlock* args, int64_t index) {
  const HostStep& step = *static_cast<const HostTasks*>(args->workspace)->step;
  step.body(step.context, index);
}

}  // namespace lathe
