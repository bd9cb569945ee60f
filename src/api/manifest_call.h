// What the functions lathe_manifest_add_* share.
#pragma once

#include "absl/strings/str_cat.h"
#include "dispatch/warm.h"
#include "request/request.h"

namespace lathe {

// A manifest serves any device. So a request for it keeps the fields that some devices ignore, and K = 0.
inline constexpr RequestContext kAnyDevice = {"any device", /*is_cpu=*/true, MissPolicy::kBlock, true};

// Adds every class of the weight for M up to `m_max`; kMaxDim if the op's rows are open. `name` may be null.
inline absl::Status add_weight(absl::string_view call, const Request& weight, int64_t m_max, const char* name,
                               Manifest* manifest, const GroupedSizes& grouped = {}) {
  if (m_max < 1 || m_max > kMaxDim) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": ", describe(weight), ": m_max ", m_max, " is not in [1, ", kMaxDim, "]"));
  }
  if (multiplies(weight.key.problem.op) && weight.dims.n == 0) return absl::OkStatus();
  ManifestEntry entry = entry_of(weight, m_max, name == nullptr ? "" : name);
  entry.grouped = grouped;
  LATHE_RETURN_IF_ERROR(check_class(entry.problem));
  manifest->add(entry);
  return absl::OkStatus();
}

}  // namespace lathe
