// The body of a lathe_device: its facts, driver, loaded kernels and dispatch table; how it is opened; its
// fingerprint.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/json.h"
#include "dispatch/context.h"
#include "dispatch/dispatch_table.h"
#include "dispatch/loaded_kernels.h"
#include "request/request.h"
#include "runtime/driver.h"

struct lathe_device {
  // `device_driver` null: the device is only described by its facts; it plans and compiles but cannot run.
  lathe_device(lathe_context& owner, std::string device_name, lathe::DeviceFacts device_facts,
               std::unique_ptr<lathe::Driver> device_driver);
  ~lathe_device();

  // The assemblers that the compiler may use for this device's PTX. Null if it must leave PTX as it is, because
  // the device has a driver, which assembles PTX itself.
  const lathe::AssemblerSearch* assembler() const {
    return driver == nullptr && context.options.assembler ? &*context.options.assembler : nullptr;
  }

  lathe::RequestContext request_context() const {
    return {name, is_cpu, context.misses.policy(), dependent_launch, /*is_described=*/driver == nullptr};
  }

  const uint64_t serial;  // unique in the process, also among closed devices
  lathe_context& context;
  const std::string name;
  const lathe::DeviceFacts facts;
  const bool is_cpu;
  const bool dependent_launch;  // a kernel may start before the one ahead of it has ended
  const std::unique_ptr<lathe::Driver> driver;
  const int32_t workers;         // the number that the oracle plans for
  lathe::LoadedKernels kernels;  // declared after the driver: kernels unload before the driver closes
  lathe::DispatchTable table;
  lathe::DispatchTable generic;  // generic kernels (LATHE_MISS_FALLBACK), by their generic class
};

namespace lathe {

// Opens the device `name` ("cpu", "cuda:0") with its driver.
absl::StatusOr<std::unique_ptr<lathe_device>> open_device(lathe_context& context, const std::string& name);
// A device that is only described by a facts file. `target` "": the target of the file; another one is allowed
// if its backend is the same. kInvalidArgument: the file, the target or the named ptxas cannot be used.
absl::StatusOr<std::unique_ptr<lathe_device>> describe_device(lathe_context& context,
                                                              const std::string& facts_path,
                                                              absl::string_view target);

// The facts in the file, for `target` ("": the file's own). If the architectures differ, a warning is logged.
absl::StatusOr<DeviceFacts> described_facts(const std::string& path, absl::string_view target,
                                            const Logger& logger);

// kUnavailable if the device is only described.
absl::Status check_runnable(const lathe_device& device);

// Covers the values of the facts (not their sources), target, workers, codegen id, oracle id, library version
// and the context's tuning file, pipelines and ukernels.
uint64_t fingerprint_of(const lathe_device& device);
// The options with which the context opens drivers.
DriverOptions driver_options(const lathe_context& context);
// {fact: {"value", "source", "origin"}}
Json facts_with_origin(const std::map<std::string, Fact>& facts);
// The JSON of lathe_devices.
Json devices_json(const lathe_context& context);

}  // namespace lathe
