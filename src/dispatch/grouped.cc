#include "dispatch/grouped.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/generic.h"
#include "dispatch/dispatch.h"
#include "dispatch/divide_groups.h"
#include "dispatch/empty_product.h"
#include "dispatch/externals.h"
#include "dispatch/group_kernels.h"
#include "dispatch/grouped_gpu.h"
#include "dispatch/number_rows.h"
#include "dispatch/prepare_scaled.h"
#include "dispatch/routing.h"

namespace lathe {
namespace {

constexpr int64_t kRowsPerTask = 8;  // copied or summed by one task

constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// Where a slot's row lies, from the first one.
int64_t place_of(const GroupedRequest& r, const SlotPlaces& p, int64_t slot) {
  return slot / r.inner * p.outer_bytes + slot % r.inner * p.inner_bytes;
}

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
  // Block scales of B that are rearranged: those of the first routed group; the others follow `plain_bytes` apart.
  const Routing* routing = nullptr;
  PlainScales plain = {};
  size_t plain_bytes = 0;
  int64_t plain_tasks = 0;

  const char* a_row(int64_t slot) const { return request.a_data + place_of(request, request.a, slot); }
  char* d_row(int64_t slot) const { return request.d_data + place_of(request, request.d, slot); }

  PlainScales plain_of(int64_t routed) const {
    PlainScales p = plain;
    p.matrix = routing->groups[routed].group;
    p.to += static_cast<size_t>(routed) * plain_bytes;
    return p;
  }
  void decode(int64_t slot, char* to) const {
    const bool counts = request.grouping == LATHE_GROUPING_COUNTS;
    const int64_t outer = slot / request.inner, inner = slot % request.inner;
    const StoredScales& scales = request.product.request.scaled->a.scales;
    const int64_t matrix = counts ? outer : inner, line = counts ? inner : outer;
    decode_line(scales, scales.stride == 0 ? 0 : matrix, line, a_row(slot), request.product.request.dims.k,
                reinterpret_cast<float*>(to));
  }

  static void gather(void* context, int64_t index) {
    const auto& run = *static_cast<const GroupedRun*>(context);
    if (index < run.plain_tasks) {
      const int64_t each = run.plain.tasks();
      return run.plain_of(index / each).run(index % each);
    }
    index -= run.plain_tasks;
    const RowCopies& rows = run.gathered;
    const int64_t end = std::min((index + 1) * kRowsPerTask, rows.count);
    for (int64_t i = index * kRowsPerTask; i < end; ++i) {
      char* const to = rows.buffer + static_cast<size_t>(i) * rows.row_bytes;
      if (run.request.decodes_a())
        run.decode(rows.slots[i], to);
      else
        std::memcpy(to, run.a_row(rows.slots[i]), rows.row_bytes);
    }
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
      const WeightedRows rows = {reinterpret_cast<const float*>(run.scattered.buffer),
                                 r.product.request.dims.n, run.row_of_slot + t * r.used,
                                 r.weights + t * r.weights_stride, r.used};
      sum_rows(rows, r.sum, r.d_data + t * r.sum_row_bytes);
    }
  }
};

int64_t tasks_of(int64_t rows) { return (rows + kRowsPerTask - 1) / kRowsPerTask; }

// Whether the rows of a group can be read or written where they lie, as the rows of a matrix: they are `pitch` bytes
// apart. A matrix of one row has any pitch.
bool has_pitch(const GroupedRequest& r, const Routing& routing, const RoutedGroup& g,
               const SlotPlaces& places, int64_t least, int64_t* pitch) {
  *pitch = least;
  if (g.count == 1) return true;
  const auto at = [&](int64_t i) { return place_of(r, places, routing.slot(g, i)); };
  *pitch = at(1) - at(0);
  if (*pitch < least) return false;
  for (int64_t i = 2; i < g.count; ++i)
    if (at(i) - at(i - 1) != *pitch) return false;
  return true;
}

// Whether the rows that a group reads of A, and those that its product writes to D, each have a pitch. Decoded rows of A
// and rows that are summed lie in the call's memory.
bool has_pitch_of_a(const GroupedRequest& r, const Routing& routing, const RoutedGroup& g, int64_t* pitch) {
  const ProblemClass& c = r.product.request.key.problem;
  return has_pitch(r, routing, g, r.a, c.k * static_cast<int64_t>(size_of(c.a)), pitch);
}
bool has_pitch_of_d(const GroupedRequest& r, const Routing& routing, const RoutedGroup& g, int64_t* pitch) {
  const ProblemClass& c = r.product.request.key.problem;
  return has_pitch(r, routing, g, r.d, c.n * static_cast<int64_t>(size_of(c.d)), pitch);
}
bool is_uneven(const GroupedRequest& r, const Routing& routing, const RoutedGroup& g) {
  int64_t pitch = 0;
  return (!r.decodes_a() && !has_pitch_of_a(r, routing, g, &pitch)) ||
         (!r.is_summed() && !has_pitch_of_d(r, routing, g, &pitch));
}

