#include "dispatch/externals.h"

#include <algorithm>

#include "dispatch/device.h"
#include "kernels/candidates_external.h"

namespace lathe {

std::vector<ExternalFound> find_externals(const lathe_device& device) {
  if (device.driver != nullptr) return device.driver->find_externals();
  std::vector<ExternalFound> all;
  for (const ExternalRow& row : external_rows()) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const ExternalFound& f) { return f.id == row.id; });
    if (row.backend == device.facts.target.backend && !known)
      all.push_back({row.id, "assumed for a described device", ""});
  }
  return all;
}

ExternalChoice external_choice(const lathe_device& device, const DispatchKey& key) {
  if (key.external == ExternalUse::kDefault) return device.context.options.external;
  return {key.external, key.external_which};
}

ExternalPolicy external_policy(const lathe_device& device, const DispatchKey& key) {
  ExternalPolicy policy;
  policy.choice = external_choice(device, key);
  policy.threads = device.driver != nullptr ? device.driver->external_threads() : device.workers;
  if (policy.choice.use != ExternalUse::kOff) policy.found = find_externals(device);
  return policy;
}

bool is_external(const LoadedKernel& kernel) {
  const std::vector<Step>& steps = kernel.recipe().steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& s) { return s.kind == StepKind::kHostExtern; });
}

std::optional<DispatchKey> without_external(const lathe_device& device, const DispatchKey& key) {
  if (external_choice(device, key).use == ExternalUse::kRequire || key.candidate != 0) return std::nullopt;
  DispatchKey own = key;
  own.external = ExternalUse::kOff;
  own.external_which = ExternalId::kAny;
  return own;
}

}  // namespace lathe
