#include "api/recent_matmul.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lathe {
namespace {

// Where the pointers to operands lie in a descriptor.
constexpr std::array<size_t, 6> kPointers = {
    offsetof(lathe_matmul_desc, a.data),        offsetof(lathe_matmul_desc, b.data),
    offsetof(lathe_matmul_desc, c.data),        offsetof(lathe_matmul_desc, d.data),
    offsetof(lathe_matmul_desc, epilogue.bias), offsetof(lathe_matmul_desc, epilogue.residual.data)};

using Words [[gnu::vector_size(16)]] = uint64_t;

// What the words [begin, end) of both differ in, or-ed together: no branch, and no call of memcmp's.
template <size_t kBegin, size_t kEnd>
Words difference(const char* p, const char* q) {
  constexpr size_t kWord = sizeof(uint64_t), kVectors = (kEnd - kBegin) / sizeof(Words);
  static_assert(kBegin % kWord == 0 && kEnd % kWord == 0);
  Words all = {};
  Words x, y;
  for (size_t i = 0; i < kVectors; ++i) {
    std::memcpy(&x, p + kBegin + i * sizeof x, sizeof x);
    std::memcpy(&y, q + kBegin + i * sizeof y, sizeof y);
    all |= x ^ y;
  }
  if constexpr ((kEnd - kBegin) % sizeof(Words) != 0) {
    uint64_t last_x, last_y;
    std::memcpy(&last_x, p + kEnd - kWord, kWord);
    std::memcpy(&last_y, q + kEnd - kWord, kWord);
    all |= Words{last_x ^ last_y, 0};
  }
  return all;
}

// Whether all that lies before, between and after the pointers is the same.
template <size_t... kPointer>
bool same_but_for_pointers(const lathe_matmul_desc& x, const lathe_matmul_desc& y,
                           std::index_sequence<kPointer...> /*all*/) {
  const auto* p = reinterpret_cast<const char*>(&x);
  const auto* q = reinterpret_cast<const char*>(&y);
  constexpr size_t kWord = sizeof(void*);
  constexpr auto begin = [](size_t i) { return i == 0 ? 0 : kPointers[i - 1] + kWord; };
  const Words all = (difference<begin(kPointer), kPointers[kPointer]>(p, q) | ...) |
                    difference<kPointers.back() + kWord, sizeof x>(p, q);
  return (all[0] | all[1]) == 0;
}

bool apart(const void* x, int64_t x_bytes, const void* y, int64_t y_bytes) {
  const auto p = reinterpret_cast<uintptr_t>(x), q = reinterpret_cast<uintptr_t>(y);
  return p + static_cast<uintptr_t>(x_bytes) <= q || q + static_cast<uintptr_t>(y_bytes) <= p;
}

// An operand that is D where both begin at the same place.
bool lies_as_d(const Spans& spans, int64_t bytes, DType dtype, const ProblemClass& c, int64_t leading,
               int64_t stride, const Request& request) {
  return bytes == spans.d && dtype == c.d && leading == request.args.ldd &&
         (request.dims.batch == 1 || stride == request.args.stride_d);
}

}  // namespace

RecentMatmul& RecentMatmul::slot_of(const lathe_matmul_desc& desc) {
  constexpr unsigned kBits = 3;  // 6 KiB a thread; a layer of a model has no more products
  static thread_local std::array<RecentMatmul, size_t{1} << kBits> slots;
  static_assert(std::is_trivially_destructible_v<RecentMatmul>, "a thread's end runs nothing");
  const uint64_t mixed = static_cast<uint64_t>(desc.m) * 0x9e3779b97f4a7c15u ^
                         static_cast<uint64_t>(desc.n) * 0xc2b2ae3d27d4eb4fu ^
                         static_cast<uint64_t>(desc.k) * 0x165667b19e3779f9u;
  return slots[mixed >> (64 - kBits)];
}

const RecentMatmul* RecentMatmul::find(const lathe_device& device, void* stream,
                                       const lathe_matmul_desc* desc) {
  if (desc == nullptr || stream != nullptr || desc->struct_size != sizeof *desc) return nullptr;
  const RecentMatmul& slot = slot_of(*desc);
  if (slot.device_ != device.serial) return nullptr;
  if (!same_but_for_pointers(slot.desc_, *desc, std::make_index_sequence<kPointers.size()>())) return nullptr;
  return slot.takes_pointers(*desc) ? &slot : nullptr;
}

bool RecentMatmul::takes_pointers(const lathe_matmul_desc& desc) const {
  const void *d = desc.d.data, *c = desc.c.data, *bias = desc.epilogue.bias,
             *residual = desc.epilogue.residual.data;
  const auto clear = [&](const void* x, int64_t bytes) { return apart(d, spans_.d, x, bytes); };
  if (desc.a.data == nullptr || desc.b.data == nullptr || d == nullptr) return false;
  if (!clear(desc.a.data, spans_.a) || !clear(desc.b.data, spans_.b)) return false;
  if ((bias != nullptr) != (spans_.bias != 0) || (residual != nullptr) != (spans_.residual != 0))
    return false;  // of another class
  if (bias != nullptr && !clear(bias, spans_.bias)) return false;
  if (residual != nullptr && !(residual_may_be_d_ && residual == d) && !clear(residual, spans_.residual))
    return false;
  return spans_.c == 0 || (c != nullptr && ((c_may_be_d_ && c == d) || clear(c, spans_.c)));
}

void RecentMatmul::keep(const lathe_device& device, const lathe_matmul_desc& desc, const Request& request,
                        const DispatchEntry& entry) {
  if (!device.is_cpu || desc.next != nullptr || desc.a.scale != nullptr || desc.b.scale != nullptr ||
      desc.a.zero_point != nullptr || desc.b.zero_point != nullptr || is_external(*entry.kernel)) {
    return;
  }
  RecentMatmul& slot = slot_of(desc);
  slot.device_ = device.serial;
  slot.desc_ = desc;
  slot.spans_ = request.spans;
  const ProblemClass& c = request.key.problem;
  const ArgumentBlock& args = request.args;
  slot.c_may_be_d_ = lies_as_d(slot.spans_, slot.spans_.c, c.c, c, args.ldc, args.stride_c, request);
  slot.residual_may_be_d_ =
      lies_as_d(slot.spans_, slot.spans_.residual, c.residual, c, args.ldr, args.stride_r, request);
  slot.entry_ = &entry;
  slot.arguments_ = request.args;
}

ArgumentBlock RecentMatmul::arguments(const lathe_matmul_desc& desc) const {
  ArgumentBlock args = arguments_;
  args.a = desc.a.data;
  args.b = desc.b.data;
  args.c = desc.c.data;
  args.d = desc.d.data;
  args.bias = const_cast<void*>(desc.epilogue.bias);
  args.residual = desc.epilogue.residual.data;
  return args;
}

}  // namespace lathe
