// Which bytes an operand touches, and whether an output may share memory with another operand.
#pragma once

#include <cstdint>

namespace lathe {

// `count` matrices, each of `lines` contiguous runs of `width` bytes. All distances are in bytes and >= 0.
// Not initialised, to save time: every request fills several.
struct Region {
  uintptr_t base;
  int64_t width;
  int64_t lines;
  int64_t pitch;  // between the starts of two lines
  int64_t count;
  int64_t stride;  // between the starts of two matrices
  int64_t bytes;   // from the first to one past the last; set by measure()
};

// A region of one line, with `bytes` set.
inline Region line_at(const void* data, int64_t bytes) {
  return {reinterpret_cast<uintptr_t>(data), bytes, 1, 0, 1, 0, bytes};
}

// Sets r->bytes. False if it overflows int64. The functions below require r->bytes.
inline bool measure(Region* r) {
  r->bytes = 0;
  if (r->width == 0 || r->lines == 0 || r->count == 0) return true;
  int64_t lines = 0, matrices = 0, starts = 0;
  return !__builtin_mul_overflow(r->lines - 1, r->pitch, &lines) &&
         !__builtin_mul_overflow(r->count - 1, r->stride, &matrices) &&
         !__builtin_add_overflow(lines, matrices, &starts) &&
         !__builtin_add_overflow(starts, r->width, &r->bytes);
}

// Whether no two lines of `r` share a byte, as an output requires. Two forms are legal: matrices one after the
// other (stride >= (lines - 1) * pitch + width), and matrices side by side in the lines of a larger one
// (pitch >= (count - 1) * stride + width, and stride >= width).
bool disjoint_within(const Region& r);

// Whether both are column slices of one buffer whose column ranges do not meet: their pitches are equal, and
// every stride is a multiple of the pitch. For matrices with a single line, the stride is the pitch. False for
// any other interleaving, even if it does not overlap.
bool disjoint_columns(const Region& a, const Region& b);

// Whether `a` and `b` are known not to share a byte.
inline bool known_disjoint(const Region& a, const Region& b) {
  if (a.base + static_cast<uintptr_t>(a.bytes) <= b.base) return true;
  if (b.base + static_cast<uintptr_t>(b.bytes) <= a.base) return true;
  return a.bytes == 0 || b.bytes == 0 || disjoint_columns(a, b);
}

}  // namespace lathe
