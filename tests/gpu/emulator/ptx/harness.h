// Builds small PTX programs and runs them, for the tests of the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
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

// One kernel "k" with its memory. Its parameters are 64-bit pointers p0, p1, ..., then the tensor maps. Set them in
// this order with buffer(), pointer(), map() and raw().
class Program {
 public:
  // `body` is the text between the braces. The registers %r, %rd, %f, %h and %p are declared (200 of each);
  // %rd0, %rd1, ... hold the pointers and %rd100, %rd101, ... the generic addresses of the maps.
  Program(int pointers, const std::string& body, const std::string& directives = "",
          const std::string& globals = "", int maps = 0);
  // Takes the text of a whole module and runs its first kernel.
  explicit Program(const std::string& text);

  const absl::Status& parse_status() const { return parse_status_; }

  // Passes the vector as the next pointer parameter. It must outlive the program and must not reallocate.
  template <typename T>
  void buffer(std::vector<T>& values, const char* name = "buffer") {
    pointer(reinterpret_cast<uint64_t>(values.data()));
    memory_.add(reinterpret_cast<uint64_t>(values.data()), values.size() * sizeof(T), name);
  }
  void pointer(uint64_t address) { raw(&address, 8, 8); }
  // Passes the next tensor map. The tensor's memory must be a buffer already.
  void map(const TensorMap& tensor);
  void raw(const void* bytes, size_t size, size_t align);

  absl::Status run(std::array<uint32_t, 3> grid = {1, 1, 1}, std::array<uint32_t, 3> block = {32, 1, 1});
  // Runs under every policy and several seeds. Stops at the first failure and names the policy and seed.
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
  // Counts the runs, over all policies and seeds, that fail or whose result `good` rejects.
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

// The random numbers of the running test. The seed is printed; set LATHE_TEST_SEED to repeat a run.
std::mt19937_64& test_random();
// A random integer in [low, high].
inline int random_int(int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(test_random());
}
// A random multiple of 1/8 in [-2, 2], which is exact in every format except the 8-bit ones.
inline float random_eighth() { return static_cast<float>(random_int(-16, 16)) / 8; }

// The value of an element with these bits, by the definition of its format.
inline double value_f16(uint32_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}
inline double value_f32(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline double value_bf16(uint32_t h) { return value_f32(h << 16); }
inline double value_tf32(uint32_t bits) { return value_f32(bits & ~0x1fffu); }  // the low bits are ignored
inline double value_e4m3(uint32_t b) {
  const int exponent = b >> 3 & 15, mantissa = b & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(mantissa + 8, exponent - 10);
  return b & 128 ? -magnitude : magnitude;
}
inline double value_e5m2(uint32_t b) {
  const int exponent = b >> 2 & 31, mantissa = b & 3;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -16) : std::ldexp(mantissa + 4, exponent - 17);
  return b & 128 ? -magnitude : magnitude;
}

}  // namespace lathe::ptx
