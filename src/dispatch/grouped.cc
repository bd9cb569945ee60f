#include "dispatch/grouped.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/generic.h"
#include "dispatch/dispatch.h"
#include "dispatch/empty_product.h"
#include "dispatch/externals.h"
#include "dispatch/number_rows.h"
#include "dispatch/routing.h"

namespace lathe {
namespace {

constexpr int64_t kRowsPerTask = 8;  // copied or summed by one task

constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Rows that are copied between their places and consecutive rows of a buffer.
struct RowCopies {
  char* buffer = nullptr;
  size_t row_bytes = 0;
  int32_t* slots = nullptr;  // of the rows of the buffer
  int64_t count = 0;
};

// What the host does before and after the products.
struct GroupedRun {
  const GroupedRequest& request;
  RowCopies gathered, scattered;
  // Sums: the row of the buffer that holds a slot's product; -1: the slot is not used.
  int32_t* row_of_slot = nullptr;

  int64_t place(const SlotPlaces& p, int64_t slot) const {
    return slot / request.inner * p.outer_bytes + slot % request.inner * p.inner_bytes;
  }
  const char* a_row(int64_t slot) const { return request.a_data + place(request.a, slot); }
  char* d_row(int64_t slot) const { return request.d_data + place(request.d, slot); }

  static void gather(void* context, int64_t index) {
    const auto& run = *static_cast<const GroupedRun*>(context);
    const RowCopies& rows = run.gathered;
    const int64_t end = std::min((index + 1) * kRowsPerTask, rows.count);
    for (int64_t i = index * kRowsPerTask; i < end; ++i)
      std::memcpy(rows.buffer + static_cast<size_t>(i) * rows.row_bytes, run.a_row(rows.slots[i]),
                  rows.row_bytes);
  }
  static void scatter(void* context, int64_t index) {
    const auto& run = *static_cast<const GroupedRun*>(context);
    const RowCopies& rows = run.scattered;
    const int64_t end = std::min((index + 1) * kRowsPerTask, rows.count);
    for (int64_t i = index * kRowsPerTask; i < end; ++i)
      std::memcpy(run.d_row(rows.slots[i]), rows.buffer + static_cast<size_t>(i) * rows.row_bytes,
                  rows.row_bytes);
  }
  static void sum(void* context, int64_t index) {
    const auto& run = *static_cast<const GroupedRun*>(context);
    const GroupedRequest& r = run.request;
    const int64_t end = std::min((index + 1) * kRowsPerTask, r.m);
    for (int64_t t = index * kRowsPerTask; t < end; ++t) {
      const WeightedRows rows = {reinterpret_cast<const float*>(run.scattered.buffer), r.member.dims.n,
                                 run.row_of_slot + t * r.used, r.weights + t * r.weights_stride, r.used};
      sum_rows(rows, r.sum, r.d_data + t * r.sum_row_bytes);
    }
  }
};

int64_t tasks_of(int64_t rows) { return (rows + kRowsPerTask - 1) / kRowsPerTask; }

// Whether the rows of a group can be read or written where they lie, as the rows of a matrix: they are `pitch` bytes
// apart. A matrix of one row has any pitch.
bool has_pitch(const GroupedRun& run, const Routing& routing, const RoutedGroup& g, const SlotPlaces& places,
               int64_t least, int64_t* pitch) {
  *pitch = least;
  if (g.count == 1) return true;
  const auto at = [&](int64_t i) { return run.place(places, routing.slot(g, i)); };
  *pitch = at(1) - at(0);
  if (*pitch < least) return false;
  for (int64_t i = 2; i < g.count; ++i)
    if (at(i) - at(i - 1) != *pitch) return false;
  return true;
}

// The memory of a call: members, then the slots of copied rows, then the rows. Sized for the case that every row is
// copied, because the system backs no page that is not touched.
struct Memory {
  Memory(const GroupedRequest& r, const Routing& routing, size_t a_row, size_t d_row) {
    int64_t rows = 0;
    for (int64_t i = 0; i < routing.count; ++i) rows += routing.groups[i].count;
    const auto n = static_cast<size_t>(rows);
    const size_t index = whole_lines(static_cast<size_t>(std::max(rows, r.slots)) * sizeof(int32_t));
    slots_at = whole_lines(static_cast<size_t>(routing.count) * sizeof(MemberLaunch));
    d_slots_at = slots_at + index;
    scales_at = d_slots_at + index;
    a_at = scales_at + whole_lines(n * sizeof(float));
    d_at = a_at + whole_lines(n * a_row);
    bytes = d_at + n * d_row;
  }
  size_t slots_at, d_slots_at, scales_at, a_at, d_at, bytes;
};

// Finds the kernel for groups of `rows` rows; on a miss the policy decides.
absl::StatusOr<const DispatchEntry*> find_entry(lathe_device& device, Request& member, int64_t rows) {
  const Bucket bucket = m_bucket(rows);
  member.dims.m = rows;
  member.key.problem.m_lo = bucket.lo;
  member.key.problem.m_hi = bucket.hi;
  return find_or_prepare(device, member, Purpose::kRun);
}

// The index of the scale of A that a slot uses.
int64_t scale_row(const GroupedRequest& r, int64_t slot) {
  const bool shared = r.grouping == LATHE_GROUPING_INDEXED && r.a.inner_bytes == 0;
  return shared ? slot / r.used : slot;
}

class GroupedLaunch {
 public:
  GroupedLaunch(lathe_device& device, GroupedRequest& request, const Routing& routing, const Memory& memory,
                char* base)
      : device_(device), r_(request), routing_(routing), run_{request, {}, {}, nullptr} {
    members_ = reinterpret_cast<MemberLaunch*>(base);
    const ProblemClass& c = r_.member.key.problem;
    run_.gathered = {base + memory.a_at, static_cast<size_t>(r_.member.dims.k) * size_of(c.a),
                     reinterpret_cast<int32_t*>(base + memory.slots_at), 0};
    run_.scattered = {base + memory.d_at, static_cast<size_t>(r_.member.dims.n) * size_of(c.d),
                      reinterpret_cast<int32_t*>(base + memory.d_slots_at), 0};
    scales_ = reinterpret_cast<float*>(base + memory.scales_at);
    if (!r_.is_summed()) return;
    run_.row_of_slot = run_.scattered.slots;
    std::fill_n(run_.row_of_slot, r_.slots, -1);
  }

