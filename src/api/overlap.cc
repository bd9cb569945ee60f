#include "api/overlap.h"

namespace lathe {

bool disjoint_within(const Region& r) {
  if (r.bytes == 0) return true;
  if (r.lines > 1 && r.pitch < r.width) return false;
  if (r.count == 1) return true;
  const bool stacked = r.stride >= (r.lines - 1) * r.pitch + r.width;
  const bool side_by_side = r.stride >= r.width && r.pitch >= (r.count - 1) * r.stride + r.width;
  return stacked || side_by_side;
}

bool disjoint_columns(const Region& a, const Region& b) {
  // A single line lies in a buffer of any pitch.
  const int64_t pitch = a.lines > 1 ? a.pitch : b.pitch;
  if (pitch == 0 || (b.lines > 1 && b.pitch != pitch)) return false;
  if (a.count > 1 && a.stride % pitch != 0) return false;
  if (b.count > 1 && b.stride % pitch != 0) return false;
  // Distance from a's first column up to b's, wrapping at the pitch: b must start after a's end and end
  // before a's next line starts.
  const auto p = static_cast<uintptr_t>(pitch);
  const uintptr_t up = (b.base % p + p - a.base % p) % p;
  return up >= static_cast<uintptr_t>(a.width) && up + static_cast<uintptr_t>(b.width) <= p;
}

}  // namespace lathe
