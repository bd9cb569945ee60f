#include "request/overlap.h"

#include <numeric>

namespace lathe {
namespace {

// The pitch of a buffer that both regions can be column slices of; 0 if there is none. Matrices with a single
// line count as lines whose pitch is the stride.
int64_t common_pitch(const Region& a, const Region& b) {
  if (a.lines > 1) return b.lines > 1 && b.pitch != a.pitch ? 0 : a.pitch;
  if (b.lines > 1) return b.pitch;
  return std::gcd(a.count > 1 ? a.stride : 0, b.count > 1 ? b.stride : 0);
}

}  // namespace

bool disjoint_within(const Region& r) {
  if (r.bytes == 0) return true;
  if (r.lines > 1 && r.pitch < r.width) return false;
  if (r.count == 1) return true;
  const bool stacked = r.stride >= (r.lines - 1) * r.pitch + r.width;
  const bool side_by_side = r.stride >= r.width && r.pitch >= (r.count - 1) * r.stride + r.width;
  return stacked || side_by_side;
}

bool disjoint_columns(const Region& a, const Region& b) {
  const int64_t pitch = common_pitch(a, b);
  if (pitch == 0) return false;
  if (a.count > 1 && a.stride % pitch != 0) return false;
  if (b.count > 1 && b.stride % pitch != 0) return false;
  // `up` is the distance from a's first column to b's, modulo the pitch. b must start after a's end and end
  // before a's next line starts.
  const auto p = static_cast<uintptr_t>(pitch);
  const uintptr_t up = (b.base % p + p - a.base % p) % p;
  return up >= static_cast<uintptr_t>(a.width) && up + static_cast<uintptr_t>(b.width) <= p;
}

}  // namespace lathe
