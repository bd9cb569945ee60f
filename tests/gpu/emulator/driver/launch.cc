// Launches and their limits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/driver/state.h"

namespace lathe::emulator {
namespace {

int result_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kSuccess;
    case absl::StatusCode::kInvalidArgument: return kInvalidValue;
    case absl::StatusCode::kOutOfRange: return kIllegalAddress;
    case absl::StatusCode::kFailedPrecondition: return kMisalignedAddress;
    case absl::StatusCode::kDeadlineExceeded: return kLaunchTimeout;
    default: return kLaunchFailed;
  }
}

void record(State& state, const LaunchRequest& request, uint64_t instructions, int result) {
  EmuLaunch launch = {};
  std::snprintf(launch.kernel, sizeof launch.kernel, "%s", request.function->kernel->name.c_str());
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = request.config.grid[static_cast<size_t>(i)];
    launch.block[i] = request.config.block[static_cast<size_t>(i)];
    launch.cluster[i] = request.config.cluster[static_cast<size_t>(i)];
  }
  launch.dynamic_shared = request.config.dynamic_shared;
  launch.device = request.context->device;
  launch.programmatic = request.programmatic;
  launch.stream = request.stream;
  launch.instructions = instructions;
  launch.result = result;
  state.launch_parameters.push_back(std::make_unique<std::vector<uint8_t>>(request.parameters));
  launch.parameters = state.launch_parameters.back()->data();
  launch.parameter_bytes = request.parameters.size();
  state.launches.push_back(launch);
}

// The errors that the launch call itself returns, before anything runs.
int check_launch(const State& state, const LaunchRequest& request) {
  const Function& function = *request.function;
  const auto& c = request.config;
  if (c.dynamic_shared > static_cast<uint32_t>(function.dynamic_shared_limit)) {
    std::fprintf(
        stderr,
        "cuda emulator: launch of %s: %u bytes of dynamic shared memory requested, but %d are allowed\n",
        function.kernel->name.c_str(), c.dynamic_shared, function.dynamic_shared_limit);
    return kInvalidValue;
  }
  const uint32_t cluster =
      std::max(1u, c.cluster[0]) * std::max(1u, c.cluster[1]) * std::max(1u, c.cluster[2]);
  if (cluster > 1 && state.options.major < 9) return kInvalidValue;
  if (cluster > (function.non_portable_cluster ? 16u : 8u)) return kInvalidClusterSize;
  const ptx::Kernel& kernel = *function.kernel;
  const uint64_t threads = uint64_t{c.block[0]} * c.block[1] * c.block[2];
  const auto& bound = kernel.max_block;
  if (bound[0] != 0 && threads > uint64_t{bound[0]} * bound[1] * bound[2]) return kLaunchOutOfResources;
  return kSuccess;
}

const Planted* planted_for(const State& state, const LaunchRequest& request) {
  for (const Planted& p : state.options.planted)
    if (absl::StrContains(request.function->kernel->name, p.kernel)) return &p;
  return nullptr;
}

}  // namespace

int run_launch(State& state, const LaunchRequest& request) {
  Context& context = *request.context;
  if (context.error != kSuccess) return context.error;
  if (const Planted* planted = planted_for(state, request)) {
    while (planted->kind == Planted::kHang) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (planted->kind == Planted::kFault) context.error = kIllegalAddress;
    return kSuccess;  // a planted wrong kernel writes nothing
  }
  static uint64_t launches = 0;
  ptx::LaunchOptions options = state.options.launch;
  options.seed = options.seed * 1000003 + launches++;
  ptx::LaunchConfig config = request.config;
  config.parameters = request.parameters;
  ptx::LaunchCounts counts;
  const absl::Status status =
      ptx::launch(*request.function->module->code, *request.function->kernel, config,
                  state.devices[static_cast<size_t>(context.device)].memory, options, &counts);
  const int result = result_of(status);
  if (state.recording) record(state, request, counts.instructions, result);
  if (result == kSuccess) return kSuccess;
  state.last_fault = absl::StrCat(status.message(), " (seed ", options.seed, ")");
  std::fprintf(stderr, "cuda emulator: %s: %s\n", result_name(result), state.last_fault.c_str());
  if (result == kInvalidValue) return result;
  context.error = result;  // as on a device: this launch is accepted, and every later call fails
  return kSuccess;
}