// The scales of one group's B in the order of the kernels.
PlainScales plain_scales(const GroupedRequest& r) {
  const Request& product = r.product.request;
  PlainScales p;
  p.stored = &product.scaled->b.scales;
  p.lines = r.b_lines;
  p.pitch = r.b_pitch / elements_of_scale(p.stored->format->blocks);
  return p;
}

// The memory of a call: members, then the slots of copied rows, then the rows. There is room to copy and to list
// every row; pages that are not touched take no memory.
struct Memory {
  Memory(const GroupedRequest& r, const Routing& routing) {
    int64_t rows = 0;
    for (int64_t i = 0; i < routing.count; ++i) rows += routing.groups[i].count;
    const ProblemClass& c = r.product.request.key.problem;
    const auto n = static_cast<size_t>(rows), columns = static_cast<size_t>(c.n),
               depth = static_cast<size_t>(c.k);
    const size_t slots = static_cast<size_t>(std::max(rows, r.slots)) * sizeof(int32_t);
    const auto take = [&](size_t size) {
      const size_t at = bytes;
      bytes += whole_lines(size);
      return at;
    };
    take(static_cast<size_t>(routing.count) * sizeof(MemberLaunch));
    a_slots_at = take(slots);
    d_slots_at = take(slots);
    scales_at = take(n * sizeof(float));
    lists_at = take((r.up ? 4 : 2) * n * sizeof(int64_t));
    a_at = take(n * depth * size_of(c.a));
    d_at = take(n * columns * size_of(c.d));
    if (r.product.request.scaled && !plain_scales(r).is_stored_so())
      plain_at = take(static_cast<size_t>(routing.count) * whole_lines(plain_scales(r).bytes()));
    if (!r.up) return;
    ups_at = take(static_cast<size_t>(routing.count) * sizeof(MemberLaunch));
    up_entries_at = take(static_cast<size_t>(routing.count) * sizeof(const DispatchEntry*));
    up_at = take(n * columns * sizeof(float));
    bias_at = take(2 * static_cast<size_t>(routing.count) * columns * size_of(c.bias));
  }
  size_t a_slots_at = 0, d_slots_at = 0, scales_at = 0, lists_at = 0, a_at = 0, d_at = 0, plain_at = 0,
         ups_at = 0, up_entries_at = 0, up_at = 0, bias_at = 0, bytes = 0;
};

// Whether task i of the gate's kernel reads only elements of u that task i of the other kernel writes: both divide the
// same rows and columns in the same way. Generic kernels are not compared.
bool have_same_tasks(const DispatchEntry* gate, const DispatchEntry* up) {
  const auto is_simple = [](const DispatchEntry& entry) {
    return entry.kernel->recipe().steps.size() == 1 && entry.key.problem.generic == 0;
  };
  return is_simple(*gate) && is_simple(*up) && gate->plan.config == up->plan.config;
}

// The index of the scale of A that a slot uses.
int64_t scale_row(const GroupedRequest& r, int64_t slot) {
  const bool shared = r.grouping == LATHE_GROUPING_INDEXED && r.a.inner_bytes == 0;
  return shared ? slot / r.used : slot;
}

