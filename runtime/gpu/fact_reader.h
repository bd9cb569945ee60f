// Collects the facts of a GPU from the attributes of its driver.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

class FactReader {
 public:
  FactReader(const Library& library, Device device) : library_(library), device_(device) {}

  // Returns 0 if the driver does not know the attribute. The numbers differ between CUDA and HIP.
  int attribute(int which) const {
    int value = 0;
    const int result = library_.call().device_attribute(&value, which, device_);
    return result == kSuccess && value > 0 ? value : 0;
  }
  // A value of 0 or less is left out.
  void add(const char* name, double value, std::string source) {
    if (value > 0) facts.facts[name] = {value, std::move(source)};
  }
  void add_attribute(const char* name, int which, const char* source, double unit = 1) {
    add(name, attribute(which) * unit, source);
  }
  // A rate that is proportional to the number of compute units and their clock, which were added before.
  void add_rate(const char* name, double operations_of_unit, const std::string& factor, const char* source) {
    add(name, facts.fact_or("compute_units", 0) * facts.fact_or("clock_hz", 0) * operations_of_unit,
        absl::StrCat("compute_units * clock_hz * ", factor, "; ", source));
  }

  DeviceFacts facts;

 private:
  const Library& library_;
  const Device device_;
};

}  // namespace lathe::gpu