namespace {

// Collects the parameters from either form of the call.
int take_parameters(const ptx::Kernel& kernel, void** parameters, void** extra, std::vector<uint8_t>* bytes) {
  bytes->assign(kernel.parameter_bytes, 0);
  if (parameters != nullptr && extra != nullptr) return kInvalidValue;
  if (parameters != nullptr) {
    for (size_t i = 0; i < kernel.parameters.size(); ++i) {
      std::memcpy(bytes->data() + kernel.parameters[i].offset, parameters[i], kernel.parameters[i].size);
    }
    return kSuccess;
  }
  if (extra == nullptr) return kernel.parameters.empty() ? kSuccess : kInvalidValue;
  const void* buffer = nullptr;
  size_t size = 0;
  for (; *extra != nullptr; extra += 2) {
    const uintptr_t key = reinterpret_cast<uintptr_t>(extra[0]);
    if (key == 1)
      buffer = extra[1];
    else if (key == 2)
      size = *static_cast<const size_t*>(extra[1]);
    else
      return kInvalidValue;
  }
  if (buffer == nullptr || size < kernel.parameter_bytes) return kInvalidValue;
  bytes->assign(static_cast<const uint8_t*>(buffer), static_cast<const uint8_t*>(buffer) + size);
  return kSuccess;
}

int launch(Call& call, const LaunchConfiguration& from, Function* function, void** parameters, void** extra) {
  State& state = call.state();
  if (function == nullptr) return kInvalidHandle;
  if (function->module->context != call.context()) return kInvalidHandle;
  Stream* stream = state.stream(from.stream);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->context != call.context()) return kInvalidHandle;
  LaunchRequest request;
  request.function = function;
  request.context = call.context();
  request.stream = from.stream;
  for (size_t i = 0; i < 3; ++i) {
    request.config.grid[i] = from.grid[i];
    request.config.block[i] = from.block[i];
  }
  request.config.dynamic_shared = from.shared_bytes;
  for (unsigned n = 0; n < from.attribute_count; ++n) {
    const LaunchAttribute& attribute = from.attributes[n];
    switch (attribute.id) {
      case kAttributeIgnore:
      case kAttributePriority: break;
      case kAttributeClusterDimension:
        for (size_t i = 0; i < 3; ++i) request.config.cluster[i] = attribute.cluster[i];
        if (attribute.cluster[0] == 0 || attribute.cluster[1] == 0 || attribute.cluster[2] == 0)
          return kInvalidValue;
        break;
      case kAttributeProgrammaticStreamSerialization: request.programmatic = attribute.value != 0; break;
      default: return kInvalidValue;
    }
  }
  if (const int result = take_parameters(*function->kernel, parameters, extra, &request.parameters);
      result != kSuccess)
    return result;
  if (const int result = check_launch(state, request); result != kSuccess) return result;
  return state.enqueue(stream, [&state, request] { return run_launch(state, request); });
}

}  // namespace
}  // namespace lathe::emulator

using namespace lathe::emulator;

EMU_API cuLaunchKernelEx(const LaunchConfiguration* config, Function* function, void** parameters,
                         void** extra) {
  EMU_CALL("cuLaunchKernelEx", kContext);
  if (config == nullptr || (config->attribute_count != 0 && config->attributes == nullptr))
    return kInvalidValue;
  return launch(call, *config, function, parameters, extra);
}

EMU_API cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void* stream, void** parameters, void** extra) {
  EMU_CALL("cuLaunchKernel", kContext);
  const LaunchConfiguration config = {
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  return launch(call, config, function, parameters, extra);
}

EMU_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int block_size,
                                                    size_t dynamic_shared) {
  EMU_CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", kContext);
  if (blocks == nullptr || block_size <= 0) return kInvalidValue;
  if (function == nullptr) return kInvalidHandle;
  int threads = 0, shared = 0, reserved = 0;
  const int device = call.context()->device;
  cuDeviceGetAttribute(&threads, kThreadsOfMultiprocessor, device);
  cuDeviceGetAttribute(&shared, kSharedOfMultiprocessor, device);
  cuDeviceGetAttribute(&reserved, kReservedShared, device);
  const int used =
      static_cast<int>(function->kernel->static_shared - lathe::ptx::kSharedBase + dynamic_shared) + reserved;
  *blocks = std::min({32, threads / block_size, shared / std::max(used, 1)});
  return kSuccess;
}

EMU_API cuOccupancyMaxActiveClusters(int* clusters, Function* function, const LaunchConfiguration* config) {
  EMU_CALL("cuOccupancyMaxActiveClusters", kContext);
  if (clusters == nullptr || config == nullptr) return kInvalidValue;
  uint32_t size = 1;
  for (unsigned n = 0; n < config->attribute_count; ++n) {
    const LaunchAttribute& attribute = config->attributes[n];
    if (attribute.id == kAttributeClusterDimension)
      size = attribute.cluster[0] * attribute.cluster[1] * attribute.cluster[2];
  }
  if (size == 0) return kInvalidValue;
  int blocks = 0, multiprocessors = 0;
  const int threads = static_cast<int>(config->block[0] * config->block[1] * config->block[2]);
  if (const int result =
          cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, config->shared_bytes);
      result != kSuccess)
    return result;
  cuDeviceGetAttribute(&multiprocessors, kMultiprocessors, call.context()->device);
  *clusters = blocks * multiprocessors / static_cast<int>(size);
  return kSuccess;
}
