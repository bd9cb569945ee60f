#include "cli/csv.h"

#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

TEST(CsvTest, DoesNotQuotePlainFields) {
  EXPECT_EQ(csv_row({"f32", "a b", "", "1.5x"}), "f32,a b,,1.5x");
  EXPECT_EQ(csv_row({}), "");
}

TEST(CsvTest, QuotesCommasQuotesAndLineEnds) {
  EXPECT_EQ(csv_row({"a, b", "c"}), "\"a, b\",c");
  EXPECT_EQ(csv_row({"say \"so\"", "c\nd", "e\r"}), "\"say \"\"so\"\"\",\"c\nd\",\"e\r\"");
}

}  // namespace
}  // namespace lathe::cli
