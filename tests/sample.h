// The seed of a test program's random numbers, and the sampling of long sweeps. LATHE_TEST_SAMPLE=N runs one case in N,
// drawn at random; without it every case runs. ./dev test samples, ./dev campaign runs everything.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace lathe {

// N of LATHE_TEST_SAMPLE; 1 if it is not set.
inline uint64_t sample_divisor() {
  static const uint64_t divisor = [] {
    const char* text = std::getenv("LATHE_TEST_SAMPLE");
    const uint64_t value = text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
    return value > 0 ? value : 1;
  }();
  return divisor;
}

// LATHE_TEST_SEED, or a fresh seed; printed, so that a run can be repeated.
inline uint64_t sample_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("LATHE_TEST_SEED");
    const uint64_t value =
        text != nullptr && *text != 0 ? std::strtoull(text, nullptr, 0) : std::random_device{}();
    std::printf("seed %llu (repeat with LATHE_TEST_SEED), LATHE_TEST_SAMPLE=%llu\n",
                static_cast<unsigned long long>(value), static_cast<unsigned long long>(sample_divisor()));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

// The seed of the running test: drawn from the run's seed and the test's name, so that no two tests draw the same.
inline uint64_t seed_of_test(uint64_t run_seed) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return run_seed;
  uint64_t hash = run_seed ^ 0xcbf29ce484222325u;  // FNV-1a
  for (const char* name : {test->test_suite_name(), test->name()})
    for (; *name != 0; ++name) hash = (hash ^ static_cast<uint8_t>(*name)) * 0x100000001b3u;
  return (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
}

// Whether the case of that number belongs to the sample drawn with `seed`.
inline bool is_in_sample(uint64_t seed, uint64_t number) {
  uint64_t hash = (seed + number) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 31) * 0xbf58476d1ce4e5b9u;
  return (hash >> 32) % sample_divisor() == 0;
}

}  // namespace lathe