class GroupedLaunch {
 public:
  // `kernels` are those of the product, with a gate of g.
  GroupedLaunch(lathe_device& device, const GroupedRequest& request, const Routing& routing,
                const Memory& memory, GroupKernels* kernels, char* base)
      : device_(device), r_(request), routing_(routing), kernels_(*kernels), run_{request, {}, {}, nullptr} {
    members_ = reinterpret_cast<MemberLaunch*>(base);
    const ProblemClass& c = r_.product.request.key.problem;
    run_.gathered = {base + memory.a_at, static_cast<size_t>(c.k) * size_of(c.a),
                     reinterpret_cast<int32_t*>(base + memory.a_slots_at), 0};
    run_.scattered = {base + memory.d_at, static_cast<size_t>(c.n) * size_of(c.d),
                      reinterpret_cast<int32_t*>(base + memory.d_slots_at), 0};
    scales_ = reinterpret_cast<float*>(base + memory.scales_at);
    lists_ = reinterpret_cast<int64_t*>(base + memory.lists_at);
    if (r_.product.request.scaled) {
      run_.routing = &routing_;
      run_.plain = plain_scales(r_);
      run_.plain_bytes = whole_lines(run_.plain.bytes());
      run_.plain.to = base + memory.plain_at;
      if (memory.plain_at != 0) run_.plain_tasks = routing_.count * run_.plain.tasks();
    }
    ups_ = reinterpret_cast<MemberLaunch*>(base + memory.ups_at);
    up_entries_ = reinterpret_cast<const DispatchEntry**>(base + memory.up_entries_at);
    up_ = reinterpret_cast<float*>(base + memory.up_at);
    bias_ = base + memory.bias_at;
    if (!r_.is_summed()) return;
    run_.row_of_slot = run_.scattered.slots;
    std::fill_n(run_.row_of_slot, r_.slots, -1);
  }

  absl::Status run() {
    for (int64_t i = 0; i < routing_.count; ++i) {
      place_a(routing_.groups[i], &(new (members_ + i) MemberLaunch)->args);
      if (r_.up) new (ups_ + i) MemberLaunch;
    }
    bool in_pairs = r_.up.has_value() && !r_.product.request.empty_product;
    if (r_.up) {
      float* row = up_;
      GroupKernels kernels(device_, r_.up->request);
      const auto place = [&](const RoutedGroup& group, ArgumentBlock* args) {
        args->d = row;
        args->ldd = args->n;
        row += group.count * int64_t{args->n};
      };
      LATHE_RETURN_IF_ERROR(
          prepare(*r_.up, ups_, &kernels, place,
                  [&](int64_t index, const DispatchEntry* entry) { up_entries_[index] = entry; }));
    }
    float* row = up_;
    const auto place = [&](const RoutedGroup& group, ArgumentBlock* args) {
      place_d(group, args);
      if (!r_.up) return;
      args->residual = row;
      args->ldr = args->n;
      row += group.count * int64_t{args->n};
    };
    LATHE_RETURN_IF_ERROR(
        prepare(r_.product, members_, &kernels_, place, [&](int64_t index, const DispatchEntry* entry) {
          if (!r_.up) return;
          in_pairs = in_pairs && have_same_tasks(entry, up_entries_[index]) &&
                     members_[index].config.workspace_bytes == 0 && ups_[index].config.workspace_bytes == 0;
          members_[index].before = &ups_[index];
        }));
    HostStep gather;
    const int64_t tasks = run_.plain_tasks + tasks_of(run_.gathered.count);
    if (tasks > 0) gather = {GroupedRun::gather, &run_, tasks};
    if (r_.up && !in_pairs) {
      for (int64_t i = 0; i < routing_.count; ++i) members_[i].before = nullptr;
      LATHE_RETURN_IF_ERROR(launch(r_.up->request, ups_, gather, {}));
      gather = {};
    }
    HostStep finish;
    if (r_.is_summed())
      finish = {GroupedRun::sum, &run_, tasks_of(r_.m)};
    else if (run_.scattered.count > 0)
      finish = {GroupedRun::scatter, &run_, tasks_of(run_.scattered.count)};
    return launch(r_.product.request, members_, gather, finish);
  }

