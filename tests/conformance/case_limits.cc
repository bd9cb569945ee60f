#include "case_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>

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

std::atomic<int> run{0}, left_out{0};
Clock::time_point start = Clock::now();  // written only while no other thread of a test runs

}  // namespace

int64_t capped(int64_t dimension) { return std::min(dimension, largest()); }

int64_t capped_columns(int64_t columns, int64_t rows) {
  return std::min(columns, most_row_elements() / rows);
}

bool is_over() { return is_set(seconds()) && Clock::now() - start > std::chrono::seconds(seconds()); }

bool leaves_out(std::initializer_list<int64_t> dimensions, int64_t row_elements) {
  const bool too_large = std::max(dimensions) > largest() || row_elements > most_row_elements();
  // The first case always runs, however long its preparation took.
  const bool leaves = too_large || (run.load() > 0 && is_over());
  (leaves ? left_out : run).fetch_add(1);
  return leaves;
}

std::string describe_limits() {
  std::string text;
  if (is_set(largest())) text += ", dimensions to " + std::to_string(largest());
  if (is_set(seconds())) text += ", " + std::to_string(seconds()) + " s a test";
  return text;
}

void begin_cases() {
  run = left_out = 0;
  start = Clock::now();
}

CaseCount count_cases() { return {run.load(), left_out.load()}; }

}  // namespace lathe::conformance
