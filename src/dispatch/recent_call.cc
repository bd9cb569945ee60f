#include "dispatch/recent_call.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "dispatch/externals.h"

namespace lathe {
namespace {

// The bytes [begin, end) of a descriptor.
struct Range {
  size_t begin, end;
};

bool apart(const void* x, int64_t x_bytes, const void* y, int64_t y_bytes) {
  const auto p = reinterpret_cast<uintptr_t>(x), q = reinterpret_cast<uintptr_t>(y);
  return p + static_cast<uintptr_t>(x_bytes) <= q || q + static_cast<uintptr_t>(y_bytes) <= p;
}

// What depends on the type of descriptor. kFields: all bytes except pointers to operands and padding.
template <typename Desc>
struct Kind;

template <>
struct Kind<lathe_matmul_desc> {
  using Desc = lathe_matmul_desc;
  static constexpr size_t kPointer = sizeof(void*);
  static constexpr std::array<Range, 7> kFields = {
      {{0, offsetof(Desc, a.data)},
       {offsetof(Desc, a.data) + kPointer, offsetof(Desc, b.data)},
       {offsetof(Desc, b.data) + kPointer, offsetof(Desc, c.data)},
       {offsetof(Desc, c.data) + kPointer, offsetof(Desc, d.data)},
       {offsetof(Desc, d.data) + kPointer, offsetof(Desc, epilogue.bias)},
       {offsetof(Desc, epilogue.bias) + kPointer, offsetof(Desc, epilogue.residual.data)},
       {offsetof(Desc, epilogue.residual.data) + kPointer, sizeof(Desc)}}};
  static constexpr unsigned kSlotBits = 3;  // 7 KiB per thread; a model's layer has at most 8 products

  static uint64_t mixed(const Desc& d) {
    return static_cast<uint64_t>(d.m) * 0x9e3779b97f4a7c15u ^
           static_cast<uint64_t>(d.n) * 0xc2b2ae3d27d4eb4fu ^
           static_cast<uint64_t>(d.k) * 0x165667b19e3779f9u;
  }
  static bool leads_to_others(const Desc& d) {
    return d.next != nullptr || d.m_device != nullptr || d.a.scale != nullptr || d.b.scale != nullptr ||
           d.a.zero_point != nullptr || d.b.zero_point != nullptr;
  }
  static std::array<const void*, 6> pointers(const Desc& d) {
    return {d.a.data, d.b.data, d.c.data, d.d.data, d.epilogue.bias, d.epilogue.residual.data};
  }
  static void set_pointers(const Desc& d, ArgumentBlock* args) {
    args->a = d.a.data;
    args->b = d.b.data;
    args->c = d.c.data;
    args->d = d.d.data;
    args->bias = const_cast<void*>(d.epilogue.bias);
    args->residual = d.epilogue.residual.data;
  }
  static bool takes_pointers(const Desc& desc, const Spans& spans, MayBeD may_be_d) {
    const void *d = desc.d.data, *c = desc.c.data, *bias = desc.epilogue.bias,
               *residual = desc.epilogue.residual.data;
    const auto clear = [&](const void* x, int64_t bytes) { return apart(d, spans.d, x, bytes); };
    if (desc.a.data == nullptr || desc.b.data == nullptr || d == nullptr) return false;
    if (!clear(desc.a.data, spans.a) || !clear(desc.b.data, spans.b)) return false;
    if ((bias != nullptr) != (spans.bias != 0) || (residual != nullptr) != (spans.residual != 0))
      return false;  // the request is of another class
    if (bias != nullptr && !clear(bias, spans.bias)) return false;
    if (residual != nullptr && !(may_be_d.residual && residual == d) && !clear(residual, spans.residual))
      return false;
    return spans.c == 0 || (c != nullptr && ((may_be_d.c && c == d) || clear(c, spans.c)));
  }
};

template <>
struct Kind<lathe_argmax_desc> {
  using Desc = lathe_argmax_desc;
  static constexpr size_t kPointer = sizeof(void*);
  static constexpr std::array<Range, 5> kFields = {
      {{0, offsetof(Desc, x.data)},
       {offsetof(Desc, x.data) + kPointer, offsetof(Desc, indices)},
       {offsetof(Desc, index_dtype), offsetof(Desc, index_dtype) + sizeof(lathe_dtype)},
       {offsetof(Desc, index_offset), offsetof(Desc, values)},
       {offsetof(Desc, determinism), offsetof(Desc, dependent_launch) + sizeof(lathe_dependent_launch)}}};
  static constexpr unsigned kSlotBits = 1;

