#include "cli/csv.h"

#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

TEST(CsvTest, DoesNotQuotePlainFields) {
  EXPECT_EQ(csv_record({"f32", "a b", "", "1.5x"}), "f32,a b,,1.5x");
  EXPECT_EQ(csv_record({}), "");
}

TEST(CsvTest, QuotesCommasQuotesAndLineEnds) {
  EXPECT_EQ(csv_record({"a, b", "c"}), "\"a, b\",c");
  EXPECT_EQ(csv_record({"say \"so\"", "c\nd", "e\r"}), "\"say \"\"so\"\"\",\"c\nd\",\"e\r\"");
}

}  // namespace
}  // namespace lathe::cli
