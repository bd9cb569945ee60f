// Limits for an emulated device and for short runs. LATHE_TEST_LARGEST is the largest dimension that runs; after
// LATHE_TEST_SECONDS a test starts no further case; LATHE_TEST_SAMPLE=N runs the first cases of a test and then one in N.
// Each test prints how many cases it left out; a test that ran none is skipped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace lathe::conformance {

// The dimension, at most the largest allowed one; for tests with a fixed shape.
int64_t capped(int64_t dimension);
// The number of columns for rows that are read once each: as many elements as the square of the largest dimension.
int64_t capped_columns(int64_t columns, int64_t rows = 1);

// Whether a case is left out because a dimension is too large or the time of the test is over. Counts the case.
// `row_elements` is the number of elements of an op that reads each element once, like argmax. Thread-safe.
bool leaves_out(std::initializer_list<int64_t> dimensions, int64_t row_elements = 0);
// Whether the time of the test is over.
bool is_over();

// ", dimensions to 128, 30 s a test", or "".
std::string describe_limits();

struct CaseCount {
  int run = 0, left_out = 0;
};
// Starts the counts of a test.
void begin_cases();
// Turns sampling off until the next begin_cases(), for a test that compares the results of several runs.
void run_every_case();
// The counts since begin_cases().
CaseCount count_cases();

}  // namespace lathe::conformance
