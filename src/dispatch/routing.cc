#include "dispatch/routing.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

template <typename... Text>
absl::Status invalid(int64_t at, int32_t value, const Text&... cause) {
  return absl::InvalidArgumentError(absl::StrCat("routing[", at, "] is ", value, ", ", cause...));
}

// Appends the group, unless it has no slots.
void add(Routing* out, int64_t group, int64_t first, int64_t count) {
  if (count > 0)
    out->groups[out->count++] = {static_cast<int32_t>(group), static_cast<int32_t>(count), first};
}

absl::Status route_offsets(const GroupedRequest& r, Routing* out) {
  for (int64_t g = 0; g <= r.groups; ++g) {
    const int32_t end = r.routing[g];
    const int32_t begin = g == 0 ? 0 : r.routing[g - 1];
    if (end < begin) return invalid(g, end, "less than ", begin, g == 0 ? "" : " before it");
    if (end > r.m) return invalid(g, end, "but A has ", r.m, " rows");
    if (g > 0) add(out, g - 1, begin, end - begin);
  }
  return absl::OkStatus();
}

absl::Status route_counts(const GroupedRequest& r, Routing* out) {
  for (int64_t g = 0; g < r.groups; ++g) {
    const int32_t count = r.routing[g];
    if (count < 0 || count > r.m) return invalid(g, count, "not in [0, ", r.m, "]");
    add(out, g, g * r.m, count);
  }
  return absl::OkStatus();
}

// A counting sort of the slots by group.
absl::Status route_ids(const GroupedRequest& r, int32_t* next, int32_t* slot_of, Routing* out) {
  const int64_t used = r.grouping == LATHE_GROUPING_INDEXED ? r.used : 1;
  const int64_t stride = r.grouping == LATHE_GROUPING_INDEXED ? r.routing_stride : 1;
  std::fill_n(next, r.groups, 0);
  for (int64_t t = 0; t < r.m; ++t) {
    for (int64_t s = 0; s < used; ++s) {
      const int32_t id = r.routing[t * stride + s];
      if (id < -1 || id >= r.groups)
        return invalid(t * stride + s, id, "but there are ", r.groups, " groups; -1 means none");
      if (id >= 0) ++next[id];
    }
  }
  int32_t first = 0;
  for (int64_t g = 0; g < r.groups; ++g) {
    const int32_t count = next[g];
    add(out, g, first, count);
    next[g] = first;
    first += count;
  }
  for (int64_t t = 0; t < r.m; ++t) {
    for (int64_t s = 0; s < used; ++s) {
      const int32_t id = r.routing[t * stride + s];
      if (id >= 0) slot_of[next[id]++] = static_cast<int32_t>(t * used + s);
    }
  }
  return absl::OkStatus();
}

bool has_ids(const GroupedRequest& r) {
  return r.grouping == LATHE_GROUPING_ROW_IDS || r.grouping == LATHE_GROUPING_INDEXED;
}
// divide_groups() makes at most two of each.
size_t most_groups(const GroupedRequest& r) { return static_cast<size_t>(2 * std::min(r.groups, r.slots)); }

}  // namespace

size_t routing_bytes(const GroupedRequest& r) {
  const size_t ids = has_ids(r) ? static_cast<size_t>(r.groups + r.slots) * sizeof(int32_t) : 0;
  return most_groups(r) * sizeof(RoutedGroup) + ids;
}

absl::Status route(const GroupedRequest& r, char* memory, Routing* out) {
  *out = {reinterpret_cast<RoutedGroup*>(memory), 0, nullptr};
  if (!has_ids(r)) return r.grouping == LATHE_GROUPING_COUNTS ? route_counts(r, out) : route_offsets(r, out);
  auto* const next = reinterpret_cast<int32_t*>(memory + most_groups(r) * sizeof(RoutedGroup));
  out->slot_of = next + r.groups;
  return route_ids(r, next, next + r.groups, out);
}

}  // namespace lathe
