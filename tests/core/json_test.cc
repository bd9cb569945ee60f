#include "core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

TEST(ParseJsonTest, NamesTheTextInTheError) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":[2]})", "x").value().dump(), R"({"a":[2],"b":1})");
  const auto bad = parse_json("{\"a\":", "the facts file");
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.status().message()), testing::StartsWith("the facts file: "));
}

TEST(ParseJsonTest, DoesNotCrashOnMaliciousText) {
  EXPECT_FALSE(parse_json("", "x").ok());
  EXPECT_FALSE(parse_json("\xff\xfe", "x").ok());
  EXPECT_FALSE(parse_json("\"\xc3\x28\"", "x").ok());
  EXPECT_FALSE(parse_json("1 2", "x").ok());
  EXPECT_FALSE(parse_json(std::string(200000, '['), "x").ok());
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(60), "x").ok());
  // Copying such a deep value would overflow the stack.
  EXPECT_EQ(parse_json(nested(200000), "x").status().message(), "x: nested more than 64 levels deep");
  EXPECT_EQ(parse_json_file(nested(200000), "x").status().message(), "x: nested more than 64 levels deep");
  const std::string objects = absl::StrCat(R"({"a":)", nested(200000), "}");
  EXPECT_FALSE(parse_json(objects, "x").ok());
}

TEST(ParseJsonFileTest, RefusesDuplicateKeysWithTheirLine) {
  const char* good = "{\"a\": {\"x\": 1},\n \"b\": [{\"x\": 1}, {\"x\": 2}]}";
  EXPECT_EQ(parse_json_file(good, "f.json").value(), parse_json(good, "f.json").value());
  const auto message = [](const char* text) {
    const absl::StatusOr<Json> json = parse_json_file(text, "f.json");
    EXPECT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(json.status().message());
  };
  EXPECT_EQ(message("{\"a\": 1,\n\n\"a\": 1}"), "f.json:3: duplicate key 'a'");
  EXPECT_EQ(message("[{\"a\": {\"b\": 1,\n\"b\": 2}, \"c\": 3,\n\"c\": 4}]"), "f.json:2: duplicate key 'b'");
  EXPECT_THAT(message("{\"a\": 1,\n"), testing::StartsWith("f.json: "));
  EXPECT_THAT(message(""), testing::StartsWith("f.json: "));
}

TEST(ReadJsonTest, RefusesFieldsOfAnotherTypeOrRange) {
  const Json j = {{"i", 3}, {"f", 2.5}, {"s", "text"}, {"b", true}, {"u", UINT64_MAX}, {"inf", INFINITY}};
  EXPECT_EQ(int_field(j, "i", 0, 3), 3);
  EXPECT_EQ(number_field(j, "f"), 2.5);
  EXPECT_EQ(number_field(j, "i"), 3.0);
  EXPECT_EQ(text_field(j, "s"), "text");
  for (const char* name : {"f", "s", "b", "u", "absent"})
    EXPECT_ANY_THROW(int_field(j, name, INT64_MIN, INT64_MAX)) << name;
  EXPECT_ANY_THROW(int_field(j, "i", 4, 9));
  EXPECT_ANY_THROW(int_field(j, "i", 0, 2));
  EXPECT_ANY_THROW(number_field(j, "s"));
  EXPECT_ANY_THROW(number_field(j, "b"));
  EXPECT_ANY_THROW(number_field(j, "inf"));
  EXPECT_ANY_THROW(text_field(j, "i"));
  EXPECT_ANY_THROW(expect_fields(j, 4));
  EXPECT_ANY_THROW(expect_fields(Json::array({1}), 1));
  EXPECT_NO_THROW(expect_fields(j, 6));
}

TEST(ReadJsonTest, TurnsAnExceptionIntoAStatus) {
  const auto result = read_json("thing", [] { return text_field(Json::object(), "name"); });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              testing::AllOf(testing::StartsWith("thing: "), testing::HasSubstr("name")));
}

TEST(CanonicalTextTest, SortsKeysAndSurvivesInvalidUtf8) {
  EXPECT_EQ(canonical_text({{"b", 1}, {"a", "x"}}), R"({"a":"x","b":1})");
  EXPECT_NO_THROW(canonical_text(Json(std::string("\xff"))));
}

}  // namespace
}  // namespace lathe
