// Small PTX programs for tests of the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/ptx/launch.h"
#include "tests/gpu/emulator/ptx/tensor_map.h"

namespace lathe::ptx {

// One kernel "k" with its memory. Parameters are 64-bit pointers p0, p1, ... then whatever raw parameters
// add.
class Program {
 public:
  // `body` is what stands between the braces; registers %r, %rd, %f, %h, %p are declared (200 of each), %rd0,
  // %rd1, ... hold the pointers and %rd100, %rd101, ... the generic addresses of the maps.
  Program(int pointers, const std::string& body, const std::string& directives = "",
          const std::string& globals = "", int maps = 0);
  // A whole module, whose first kernel is meant.
  explicit Program(const std::string& text);

  const absl::Status& parse_status() const { return parse_status_; }

  // A buffer of the next pointer parameter, live for the program's life. The vector must not grow.
  template <typename T>
  void buffer(std::vector<T>& values, const char* name = "buffer") {
    pointer(reinterpret_cast<uint64_t>(values.data()));
    memory_.add(reinterpret_cast<uint64_t>(values.data()), values.size() * sizeof(T), name);
  }
  void pointer(uint64_t address) { raw(&address, 8, 8); }
  // The next map, of a tensor whose memory is a buffer already.
  void map(const TensorMap& tensor);
  void raw(const void* bytes, size_t size, size_t align);

  absl::Status run(std::array<uint32_t, 3> grid = {1, 1, 1}, std::array<uint32_t, 3> block = {32, 1, 1});
  // Under every policy and some seeds: the first that fails, named.
  template <typename Check>
  void run_all(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, Check check, uint64_t seeds = 4) {
    for (const AsyncPolicy policy : {AsyncPolicy::late, AsyncPolicy::early, AsyncPolicy::random}) {
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        options.async = policy;
        options.seed = seed;
        SCOPED_TRACE(absl::StrCat("policy ", static_cast<int>(policy), " seed ", seed));
        const absl::Status status = run(grid, block);
        ASSERT_TRUE(status.ok()) << status;
        check();
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  // How many of the policies and seeds end in a status or a result that `good` refuses.
  template <typename Good>
  int count_failures(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, Good good,
                     uint64_t seeds = 8) {
    int failures = 0;
    for (const AsyncPolicy policy : {AsyncPolicy::late, AsyncPolicy::early, AsyncPolicy::random}) {
      for (uint64_t seed = 0; seed < seeds; ++seed) {
        options.async = policy;
        options.seed = seed;
        failures += run(grid, block).ok() && good() ? 0 : 1;
      }
    }
    return failures;
  }

  LaunchOptions options;
  std::array<uint32_t, 3> cluster = {0, 0, 0};
  uint32_t dynamic_shared = 0;

 private:
  absl::Status parse_status_;
  std::unique_ptr<Module> module_;
  AddressMap memory_;
  std::vector<uint8_t> parameters_;
};

// Random numbers of a test, printed so that a failure can be repeated (LATHE_TEST_SEED).
std::mt19937_64& test_random();
// A whole number in [low, high].
inline int random_int(int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(test_random());
}
// A multiple of 1/8 in [-2, 2]: exact in every format but the 8-bit ones.
inline float random_eighth() { return static_cast<float>(random_int(-16, 16)) / 8; }

}  // namespace lathe::ptx
