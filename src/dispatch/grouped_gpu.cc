#include "dispatch/grouped_gpu.h"

#include <algorithm>
#include <vector>

#include "dispatch/dispatch.h"
#include "dispatch/routing.h"
#include "request/request_scaled.h"

namespace lathe {
namespace {

// Distances in elements between the rows of two tokens (or rows, for COUNTS of a group), and between those of two slots
// of a token (for COUNTS, two groups).
struct Pitches {
  int64_t leading, stride;
};
Pitches pitches_of(const GroupedRequest& r, const SlotPlaces& places, DType dtype) {
  const int64_t size = has_scales_apart(dtype) ? 1 : static_cast<int64_t>(size_of(dtype)),
                per_byte = elements_a_byte(dtype);
  const Pitches of_token = {places.outer_bytes / size * per_byte, places.inner_bytes / size * per_byte};
  if (r.grouping == LATHE_GROUPING_COUNTS) return {of_token.stride, of_token.leading};
  return of_token;
}
// The distances between rows of `columns` elements that are stored in the order of the slots.
Pitches in_slot_order(const GroupedRequest& r, int64_t columns) {
  switch (r.grouping) {
    case LATHE_GROUPING_COUNTS: return {columns, columns * r.inner};
    case LATHE_GROUPING_INDEXED: return {columns * r.inner, columns};
    default: return {columns, 0};
  }
}

// Rows that are one matrix have one matrix of scales, whatever their group.
void set_scales(const GroupedRequest& r, const GroupProduct& product, ArgumentBlock* args) {
  set_scale_arguments(*product.request.scaled, args);
  if (r.scale_matrices() == 1) args->scale_a_matrix = 0;
  args->scale_b_first = product.first_column;
  args->scale_b_step = product.column_step;
}

// The arguments of a product, without its D and residual.
void fill_arguments(const GroupedRequest& r, GroupProduct* product) {
  Request& request = product->request;
  const ProblemClass& c = request.key.problem;
  ArgumentBlock& args = request.args;
  args.m = static_cast<int32_t>(r.slots);
  args.batch = static_cast<int32_t>(r.groups);
  args.index_offset = r.inner;
  args.values = const_cast<int32_t*>(r.routing);
  args.stride_c = r.routing_stride;
  if (request.reads_operands()) {
    const Pitches a = pitches_of(r, r.a, c.a);
    args.a = const_cast<char*>(r.a_data);
    args.lda = a.leading;
    args.stride_a = a.stride;
    args.b = const_cast<char*>(r.b_data + product->b_offset);
    args.stride_b = r.b_stride / static_cast<int64_t>(size_of(c.b)) * block_elements(c.b);
    if (request.scaled) set_scales(r, *product, &args);
  } else {  // A and B are the zero that the driver holds
    args.k = 1;
    args.lda = args.stride_a = args.ldb = args.stride_b = 0;
  }
  if (r.bias == nullptr) return;
  const auto size = static_cast<int64_t>(size_of(c.bias));
  args.bias = const_cast<char*>(r.bias + product->first_column * size);
  args.stride_r = r.bias_stride / size;
  args.form = product->column_step;
}

void set_d(void* data, const Pitches& pitches, ArgumentBlock* args) {
  args->d = data;
  args->ldd = pitches.leading;
  args->stride_d = pitches.stride;
}

void place_d(GroupedRequest& r) {
  ArgumentBlock& args = r.product.request.args;
  if (!r.is_summed()) return set_d(r.d_data, pitches_of(r, r.d, r.product.request.key.problem.d), &args);
  set_d(r.d_data, {r.sum_row_bytes / static_cast<int64_t>(size_of(r.sum)), 0}, &args);
  args.c = const_cast<float*>(r.weights);
  args.ldc = r.weights_stride;
}

size_t routing_elements(const GroupedRequest& r) {
  switch (r.grouping) {
    case LATHE_GROUPING_OFFSETS: return static_cast<size_t>(r.groups) + 1;
    case LATHE_GROUPING_COUNTS: return static_cast<size_t>(r.groups);
    case LATHE_GROUPING_INDEXED: return static_cast<size_t>((r.m - 1) * r.routing_stride + r.used);
    default: return static_cast<size_t>(r.m);
  }
}

absl::Status check_routing(lathe_device& device, void* stream, const GroupedRequest& request) {
  LATHE_ASSIGN_OR_RETURN(const bool capturing, device.driver->is_capturing(stream));
  if (capturing) return absl::OkStatus();
  std::vector<int32_t> routing(routing_elements(request));
  DeviceMemory& memory = device.driver->memory();
  LATHE_RETURN_IF_ERROR(memory.copy(stream, routing.data(), request.routing, routing.size() * sizeof(int32_t),
                                    CopyKind::kToHost));
  LATHE_RETURN_IF_ERROR(memory.synchronize(stream));
  GroupedRequest on_host = request;
  on_host.routing = routing.data();
  std::vector<int64_t> space(routing_bytes(request) / sizeof(int64_t) + 1);
  Routing sorted;
  return route(on_host, reinterpret_cast<char*>(space.data()), &sorted);
}

// One product's launch: its kernel, and how much of the workspace it needs.
struct Prepared {
  Request* request = nullptr;
  const DispatchEntry* entry = nullptr;
  size_t bytes = 0;
};
absl::StatusOr<Prepared> prepare(lathe_device& device, void* stream, Request& request) {
  request.stream = stream;
  Prepared prepared = {&request, nullptr, 0};
  LATHE_ASSIGN_OR_RETURN(prepared.entry, find_or_prepare(device, request, Purpose::kRun));
  const LaunchConfig config = launch_config_for(*prepared.entry, request);
  prepared.bytes = device.driver->workspace_bytes(*prepared.entry->kernel, config, device.driver->workers());
  return prepared;
}
absl::Status launch(lathe_device& device, const Prepared& prepared, char* workspace) {
  prepared.request->workspace = workspace;
  prepared.request->workspace_bytes = prepared.bytes;
  return launch_request(device, *prepared.entry, *prepared.request, nullptr);
}

}  // namespace

size_t kept_bytes(int64_t slots, int64_t columns) {
  constexpr size_t kAlignment = 256;
  const size_t bytes = static_cast<size_t>(slots) * static_cast<size_t>(columns) * sizeof(float);
  return (bytes + kAlignment - 1) & ~(kAlignment - 1);
}

GroupedSizes sizes_of(const GroupedRequest& r) {
  const int64_t slots = r.grouping == LATHE_GROUPING_COUNTS ? r.groups : r.used;
  if (r.groups == 0 || slots == 0) return {};
  return {r.groups, slots, r.up ? r.up->request.dims.n : 0};
}

absl::Status run_grouped_on_gpu(lathe_device& device, void* stream, GroupedRequest& r) {
  if (device.context.options.validate) LATHE_RETURN_IF_ERROR(check_routing(device, stream, r));
  fill_arguments(r, &r.product);
  place_d(r);
  LATHE_ASSIGN_OR_RETURN(const Prepared product, prepare(device, stream, r.product.request));
  if (!r.up)
    return device.driver->with_workspace(stream, product.bytes,
                                         [&](char* memory) { return launch(device, product, memory); });
  // The memory holds u, then one workspace, which both products use in turn.
  fill_arguments(r, &*r.up);
  LATHE_ASSIGN_OR_RETURN(const Prepared up, prepare(device, stream, r.up->request));
  const int64_t columns = r.up->request.dims.n;
  const size_t rows_bytes = kept_bytes(r.slots, columns);
  return device.driver->with_workspace(stream, rows_bytes + std::max(product.bytes, up.bytes),
                                       [&](char* memory) {
                                         set_d(memory, in_slot_order(r, columns), &r.up->request.args);
                                         r.product.request.args.residual = memory;
                                         r.product.request.args.ldr = columns;
                                         LATHE_RETURN_IF_ERROR(launch(device, up, memory + rows_bytes));
                                         return launch(device, product, memory + rows_bytes);
                                       });
}

}  // namespace lathe
