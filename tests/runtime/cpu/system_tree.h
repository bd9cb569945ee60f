// A fake machine: a folder with the files of /proc and /sys from which facts are read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cpu/cpu_system.h"

namespace lathe {

class SystemTree {
 public:
  explicit SystemTree(std::vector<int32_t> processors = {0}) {
    static std::atomic<int> count{0};
    system_.root =
        testing::TempDir() + "lathe_system_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    system_.processors = std::move(processors);
    std::filesystem::create_directories(system_.root);
  }
  SystemTree(const SystemTree&) = delete;
  ~SystemTree() { std::filesystem::remove_all(system_.root); }

  // `path` is the absolute path on the machine.
  SystemTree& write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = system_.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  const CpuSystem& system() const { return system_; }

 private:
  CpuSystem system_;
};

}  // namespace lathe
