#include "dispatch/divide_groups.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "dispatch/dispatch.h"

namespace lathe {
namespace {

constexpr int64_t kTileRows = 16;
// A group is divided only if the time predicted for its two products is below this share of the time of one.
// Predictions are not exact.
constexpr double kGain = 0.95;

// The last passes of "bytes" kernels have few rows, those of the others kTileRows.
int64_t rows_of_last_pass(const CompileConfig& config) {
  const auto* bytes = config.find<BytesConfig>();
  return bytes != nullptr && bytes->narrowest_rows > 0 ? bytes->narrowest_rows : kTileRows;
}

// Looks up each class once.
class Predictions {
 public:
  Predictions(lathe_device& device, const Request& product) : device_(device), product_(product) {}

  // The seconds of a product of `rows` rows; 0: unknown.
  absl::StatusOr<double> of(int64_t rows) {
    LATHE_ASSIGN_OR_RETURN(const OfBucket known, of_bucket(m_bucket(rows)));
    if (rows <= kTileRows) return known.seconds;
    // The time of a bucket is that of its largest M.
    const int64_t computed = (rows + known.last_rows - 1) / known.last_rows * known.last_rows;
    return known.seconds * static_cast<double>(computed) / static_cast<double>(m_bucket(rows).hi);
  }

 private:
  struct OfBucket {
    int64_t lo;
    double seconds;
    int64_t last_rows;
  };
  absl::StatusOr<OfBucket> of_bucket(const Bucket& bucket) {
    for (const OfBucket& known : known_)
      if (known.lo == bucket.lo) return known;
    product_.dims.m = bucket.lo;
    product_.key.problem.m_lo = bucket.lo;
    product_.key.problem.m_hi = bucket.hi;
    const DispatchEntry* entry = device_.table.find(product_.key);
    if (entry == nullptr) {
      LATHE_ASSIGN_OR_RETURN(entry, find_or_prepare(device_, product_, Purpose::kRun));
    }
    const bool is_known = entry->key.problem.generic == 0 && bucket.hi < Bucket::kOpenEnd;
    known_.push_back(
        {bucket.lo, is_known ? entry->plan.predicted_seconds : 0, rows_of_last_pass(entry->plan.config)});
    return known_.back();
  }

  lathe_device& device_;
  Request product_;
  absl::InlinedVector<OfBucket, 24> known_;
};

absl::StatusOr<bool> is_divided(int64_t rows, Predictions* predictions) {
  const int64_t last = rows % kTileRows;
  if (rows < kTileRows || last == 0) return false;
  LATHE_ASSIGN_OR_RETURN(const double whole, predictions->of(rows));
  if (whole == 0) return false;
  LATHE_ASSIGN_OR_RETURN(const double first_part, predictions->of(rows - last));
  LATHE_ASSIGN_OR_RETURN(const double last_part, predictions->of(last));
  return first_part > 0 && last_part > 0 && first_part + last_part < kGain * whole;
}

}  // namespace

absl::Status divide_groups(lathe_device& device, const Request& product, Routing* routing) {
  Predictions predictions(device, product);
  // The array has room for two groups per group. The groups move to its second half and are written back from its
  // start, so that a write never reaches a group that is still to be read.
  RoutedGroup* const from = routing->groups + routing->count;
  std::copy_n(routing->groups, routing->count, from);
  RoutedGroup* to = routing->groups;
  for (int64_t i = 0; i < routing->count; ++i) {
    const RoutedGroup group = from[i];
    LATHE_ASSIGN_OR_RETURN(const bool divided, is_divided(group.count, &predictions));
    const auto last = static_cast<int32_t>(divided ? group.count % kTileRows : 0);
    const int32_t first = group.count - last;
    *to++ = {group.group, first, group.first};
    if (divided) *to++ = {group.group, last, group.first + first};
  }
  routing->count = to - routing->groups;
  return absl::OkStatus();
}

}  // namespace lathe
