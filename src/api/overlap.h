// Which bytes an operand touches, and whether an output may share memory with another operand.
#pragma once

#include <cstdint>

namespace lathe {

// `count` matrices, each of `lines` contiguous runs of `width` bytes. All distances are in bytes and >= 0.
// Not initialised: every request fills several.
struct Region {
  uintptr_t base;
  int64_t width;
  int64_t lines;
  int64_t pitch;  // between the starts of two lines
  int64_t count;
  int64_t stride;  // between the starts of two matrices
  int64_t bytes;   // from the first to one past the last; set by measure()
};

// One line, measured.
inline Region line_at(const void* data, int64_t bytes) {
  return {reinterpret_cast<uintptr_t>(data), bytes, 1, 0, 1, 0, bytes};
}

// Sets r->bytes; false when that overflows int64. The functions below need a measured region.
inline bool measure(Region* r) {
  r->bytes = 0;
  if (r->width == 0 || r->lines == 0 || r->count == 0) return true;
  int64_t lines = 0, matrices = 0, starts = 0;
  return !__builtin_mul_overflow(r->lines - 1, r->pitch, &lines) &&
         !__builtin_mul_overflow(r->count - 1, r->stride, &matrices) &&
         !__builtin_add_overflow(lines, matrices, &starts) &&
         !__builtin_add_overflow(starts, r->width, &r->bytes);
}

// True when no two lines of `r` share a byte, which an output must hold. Legal forms: matrices one after the
// other (stride >= (lines - 1) * pitch + width) and matrices side by side in the lines of a larger one (pitch
// >= (count - 1) * stride + width, stride >= width).
bool disjoint_within(const Region& r);

// True when both are column slices of one buffer (equal pitch, every stride a multiple of it; of single lines
// the stride is the pitch) whose column ranges are apart. Other interleavings answer false, even where they
// happen not to overlap.
bool disjoint_columns(const Region& a, const Region& b);

// True when `a` and `b` are known not to share a byte.
inline bool known_disjoint(const Region& a, const Region& b) {
  if (a.base + static_cast<uintptr_t>(a.bytes) <= b.base) return true;
  if (b.base + static_cast<uintptr_t>(b.bytes) <= a.base) return true;
  return a.bytes == 0 || b.bytes == 0 || disjoint_columns(a, b);
}

}  // namespace lathe
