// What a run leaves out, for a device that an emulator plays. LATHE_TEST_LARGEST is the greatest dimension
// that is run; after LATHE_TEST_SECONDS a test begins no further case. Each test says how many it left out,
// and one that ran none is skipped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace lathe::conformance {

// The dimension, or the greatest one: for a test whose shape is its own.
int64_t capped(int64_t dimension);
// The columns of rows that are read once each: the greatest dimension's square are as cheap as a product.
int64_t capped_columns(int64_t columns, int64_t rows = 1);

// Whether a case is left out: of a dimension that is too great, or because the test's time is over. Counts
// it. `row_elements`: rows times columns that are read once each. Thread-safe.
bool leaves_out(std::initializer_list<int64_t> dimensions, int64_t row_elements = 0);
// Whether the test's time is over.
bool is_over();

// ", dimensions to 128, 30 s a test", or "".
std::string describe_limits();

struct CaseCount {
  int run = 0, left_out = 0;
};
// Of the test that begins.
void begin_cases();
// Since begin_cases().
CaseCount count_cases();

}  // namespace lathe::conformance
