#include "dispatch/group_kernels.h"

#include <utility>

#include "dispatch/dispatch.h"

namespace lathe {

absl::StatusOr<GroupKernels::Known*> GroupKernels::known(int64_t rows, bool uneven) {
  request_.dims.m = rows;
  // The last part of a divided group can be a single row, which is never listed.
  const Rows listed = uneven && rows >= kFewestListedRows ? Rows::kIndexed : Rows::kPlain;
  request_.key.problem.rows = listed;
  for (Known& k : known_) {
    if (rows < k.bucket.lo || rows > k.bucket.hi || listed != k.listed) continue;
    request_.key.problem.m_lo = k.bucket.lo;
    request_.key.problem.m_hi = k.bucket.hi;
    return &k;
  }
  const Bucket bucket = m_bucket(rows);
  request_.key.problem.m_lo = bucket.lo;
  request_.key.problem.m_hi = bucket.hi;
  const DispatchEntry* entry = device_.table.find(request_.key);
  const bool missed = entry == nullptr;
  if (missed) {
    LATHE_ASSIGN_OR_RETURN(entry, find_or_prepare(device_, request_, Purpose::kRun));
  }
  return &known_.emplace_back(Known{bucket, listed, entry, missed});
}

absl::StatusOr<const DispatchEntry*> GroupKernels::find(int64_t rows, bool uneven) {
  LATHE_ASSIGN_OR_RETURN(const Known* found, known(rows, uneven));
  return found->entry;
}

absl::StatusOr<const DispatchEntry*> GroupKernels::use(int64_t rows, bool uneven) {
  LATHE_ASSIGN_OR_RETURN(Known* const found, known(rows, uneven));
  const bool counted = std::exchange(found->missed, false) || found->entry->key.problem.generic != 0;
  if (!counted) device_.context.counters.dispatch_hits.add();
  return found->entry;
}

}  // namespace lathe