 private:
  // Where the group's rows of A are. Without a pitch they have no address until a kernel is known, which takes
  // a list of them or a copy.
  void place_a(const RoutedGroup& group, ArgumentBlock* args) {
    const ProblemClass& c = r_.product.request.key.problem;
    const auto bytes = static_cast<int64_t>(size_of(c.a));
    args->m = group.count;
    if (c.scale_a == Scale::kPerChannel) args->scale_a = take_scales(group);
    if (r_.a_data == nullptr) return;
    int64_t pitch = 0;
    if (r_.decodes_a()) {
      copy_a(group, args);
    } else if (has_pitch_of_a(r_, routing_, group, &pitch)) {
      args->a = const_cast<char*>(run_.a_row(routing_.slot(group, 0)));
      args->lda = pitch / bytes;
    }
  }
  void copy_a(const RoutedGroup& group, ArgumentBlock* args) {
    args->a = take_rows(group, &run_.gathered);
    args->lda = r_.product.request.key.problem.k;
  }
  // Where the group's rows of D are; as place_a().
  void place_d(const RoutedGroup& group, ArgumentBlock* args) {
    const ProblemClass& c = r_.product.request.key.problem;
    const auto bytes = static_cast<int64_t>(size_of(c.d));
    int64_t pitch = 0;
    args->ldd = c.n;
    if (r_.is_summed()) {
      args->d = take_sum_rows(group);
    } else if (has_pitch_of_d(r_, routing_, group, &pitch)) {
      args->d = run_.d_row(routing_.slot(group, 0));
      args->ldd = pitch / bytes;
    }
  }
  // The offsets of A's rows and then of D's, in elements.
  void list_rows(const RoutedGroup& group, const ProblemClass& c, ArgumentBlock* args) {
    const auto list = [&](const SlotPlaces& places, int64_t bytes, bool has_pitch, int64_t pitch) {
      for (int64_t i = 0; i < group.count; ++i)
        *lists_++ = has_pitch ? i * pitch : place_of(r_, places, routing_.slot(group, i)) / bytes;
    };
    args->values = lists_;
    list(r_.a, static_cast<int64_t>(size_of(c.a)), args->a != nullptr, args->lda);
    list(r_.d, static_cast<int64_t>(size_of(c.d)), args->d != nullptr, args->ldd);
    if (args->a == nullptr) args->a = const_cast<char*>(r_.a_data);
    if (args->d == nullptr) args->d = r_.d_data;
  }
  void place_weights(const GroupProduct& product, int64_t index, ArgumentBlock* args) {
    const int64_t group = routing_.groups[index].group;
    const auto of_group = [&](const void* data, int64_t stride) {
      return data == nullptr ? nullptr : const_cast<char*>(static_cast<const char*>(data)) + group * stride;
    };
    if (r_.b_data != nullptr) args->b = of_group(r_.b_data + product.b_offset, r_.b_stride);
    args->scale_b = r_.product.request.scaled ? block_scales(product, index, args)
                                              : of_group(product.request.args.scale_b, r_.scale_b_stride);
    args->zero_b = of_group(product.request.args.zero_b, r_.zero_b_stride);
    if (r_.bias == nullptr) return;
    const size_t size = size_of(product.request.key.problem.bias);
    const char* const first =
        of_group(r_.bias, r_.bias_stride) + static_cast<size_t>(product.first_column) * size;
    args->bias = product.column_step == 1
                     ? const_cast<char*>(first)
                     : every_other(first, product.first_column * routing_.count + index, args->n, size);
  }
  // The scales of the blocks that begin at args->b. Multiplies alpha by their global factor.
  char* block_scales(const GroupProduct& product, int64_t index, ArgumentBlock* args) const {
    const DTypeRow& row = row_of(product.request.key.problem.b);
    const PlainScales plain = run_.plain_of(index);
    args->alpha *= global_factor(*r_.product.request.scaled, plain.matrix);
    return (run_.plain_tasks > 0 ? plain.to : plain.in_place()) + product.b_offset / row.bytes * row.apart;
  }
  // Copies `count` elements, two apart, to part `index` of the memory for biases.
  char* every_other(const char* from, int64_t index, int64_t count, size_t size) {
    char* const to = bias_ + static_cast<size_t>(index * count) * size;
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + static_cast<size_t>(i) * size, from + static_cast<size_t>(2 * i) * size, size);
    return to;
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
    const auto* scales = static_cast<const float*>(r_.product.request.args.scale_a);
    for (int64_t i = 0; i < group.count; ++i) *scales_++ = scales[scale_row(r_, routing_.slot(group, i))];
    return first;
  }

  // Finds the kernels of all groups and fills the arguments of `members`; those of A are in members_ already.
  // `place(group, args)` sets those of D, `done(index, entry)` is called last.
  template <typename Place, typename Done>
  absl::Status prepare(const GroupProduct& product, MemberLaunch* members, GroupKernels* kernels,
                       const Place& place, const Done& done) {
    for (int64_t i = 0; i < routing_.count; ++i) {
      const RoutedGroup& group = routing_.groups[i];
      MemberLaunch& launch = members[i];
      ArgumentBlock of_a = members_[i].args;
      launch.args = product.request.args;
      launch.args.m = of_a.m;
      launch.args.a = of_a.a;
      launch.args.lda = of_a.lda;
      if (of_a.scale_a != nullptr) launch.args.scale_a = of_a.scale_a;
      place_weights(product, i, &launch.args);
      launch.args.d = nullptr;
      place(group, &launch.args);
      if (product.request.empty_product) {
        if (launch.args.d == nullptr) launch.args.d = take_rows(group, &run_.scattered);
        done(i, nullptr);
        continue;
      }
      const bool uneven = launch.args.a == nullptr || launch.args.d == nullptr;
      LATHE_ASSIGN_OR_RETURN(const DispatchEntry* entry, kernels->use(group.count, uneven));
      const Request& request = kernels->request();
      if (entry->key.problem.rows != Rows::kPlain) {
        list_rows(group, request.key.problem, &launch.args);
      } else {
        if (launch.args.a == nullptr) {
          copy_a(group, &of_a);
          members_[i].args.a = launch.args.a = of_a.a;
          members_[i].args.lda = launch.args.lda = of_a.lda;
        }
        if (launch.args.d == nullptr) launch.args.d = take_rows(group, &run_.scattered);
      }
      launch.kernel = entry->kernel;
      launch.dims = request.dims;
      launch.config = launch_config_for(*entry, request);
      launch.args.splits = launch.config.splits;
      launch.args.k_chunk = launch.config.k_chunk;
      if (entry->key.problem.generic != 0) launch.args.form = form_of(request.key.problem);
      done(i, entry);
    }
    return absl::OkStatus();
  }
  absl::Status launch(const Request& request, MemberLaunch* members, const HostStep& before,
                      const HostStep& after) {
    JointLaunch joint{members, routing_.count, before, after};
    if (request.empty_product) {
      for (int64_t i = 0; i < routing_.count; ++i) run_empty_product(request.key.problem, members[i].args);
      joint.count = 0;
    }
    return device_.driver->launch_jointly(joint);
  }

  lathe_device& device_;
  const GroupedRequest& r_;
  const Routing& routing_;
  GroupKernels& kernels_;
  GroupedRun run_;
  MemberLaunch *members_, *ups_;
  const DispatchEntry** up_entries_;
  float *scales_, *up_;
  int64_t* lists_;
  char* bias_;
};

