// A fixture for tests of runtime/gpu with the fake drivers (drivers/fake_driver.h).
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "../drivers/fake_driver.h"
#include "runtime/cuda/cuda_driver.h"
#include "runtime/gpu/driver.h"

namespace lathe {

inline std::string message(const absl::Status& status) { return std::string(status.message()); }

// A fresh fake driver for each test, and the drivers opened on it.
class FakeGpu : public ::testing::Test {
 protected:
  explicit FakeGpu(const char* library = LATHE_FAKE_CUDA) : FakeGpu(cuda_platform(), library) {
    // An H100's attributes, by their numbers in the CUDA Driver API's reference.
    state_->attributes = {{1, 1024},      {13, 1980000}, {16, 132},   {36, 2619000}, {37, 5120},
                          {38, 52428800}, {39, 2048},    {82, 65536}, {97, 232448}};
  }
  FakeGpu(const gpu::Platform& platform, const char* library) : platform_(platform) {
    platform_.libraries = {library};
    handle_ = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    state_ = call<fake_driver::State*()>("fake_driver_reset")();
  }

  template <typename F>
  F* call(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }
  fake_driver::Context* make_context(int device) {
    return call<fake_driver::Context*(int)>("fake_driver_make_context")(device);
  }
  std::vector<fake_driver::Context*>& context_stack() {
    return *call<std::vector<fake_driver::Context*>*()>("fake_driver_context_stack")();
  }
  int capture_mode() { return call<int()>("fake_driver_capture_mode")(); }
  fake_driver::Stream* make_stream(fake_driver::Context* context) {
    auto* stream = new fake_driver::Stream{context};
    state_->streams.insert(stream);
    return stream;
  }
  fake_driver::Context* primary(int device) { return state_->primary[device]; }

  std::unique_ptr<Driver> open(int device = 0, const DriverOptions& options = {}) {
    auto driver = gpu::open(platform_, platform_.prefix + (":" + std::to_string(device)), options);
    if (!driver.ok()) throw std::runtime_error(message(driver.status()));
    return *std::move(driver);
  }

  gpu::Platform platform_;
  void* handle_ = nullptr;
  fake_driver::State* state_ = nullptr;
};

// An artifact with a fake code image for these steps.
inline Artifact artifact_of(std::vector<Step> steps, CodeFormat format = CodeFormat::kCubin) {
  Artifact artifact;
  artifact.format = format;
  artifact.code = format == CodeFormat::kPtx ? "ptx\n" : "cubin\n";
  for (const Step& step : steps)
    artifact.code += "kernel " + step.symbol +
                     " threads=1024 shared=0 maps=" + std::to_string(step.tensor_maps.size()) + "\n";
  artifact.metadata = "{}";
  artifact.recipe.steps = std::move(steps);
  return artifact;
}
inline Step step_of(const std::string& symbol) {
  Step step;
  step.kind = StepKind::kGpuKernel;
  step.symbol = symbol;
  step.grid = {product(1, {{Var::kM, 1}}), constant(1), product(1, {{Var::kBatch, 1}, {Var::kSplits, 1}})};
  step.block = {128, 1, 1};
  return step;
}

// A launch with made-up addresses, which nothing dereferences.
struct TestLaunch {
  explicit TestLaunch(const LoadedKernel& kernel, int64_t m = 3) {
    problem.a = problem.b = problem.d = DType::kF16;
    args.a = at(1);
    args.b = at(2);
    args.d = at(4);
    args.lda = args.ldb = 64;
    args.ldd = 32;
    args.stride_a = 1000;
    args.stride_b = 2000;
    args.stride_d = 3000;
    launch.kernel = &kernel;
    launch.problem = &problem;
    launch.args = &args;
    resize(m, 32, 64, 1);
  }
  TestLaunch(const TestLaunch&) = delete;
  static void* at(uintptr_t place) { return reinterpret_cast<void*>(place << 40); }
  void resize(int64_t m, int64_t n, int64_t k, int64_t batch) {
    launch.dims = {m, n, k, batch};
    args.m = static_cast<int32_t>(m);
    args.n = static_cast<int32_t>(n);
    args.k = static_cast<int32_t>(k);
    args.batch = static_cast<int32_t>(batch);
  }
  ProblemClass problem;
  ArgumentBlock args;
  Launch launch;
};

inline std::unique_ptr<LoadedKernel> load(Driver& driver, const Artifact& artifact) {
  auto kernel = driver.load(artifact);
  if (!kernel.ok()) throw std::runtime_error(message(kernel.status()));
  return *std::move(kernel);
}

}  // namespace lathe
