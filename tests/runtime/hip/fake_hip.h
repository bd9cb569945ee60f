// A fixture for tests of the HIP backend with the fake driver: eight MI300X.
#pragma once

#include "fake_gpu.h"
#include "runtime/hip/hip_driver.h"

namespace lathe {

class FakeHip : public FakeGpu {
 protected:
  explicit FakeHip(const char* library = LATHE_FAKE_HIP) : FakeGpu(hip_platform(), library) {
    // By the numbers of hipDeviceAttribute_t: clock, L2, threads per block, memory width and clock, LDS. The
    // values are those that rocminfo prints for an MI300X.
    state_->attributes = {{5, 2100000}, {19, 4 << 20}, {56, 1024}, {59, 8192}, {60, 1300000}, {74, 65536}};
    state_->version = 60240092;
    set_isa("gfx942:sramecc+:xnack-");
  }
  void set_isa(const std::string& isa, unsigned units = 304) {
    state_->agents.clear();
    for (unsigned i = 0; i < 8; ++i) {
      fake_driver::HsaAgent agent;
      agent.bdf = (0x10 + i) << 8;
      agent.units = units;
      agent.isas = {"amdgcn-amd-amdhsa--" + isa, "amdgcn-amd-amdhsa--gfx9-4-generic:sramecc+:xnack-"};
      state_->agents.push_back(agent);
    }
  }
  int current_device() {
    int device = -1;
    call<int(int*)>("hipGetDevice")(&device);
    return device;
  }
  void set_device(int device) { call<int(int)>("hipSetDevice")(device); }

  static Artifact hsaco_of(std::vector<Step> steps, const std::string& isa = "gfx942:sramecc+:xnack-") {
    Artifact artifact = artifact_of(std::move(steps));
    artifact.format = CodeFormat::kHsaco;
    artifact.code.replace(0, artifact.code.find('\n'), "hsaco " + isa);
    return artifact;
  }
};

}  // namespace lathe