  absl::Status run() {
    Request member = r_.member;
    const DispatchEntry* entry = nullptr;
    for (int64_t i = 0; i < routing_.count; ++i) {
      const RoutedGroup& group = routing_.groups[i];
      MemberLaunch& launch = *new (members_ + i) MemberLaunch;
      fill_arguments(group, &launch.args);
      if (r_.member.empty_product) continue;
      const Bucket bucket = {member.key.problem.m_lo, member.key.problem.m_hi};
      if (entry == nullptr || group.count < bucket.lo || group.count > bucket.hi) {
        LATHE_ASSIGN_OR_RETURN(entry, find_entry(device_, member, group.count));
      } else {
        member.dims.m = group.count;
        device_.context.counters.dispatch_hits.add();
      }
      launch.kernel = entry->kernel;
      launch.dims = member.dims;
      launch.config = launch_config_for(*entry, member);
      launch.args.splits = launch.config.splits;
      launch.args.k_chunk = launch.config.k_chunk;
      if (entry->key.problem.generic != 0) launch.args.form = form_of(member.key.problem);
    }
    return launch();
  }

 private:
  // Where the group's rows are read and written. Rows without a common pitch go through the buffers.
  void fill_arguments(const RoutedGroup& group, ArgumentBlock* args) {
    const ProblemClass& c = r_.member.key.problem;
    *args = r_.member.args;
    args->m = group.count;
    const auto a_bytes = static_cast<int64_t>(size_of(c.a)), d_bytes = static_cast<int64_t>(size_of(c.d));
    int64_t pitch = 0;
    if (r_.a_data != nullptr) {
      if (has_pitch(run_, routing_, group, r_.a, r_.member.dims.k * a_bytes, &pitch)) {
        args->a = const_cast<char*>(run_.a_row(routing_.slot(group, 0)));
        args->lda = pitch / a_bytes;
      } else {
        args->a = take_rows(group, &run_.gathered);
        args->lda = r_.member.dims.k;
      }
      args->b = const_cast<char*>(r_.b_data + group.group * r_.b_stride);
    }
    if (r_.is_summed()) {
      args->d = take_sum_rows(group);
      args->ldd = r_.member.dims.n;
    } else if (has_pitch(run_, routing_, group, r_.d, r_.member.dims.n * d_bytes, &pitch)) {
      args->d = run_.d_row(routing_.slot(group, 0));
      args->ldd = pitch / d_bytes;
    } else {
      args->d = take_rows(group, &run_.scattered);
      args->ldd = r_.member.dims.n;
    }
    if (r_.bias != nullptr) args->bias = const_cast<char*>(r_.bias + group.group * r_.bias_stride);
    if (c.scale_a == Scale::kPerChannel) args->scale_a = take_scales(group);
    const auto of_group = [&](void* data, int64_t stride) {
      return static_cast<char*>(data) + group.group * stride;
    };
    if (args->scale_b != nullptr) args->scale_b = of_group(args->scale_b, r_.scale_b_stride);
    if (args->zero_b != nullptr) args->zero_b = of_group(args->zero_b, r_.zero_b_stride);
  }

