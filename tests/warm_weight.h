// Warms up one weight, with a manifest of one entry.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>

namespace lathe {

inline lathe_status add_to(lathe_manifest* manifest, const lathe_matmul_desc& desc, int64_t m_max) {
  return lathe_manifest_add_matmul(manifest, nullptr, &desc, m_max);
}
inline lathe_status add_to(lathe_manifest* manifest, const lathe_matmul_argmax_desc& desc, int64_t m_max) {
  return lathe_manifest_add_matmul_argmax(manifest, nullptr, &desc, m_max);
}
inline lathe_status add_to(lathe_manifest* manifest, const lathe_argmax_desc& desc, int64_t) {
  return lathe_manifest_add_argmax(manifest, nullptr, &desc);
}

// m_max has no effect on argmax.
template <typename Desc>
lathe_status warm_weight(lathe_device* device, const Desc& desc, int64_t m_max = 1,
                         lathe_warmup_report* report = nullptr) {
  lathe_manifest* manifest = nullptr;
  lathe_status status = lathe_manifest_create(&manifest);
  if (status == LATHE_OK) status = add_to(manifest, desc, m_max);
  if (status == LATHE_OK) status = lathe_warmup(device, manifest, nullptr, report);
  lathe_manifest_destroy(manifest);
  return status;
}

}  // namespace lathe
