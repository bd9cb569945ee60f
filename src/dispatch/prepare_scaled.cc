#include "dispatch/prepare_scaled.h"

#include <algorithm>
#include <new>

#include "dispatch/dispatch.h"

namespace lathe {
namespace {

constexpr int64_t kRowsPerTask = 8;

constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

// The steps of one launch before its kernel.
struct Preparation {
  const Request& request;
  PlainScales scales;
  float* decoded = nullptr;  // A, row by row; null: A has no scales
  int64_t rows = 0, matrices = 0;
  int64_t scale_tasks = 0;

  int64_t decode_tasks() const { return ceil_div(rows * matrices, kRowsPerTask); }
  void decode(int64_t row) const {
    const ScaledOperand& a = request.scaled->a;
    const int64_t matrix = row / rows, line = row % rows, k = request.dims.k;
    const int64_t at = matrix * a.elements.stride + line * a.elements.leading;
    const int64_t of_scales = a.scales.stride == 0 ? 0 : matrix;
    decode_line(a.scales, of_scales, line, a.elements.data + scaled_bytes(a.scales.format->element, at), k,
                decoded + row * k);
  }
  static void run(void* context, int64_t index) {
    const auto& p = *static_cast<const Preparation*>(context);
    if (index < p.scale_tasks) return p.scales.run(index);
    index -= p.scale_tasks;
    const int64_t end = std::min((index + 1) * kRowsPerTask, p.rows * p.matrices);
    for (int64_t row = index * kRowsPerTask; row < end; ++row) p.decode(row);
  }
};

absl::Status run_prepared(lathe_device& device, const DispatchEntry& entry, Request& request,
                          Preparation& preparation, char* base) {
  auto* const member = new (base) MemberLaunch;
  member->kernel = entry.kernel;
  member->dims = request.dims;
  member->config = launch_config_for(entry, request);
  ArgumentBlock& args = member->args;
  args = request.args;
  args.splits = member->config.splits;
  args.k_chunk = member->config.k_chunk;
  args.alpha *= global_factor(*request.scaled, 0);
  args.scale_b = preparation.scale_tasks > 0 ? preparation.scales.to : preparation.scales.in_place();
  if (preparation.decoded != nullptr) args.a = preparation.decoded;
  const HostStep before = {Preparation::run, &preparation,
                           preparation.scale_tasks + preparation.decode_tasks()};
  return device.driver->launch_jointly({member, 1, before, {}});
}

}  // namespace

PlainScales PlainScales::of(const StoredScales& stored, const ArgumentBlock& args, DType blocks,
                            int64_t matrices) {
  PlainScales p;
  p.stored = &stored;
  p.lines = args.n;
  p.pitch = args.ldb / block_elements(blocks);
  p.stride = args.stride_b / block_elements(blocks);
  p.matrices = p.stride == 0 ? 1 : matrices;
  // Formats with several scales in a block of the kernel count those.
  const int64_t each = block_elements(blocks) / elements_of_scale(blocks);
  p.pitch *= each;
  p.stride *= each;
  return p;
}

bool PlainScales::is_stored_so() const {
  return stored->layout == ScaleLayout::kByLine && stored->lines_each == 1 && stored->blocks_each() == 1 &&
         (lines < 2 || stored->leading == pitch) && (matrices < 2 || stored->stride == stride);
}
char* PlainScales::in_place() const {
  const int64_t at = matrix * stored->stride * static_cast<int64_t>(size_of(stored->format->scale));
  return const_cast<char*>(static_cast<const char*>(stored->data)) + at;
}
size_t PlainScales::bytes() const {
  const int64_t of_line = stored->blocks * stored->blocks_each();
  const int64_t last = (matrices - 1) * stride + (lines - 1) * pitch + of_line;
  return static_cast<size_t>(last) * size_of(stored->format->scale);
}
void PlainScales::run(int64_t task) const {
  const int64_t per_matrix = ceil_div(lines, kLinesPerTask), of = task / per_matrix;
  const int64_t first = task % per_matrix * kLinesPerTask, end = std::min(first + kLinesPerTask, lines);
  const auto size = static_cast<int64_t>(size_of(stored->format->scale));
  for (int64_t line = first; line < end; ++line)
    stored->read_plain(stored->stride == 0 ? 0 : matrix + of, line, to + (of * stride + line * pitch) * size);
}

float global_factor(const ScaledProduct& product, int64_t matrix_of_b) {
  const float *a = product.a.scales.global, *b = product.b.scales.global;
  return (a == nullptr ? 1.0f : *a) * (b == nullptr ? 1.0f : b[matrix_of_b]);
}

absl::Status launch_scaled(lathe_device& device, const DispatchEntry& entry, Request& request) {
  const ScaledProduct& scaled = *request.scaled;
  const ProblemClass& c = request.key.problem;
  Preparation p{request, PlainScales::of(scaled.b.scales, request.args, c.b, request.dims.batch)};
  if (!p.scales.is_stored_so()) p.scale_tasks = p.scales.tasks();
  if (scaled.a.exists()) {
    p.rows = request.dims.m;
    p.matrices = request.args.stride_a == 0 ? 1 : request.dims.batch;
  }
  const size_t scales_at = whole_lines(sizeof(MemberLaunch));
  const size_t a_at = scales_at + (p.scale_tasks > 0 ? whole_lines(p.scales.bytes()) : 0);
  const size_t bytes = a_at + static_cast<size_t>(p.rows * p.matrices * request.dims.k) * sizeof(float);
  return device.driver->with_host_memory(bytes, [&](char* base) {
    p.scales.to = base + scales_at;
    if (scaled.a.exists()) p.decoded = reinterpret_cast<float*>(base + a_at);
    return run_prepared(device, entry, request, p, base);
  });
}

}  // namespace lathe