// Libraries cannot join other launches.
absl::Status use_own_kernels(const lathe_device& device, DispatchKey* key) {
  if (external_choice(device, *key).use == ExternalUse::kOff) return absl::OkStatus();
  const std::optional<DispatchKey> own = without_external(device, *key);
  if (!own) return absl::UnimplementedError("no external library has a routine for a grouped product");
  *key = *own;
  return absl::OkStatus();
}

absl::Status run(lathe_device& device, GroupedRequest& request) {
  LATHE_RETURN_IF_ERROR(use_own_kernels(device, &request.product.request.key));
  if (request.up) LATHE_RETURN_IF_ERROR(use_own_kernels(device, &request.up->request.key));
  return device.driver->with_host_memory(routing_bytes(request), [&](char* routing_memory) {
    Routing routing;
    LATHE_RETURN_IF_ERROR(route(request, routing_memory, &routing));
    const Request& product = request.product.request;
    GroupKernels kernels(device, product);
    const auto uneven = [&](const RoutedGroup& group) { return is_uneven(request, routing, group); };
    if (!product.empty_product) LATHE_RETURN_IF_ERROR(divide_groups(&kernels, uneven, &routing));
    const Memory memory(request, routing);
    return device.driver->with_host_memory(memory.bytes, [&](char* base) {
      return GroupedLaunch(device, request, routing, memory, &kernels, base).run();
    });
  });
}

}  // namespace

absl::Status run_grouped_matmul(lathe_device& device, void* stream, const lathe_grouped_matmul_desc* desc) {
  GroupedRequest request;
  LATHE_RETURN_IF_ERROR(read_grouped_matmul(desc, Purpose::kRun, device.request_context(), stream, &request));
  LATHE_RETURN_IF_ERROR(check_runnable(device));
  if (request.nothing_to_do) return absl::OkStatus();
  const absl::Status status =
      device.is_cpu ? run(device, request) : run_grouped_on_gpu(device, stream, request);
  if (__builtin_expect(status.ok(), 1)) return status;
  return in_request(describe(request), device.name, status);
}

absl::Status read_planned_group(const lathe_device& device, const lathe_grouped_matmul_desc* desc,
                                Request* out) {
  GroupedRequest request;
  LATHE_RETURN_IF_ERROR(
      read_grouped_matmul(desc, Purpose::kPlan, device.request_context(), nullptr, &request));
  *out = std::move(request.product.request);
  if (!device.is_cpu) return absl::OkStatus();
  const absl::Status status = use_own_kernels(device, &out->key);
  return status.ok() ? status : in_request(describe(request), device.name, status);
}

}  // namespace lathe