  char* take_rows(const RoutedGroup& group, RowCopies* rows) {
    char* const first = rows->buffer + static_cast<size_t>(rows->count) * rows->row_bytes;
    for (int64_t i = 0; i < group.count; ++i)
      rows->slots[rows->count++] = static_cast<int32_t>(routing_.slot(group, i));
    return first;
  }
  char* take_sum_rows(const RoutedGroup& group) {
    RowCopies& rows = run_.scattered;
    char* const first = rows.buffer + static_cast<size_t>(rows.count) * rows.row_bytes;
    for (int64_t i = 0; i < group.count; ++i)
      run_.row_of_slot[routing_.slot(group, i)] = static_cast<int32_t>(rows.count++);
    return first;
  }
  float* take_scales(const RoutedGroup& group) {
    float* const first = scales_;
    const auto* scales = static_cast<const float*>(r_.member.args.scale_a);
    for (int64_t i = 0; i < group.count; ++i) *scales_++ = scales[scale_row(r_, routing_.slot(group, i))];
    return first;
  }

  absl::Status launch() {
    JointLaunch joint{members_, routing_.count, {}, {}};
    if (run_.gathered.count > 0) joint.before = {GroupedRun::gather, &run_, tasks_of(run_.gathered.count)};
    if (r_.is_summed())
      joint.after = {GroupedRun::sum, &run_, tasks_of(r_.m)};
    else if (run_.scattered.count > 0)
      joint.after = {GroupedRun::scatter, &run_, tasks_of(run_.scattered.count)};
    if (!r_.member.empty_product) return device_.driver->launch_jointly(joint);
    for (int64_t i = 0; i < routing_.count; ++i) run_empty_product(r_.member.key.problem, members_[i].args);
    joint.count = 0;
    return device_.driver->launch_jointly(joint);
  }

  lathe_device& device_;
  GroupedRequest& r_;
  const Routing& routing_;
  GroupedRun run_;
  MemberLaunch* members_;
  float* scales_;
};

absl::Status run(lathe_device& device, GroupedRequest& request) {
  // The products of a group belong to no single call of a library.
  if (external_choice(device, request.member.key).use != ExternalUse::kOff)
    request.member.key.external = ExternalUse::kOff;
  return device.driver->with_host_memory(routing_bytes(request), [&](char* routing_memory) {
    Routing routing;
    LATHE_RETURN_IF_ERROR(route(request, routing_memory, &routing));
    const ProblemClass& c = request.member.key.problem;
    const Memory memory(request, routing, static_cast<size_t>(request.member.dims.k) * size_of(c.a),
                        static_cast<size_t>(request.member.dims.n) * size_of(c.d));
    return device.driver->with_host_memory(memory.bytes, [&](char* base) {
      return GroupedLaunch(device, request, routing, memory, base).run();
    });
  });
}

}  // namespace

absl::Status run_grouped_matmul(lathe_device& device, void* stream, const lathe_grouped_matmul_desc* desc) {
  GroupedRequest request;
  LATHE_RETURN_IF_ERROR(read_grouped_matmul(desc, Purpose::kRun, device.request_context(), stream, &request));
  LATHE_RETURN_IF_ERROR(check_runnable(device));
  if (request.nothing_to_do) return absl::OkStatus();
  const absl::Status status = run(device, request);
  if (__builtin_expect(status.ok(), 1)) return status;
  return in_request(describe(request), device.name, status);
}

}  // namespace lathe
