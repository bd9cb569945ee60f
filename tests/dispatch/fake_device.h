// A context with a fake compiler, and a device whose fake driver notes launches instead of running them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dispatch/device.h"
#include "dispatch/externals.h"
#include "dispatch/prepare.h"
#include "runtime/cpu/host_memory.h"
#include "runtime/driver.h"

namespace lathe {

inline std::string fake_compiler(const std::string& way = "") {
  return std::string(LATHE_FAKE_COMPILER_DIR) + "/fake_compiler" + (way.empty() ? "" : "_" + way) + ".so";
}
inline std::string facts_file(const std::string& name) { return std::string(LATHE_FACTS_DIR) + "/" + name; }

class FakeKernel : public LoadedKernel {
 public:
  explicit FakeKernel(const Artifact& artifact) : LoadedKernel(artifact.recipe) {}
};

class FakeDriver : public Driver {
 public:
  explicit FakeDriver(DeviceFacts facts) : facts_(std::move(facts)) {}

  const DeviceFacts& facts() const override { return facts_; }
  int32_t workers() const override { return 2; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) override {
    ++loads;
    LATHE_RETURN_IF_ERROR(load_error);
    if (artifact.format == CodeFormat::kNone) LATHE_RETURN_IF_ERROR(external_load_error);
    if (artifact.code == refused_code) return refusal;
    return std::make_unique<FakeKernel>(artifact);
  }
  Artifact finish(Artifact artifact) override {
    ++finishes;
    if (finished_code.empty()) return artifact;
    artifact.code = finished_code;
    artifact.format = CodeFormat::kCubin;
    return artifact;
  }
  absl::StatusOr<bool> is_capturing(void* stream) override { return stream == captured_stream; }
  absl::Status reserve(size_t workspace_bytes, size_t counters) override {
    reserved_bytes = workspace_bytes;
    reserved_counters = counters;
    return absl::OkStatus();
  }
  absl::Status launch(const Launch& launch) override {
    launches.fetch_add(1, std::memory_order_relaxed);
    if (record) note(launch);
    if (is_external(*launch.kernel)) {
      ++external_launches;
      LATHE_RETURN_IF_ERROR(external_launch_error);
    }
    return launch_error;
  }
  CallerTasks caller_tasks(const LoadedKernel&, const LaunchConfig&, const Dims&) const override {
    return tasks_of_caller;
  }
  std::vector<ExternalFound> find_externals() override {
    ++searches;
    return {{ExternalId::kOpenBlas, "1", absent_openblas}};
  }
  absl::Status launch_slice(const Launch& launch, const Slice& slice) override {
    note(launch);
    slices.push_back(slice);
    return launch_error;
  }
  size_t workspace_bytes(const LoadedKernel&, const LaunchConfig& config, int32_t workers) const override {
    return config.workspace_bytes + config.scratch_bytes_per_worker * static_cast<size_t>(workers);
  }

  DeviceMemory& memory() override { return memory_; }

  std::atomic<int> loads{0}, launches{0}, finishes{0};
  CallerTasks tasks_of_caller;
  bool record = true;
  absl::Status load_error, launch_error, external_load_error, external_launch_error;
  std::string absent_openblas;
  std::atomic<int> searches{0}, external_launches{0};
  std::string refused_code = "none", finished_code;
  absl::Status refusal = absl::DataLossError("a cubin of another time");
  void* captured_stream = this;  // equal to no stream of a test
  size_t reserved_bytes = 0, reserved_counters = 0;
  Launch last;  // points to the two members below
  ArgumentBlock last_args;
  ProblemClass last_problem;
  std::vector<Slice> slices;

 private:
  void note(const Launch& launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_args = *launch.args;
    last = launch;
    last.args = &last_args;
    last_problem = *launch.problem;
    last.problem = &last_problem;
  }
  DeviceFacts facts_;
  HostMemory memory_;
  std::mutex mutex_;
};

struct FakeDevice {
  explicit FakeDevice(const std::string& compiler = fake_compiler(),
                      MissPolicy miss_policy = MissPolicy::kBlock,
                      const std::string& facts_name = "ryzen-7-5800u.json",
                      const std::string& fallback_bundle = "", size_t most_waiting = 1024,
                      ExternalChoice external = {}) {
    ContextOptions options;
    options.external = external;
    options.most_waiting = most_waiting;
    options.compiler_library = compiler;
    options.miss_policy = miss_policy;
    options.fallback_bundle = fallback_bundle;
    options.workers = 2;
    options.log_level = LogLevel::kDebug;
    options.log_sink = [this](LogLevel level, const std::string& message) {
      const std::lock_guard<std::mutex> lock(log_mutex);
      log.push_back(message);
      if (level <= LogLevel::kWarning) warnings_.push_back(message);
    };
    context = std::make_unique<lathe_context>(std::move(options));
    const absl::StatusOr<DeviceFacts> facts = load_facts(facts_file(facts_name));
    if (!facts.ok()) throw std::runtime_error(std::string(facts.status().message()));
    auto fake = std::make_unique<FakeDriver>(*facts);
    driver = fake.get();
    device = std::make_unique<lathe_device>(*context, "fake", *facts, std::move(fake));
    described = std::make_unique<lathe_device>(*context, "described", *facts, nullptr);
  }

  lathe_statistics statistics() const {
    lathe_statistics s = LATHE_STATISTICS_INIT;
    read_statistics(*context, &s);
    return s;
  }
  std::vector<std::string> warnings() {
    const std::lock_guard<std::mutex> lock(log_mutex);
    return warnings_;
  }

  std::mutex log_mutex;
  std::vector<std::string> log, warnings_;
  std::unique_ptr<lathe_context> context;
  FakeDriver* driver = nullptr;  // owned by `device`
  std::unique_ptr<lathe_device> device, described;
};

// An f32 matmul (M by K times K by N, B column-major) with buffers that it owns.
struct MatmulRequest {
  MatmulRequest(int64_t m, int64_t n, int64_t k)
      : a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)), d(static_cast<size_t>(m * n)) {
    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.a.data = a.data();
    desc.b.data = b.data();
    desc.d.data = d.data();
    desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR;
  }
  std::vector<float> a, b, d;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
};

struct ArgmaxRequest {
  ArgmaxRequest(int64_t rows, int64_t n)
      : x(static_cast<size_t>(rows * n)),
        indices(static_cast<size_t>(rows)),
        values(static_cast<size_t>(rows)) {
    desc.rows = rows;
    desc.n = n;
    desc.x.data = x.data();
    desc.x.dtype = LATHE_F32;
    desc.indices = indices.data();
  }
  std::vector<float> x;
  std::vector<int64_t> indices;
  std::vector<float> values;
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
};

}  // namespace lathe
