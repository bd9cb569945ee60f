#include "dispatch/divide_groups.h"

#include <algorithm>

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

// The rows that the price of a bucket is for, with padding to `last` rows: "bytes" and AMX kernels are priced for the
// bucket's largest M, all others for its mean.
double priced_rows(const CompileConfig& config, const Bucket& bucket, int64_t last) {
  const bool for_largest = config.find<BytesConfig>() != nullptr ||
                           config.find<AmxBytesConfig>() != nullptr || config.find<AmxConfig>() != nullptr ||
                           config.find<AmxTConfig>() != nullptr;
  return for_largest ? static_cast<double>(bucket.hi)
                     : static_cast<double>(bucket.lo + bucket.hi + last - 1) / 2;
}

// The seconds of a product of `rows` rows; 0: unknown.
absl::StatusOr<double> predicted_seconds(int64_t rows, bool uneven, GroupKernels* kernels) {
  LATHE_ASSIGN_OR_RETURN(const DispatchEntry* entry, kernels->find(rows, uneven));
  const Bucket bucket = m_bucket(rows);
  if (entry->key.problem.generic != 0 || bucket.hi >= Bucket::kOpenEnd) return 0.0;
  const double seconds = entry->plan.predicted_seconds;
  if (rows <= kTileRows) return seconds;
  const int64_t last = rows_of_last_pass(entry->plan.config);
  return seconds * static_cast<double>(ceil_div(rows, last) * last) /
         priced_rows(entry->plan.config, bucket, last);
}

absl::StatusOr<bool> is_divided(int64_t rows, bool uneven, GroupKernels* kernels) {
  const int64_t last = rows % kTileRows;
  LATHE_ASSIGN_OR_RETURN(const double whole, predicted_seconds(rows, uneven, kernels));
  if (whole == 0) return false;
  LATHE_ASSIGN_OR_RETURN(const double first_part, predicted_seconds(rows - last, uneven, kernels));
  LATHE_ASSIGN_OR_RETURN(const double last_part, predicted_seconds(last, uneven, kernels));
  return first_part > 0 && last_part > 0 && first_part + last_part < kGain * whole;
}

}  // namespace

absl::Status divide_groups(GroupKernels* kernels, absl::FunctionRef<bool(const RoutedGroup&)> is_uneven,
                           Routing* routing) {
  // The array has room for two groups per group. The groups move to its second half and are written back from its
  // start, so that a write never reaches a group that is still to be read.
  RoutedGroup* const from = routing->groups + routing->count;
  std::copy_n(routing->groups, routing->count, from);
  RoutedGroup* to = routing->groups;
  for (int64_t i = 0; i < routing->count; ++i) {
    const RoutedGroup group = from[i];
    bool divided = false;
    if (group.count > kTileRows && group.count % kTileRows != 0) {
      LATHE_ASSIGN_OR_RETURN(divided, is_divided(group.count, is_uneven(group), kernels));
    }
    const auto last = static_cast<int32_t>(divided ? group.count % kTileRows : 0);
    const int32_t first = group.count - last;
    *to++ = {group.group, first, group.first};
    if (divided) *to++ = {group.group, last, group.first + first};
  }
  routing->count = to - routing->groups;
  return absl::OkStatus();
}

}  // namespace lathe
