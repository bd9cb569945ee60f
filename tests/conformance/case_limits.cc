#include "case_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "device.h"
#include "tests/sample.h"

namespace lathe::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// A positive number from the environment, else the largest int64_t.
int64_t limit(const char* name) {
  const char* text = std::getenv(name);
  const int64_t value = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return value > 0 ? value : std::numeric_limits<int64_t>::max();
}

bool is_set(int64_t limit) { return limit != std::numeric_limits<int64_t>::max(); }

int64_t largest() {
  static const int64_t value = limit("LATHE_TEST_LARGEST");
  return value;
}
int64_t seconds() {
  static const int64_t value = limit("LATHE_TEST_SECONDS");
  return value;
}
int64_t most_row_elements() { return is_set(largest()) ? largest() * largest() : largest(); }

// Cases that every test runs before it samples: the first ones are often the only ones of their kind.
constexpr int kBeforeSampling = 6;

std::atomic<int> run{0}, left_out{0};
std::atomic<bool> samples{true};
Clock::time_point start = Clock::now();  // written only while no other thread of a test runs

}  // namespace

int64_t capped(int64_t dimension) { return std::min(dimension, largest()); }

int64_t capped_columns(int64_t columns, int64_t rows) {
  return std::min(columns, most_row_elements() / rows);
}

bool is_over() { return is_set(seconds()) && Clock::now() - start > std::chrono::seconds(seconds()); }

bool leaves_out(std::initializer_list<int64_t> dimensions, int64_t row_elements) {
  const bool too_large = std::max(dimensions) > largest() || row_elements > most_row_elements();
  // The first case runs even if its preparation took all the time.
  const bool has_run = run.load() > 0;
  const bool is_sampled_out = samples.load() && run.load() >= kBeforeSampling &&
                              !is_in_sample(test_seed(), run.load() + left_out.load());
  const bool leaves = too_large || is_sampled_out || (has_run && is_over());
  (leaves ? left_out : run).fetch_add(1);
  return leaves;
}

std::string describe_limits() {
  std::string text;
  if (is_set(largest())) text += ", dimensions to " + std::to_string(largest());
  if (sample_divisor() > 1) text += ", one case in " + std::to_string(sample_divisor());
  if (is_set(seconds())) text += ", " + std::to_string(seconds()) + " s a test";
  return text;
}

void begin_cases() {
  run = left_out = 0;
  samples = true;
  start = Clock::now();
}

void run_every_case() { samples = false; }

CaseCount count_cases() { return {run.load(), left_out.load()}; }

}  // namespace lathe::conformance
