// External libraries (oneDNN, OpenBLAS, cuBLASLt, hipBLASLt) on a device: which ones a request may use.
#pragma once

#include <optional>
#include <vector>

#include "core/external.h"
#include "request/dispatch_key.h"
#include "runtime/driver.h"

struct lathe_device;

namespace lathe {

// The choice of the request; if it makes none, that of its context.
ExternalChoice external_choice(const lathe_device& device, const DispatchKey& key);
// What the oracle needs to know about them. If the choice is kOff, no library is opened.
ExternalPolicy external_policy(const lathe_device& device, const DispatchKey& key);
// The libraries of the device's backend; opens them if they are not open yet. A described device counts as
// having all of them.
std::vector<ExternalFound> find_externals(const lathe_device& device);
// Whether the kernel calls an external library.
bool is_external(const LoadedKernel& kernel);
// The same request without external libraries. Nullopt if the request requires one.
std::optional<DispatchKey> without_external(const lathe_device& device, const DispatchKey& key);

}  // namespace lathe