  static uint64_t mixed(const Desc& d) {
    return static_cast<uint64_t>(d.rows) * 0x9e3779b97f4a7c15u ^
           static_cast<uint64_t>(d.n) * 0xc2b2ae3d27d4eb4fu;
  }
  static bool leads_to_others(const Desc& d) { return d.next != nullptr; }
  static std::array<const void*, 3> pointers(const Desc& d) { return {d.x.data, d.indices, d.values}; }
  static void set_pointers(const Desc& d, ArgumentBlock* args) {
    args->a = d.x.data;
    args->d = d.indices;
    args->values = d.values;
  }
  static bool takes_pointers(const Desc& d, const Spans& spans, MayBeD /*none*/) {
    if (d.x.data == nullptr || d.indices == nullptr) return false;
    if (!apart(d.indices, spans.d, d.x.data, spans.a)) return false;
    if (d.values == nullptr || spans.values == 0) return d.values == nullptr && spans.values == 0;
    return apart(d.values, spans.values, d.x.data, spans.a) &&
           apart(d.values, spans.values, d.indices, spans.d);
  }
};

// True if every pointer has the 16-byte alignment that the most aligned GPU class requires.
template <typename Desc>
bool is_aligned(const Desc& desc) {
  uintptr_t addresses = 0;
  for (const void* p : Kind<Desc>::pointers(desc)) addresses |= reinterpret_cast<uintptr_t>(p);
  return addresses % 16 == 0;
}

using Words [[gnu::vector_size(16)]] = uint64_t;

template <typename T>
T read_as(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// The differing bits of both, or-ed together. Zero: they are equal. Without branches and without a call of memcmp.
template <size_t kBegin, size_t kEnd>
uint64_t difference(const char* p, const char* q) {
  static_assert(kBegin % sizeof(uint64_t) == 0 && kEnd % sizeof(uint32_t) == 0);
  constexpr size_t kVectors = (kEnd - kBegin) / sizeof(Words);
  constexpr size_t kRest = kBegin + kVectors * sizeof(Words), kLast = kEnd - kEnd % sizeof(uint64_t);
  Words all = {};
  for (size_t at = kBegin; at < kRest; at += sizeof(Words))
    all |= read_as<Words>(p + at) ^ read_as<Words>(q + at);
  uint64_t rest = all[0] | all[1];
  if constexpr (kRest < kLast) rest |= read_as<uint64_t>(p + kRest) ^ read_as<uint64_t>(q + kRest);
  if constexpr (kLast < kEnd) rest |= read_as<uint32_t>(p + kLast) ^ read_as<uint32_t>(q + kLast);
  return rest;
}

template <typename Desc, size_t... kField>
bool same_but_for_pointers(const Desc& x, const Desc& y, std::index_sequence<kField...> /*all*/) {
  const auto* p = reinterpret_cast<const char*>(&x);
  const auto* q = reinterpret_cast<const char*>(&y);
  constexpr auto& kFields = Kind<Desc>::kFields;
  return (difference<kFields[kField].begin, kFields[kField].end>(p, q) | ...) == 0;
}

// Whether the operand has the same bytes as D if both begin at the same address.
bool lies_as_d(const Spans& spans, int64_t bytes, DType dtype, const ProblemClass& c, int64_t leading,
               int64_t stride, const Request& request) {
  return bytes == spans.d && dtype == c.d && leading == request.args.ldd &&
         (request.dims.batch == 1 || stride == request.args.stride_d);
}

}  // namespace

template <typename Desc>
RecentCall<Desc>& RecentCall<Desc>::slot_of(const Desc& desc) {
  static thread_local std::array<RecentCall, size_t{1} << Kind<Desc>::kSlotBits> slots;
  static_assert(std::is_trivially_destructible_v<RecentCall>, "a thread's end runs nothing");
  return slots[Kind<Desc>::mixed(desc) >> (64 - Kind<Desc>::kSlotBits)];
}

template <typename Desc>
RecentCall<Desc>* RecentCall<Desc>::find(const lathe_device& device, void* stream, const Desc* desc) {
  if (desc == nullptr || desc->struct_size != sizeof *desc) return nullptr;
  if (device.is_cpu ? stream != nullptr : !is_aligned(*desc)) return nullptr;
  RecentCall& slot = slot_of(*desc);
  if (slot.device_ != device.serial) return nullptr;
  if (!same_but_for_pointers(slot.desc_, *desc, std::make_index_sequence<Kind<Desc>::kFields.size()>()))
    return nullptr;
  return Kind<Desc>::takes_pointers(*desc, slot.spans_, slot.may_be_d_) ? &slot : nullptr;
}

template <typename Desc>
void RecentCall<Desc>::keep(const lathe_device& device, const Desc& desc, const Request& request,
                            const DispatchEntry& entry) {
  if (Kind<Desc>::leads_to_others(desc) || is_external(*entry.kernel)) return;
  if (!device.is_cpu && (!is_aligned(desc) || request.zero_product)) return;
  RecentCall& slot = slot_of(desc);
  slot.device_ = device.serial;
  slot.desc_ = desc;
  slot.spans_ = request.spans;
  const ProblemClass& c = request.key.problem;
  const ArgumentBlock& args = request.args;
  slot.may_be_d_.c = lies_as_d(slot.spans_, slot.spans_.c, c.c, c, args.ldc, args.stride_c, request);
  slot.may_be_d_.residual =
      lies_as_d(slot.spans_, slot.spans_.residual, c.residual, c, args.ldr, args.stride_r, request);
  slot.entry_ = &entry;
  slot.dims_ = request.dims;
  entry.set_launch_config(c, request.dims, &slot.config_);
  slot.arguments_ = request.args;
  slot.arguments_.splits = slot.config_.splits;
  slot.arguments_.k_chunk = slot.config_.k_chunk;
  slot.tasks_ = device.driver->caller_tasks(*entry.kernel, slot.config_, slot.dims_);
  slot.shape_ = device.driver->launch_shape(*entry.kernel, slot.config_, slot.dims_);
}

template <typename Desc>
bool RecentCall<Desc>::run_on_caller(const Desc& desc) {
  if (tasks_.task == nullptr) return false;
  Kind<Desc>::set_pointers(desc, &arguments_);
  return tasks_.run(&arguments_);
}

template <typename Desc>
Launch RecentCall<Desc>::launch(const Desc& desc, void* stream, ArgumentBlock* args) {
  if (args == nullptr)
    args = &arguments_;
  else
    *args = arguments_;
  Kind<Desc>::set_pointers(desc, args);
  Launch l;
  l.kernel = entry_->kernel;
  l.problem = &entry_->key.problem;
  l.args = args;
  l.config = config_;
  l.dims = dims_;
  l.stream = stream;
  l.shape = &shape_;
  return l;
}

template class RecentCall<lathe_matmul_desc>;
template class RecentCall<lathe_argmax_desc>;

}  // namespace lathe
