#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status nothing(const Arguments&) { return absl::OkStatus(); }

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> verbs = {
      {"run matmul",
       "MxNxK",
       1,
       "runs",
       {{"dtype", "f32|f16", "of A"}, {"json", nullptr, "as JSON"}},
       {"run it"},
       nothing},
      {"run argmax", "ROWSxN", 1, "runs", {}, {}, nothing},
      {"devices", "", 0, "lists", {}, {}, nothing},
  };
  return verbs;
}

absl::StatusOr<Arguments> parse_line(const std::vector<std::string>& line) {
  const Verb* verb = nullptr;
  return parse(line, verbs(), &verb);
}

std::string error_of(const std::vector<std::string>& line) {
  const auto arguments = parse_line(line);
  if (arguments.ok()) return "";
  EXPECT_EQ(arguments.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(arguments.status().message());
}

TEST(CommandLine, AcceptsWordsAndFlagsInAnyOrder) {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"run", "matmul", "1x2x3", "--dtype", "f16", "--json", "--workers", "2"},
           {"--workers", "2", "run", "matmul", "--json", "--dtype=f16", "1x2x3"},
           {"--workers=2", "run", "matmul", "--dtype", "f16", "1x2x3", "--json"}}) {
    const auto arguments = parse_line(line);
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    EXPECT_THAT(arguments->words, ElementsAre("1x2x3"));
    EXPECT_EQ(arguments->text("dtype", ""), "f16");
    EXPECT_TRUE(arguments->has("json"));
    EXPECT_EQ(arguments->integer("workers", 0, 1, 9).value(), 2);
  }
}

TEST(CommandLine, FirstWordOfSeveralVerbsHasHelp) {
  for (const char* flag : {"-h", "--help"}) {
    const std::string help = help_of_group({"run", flag}, verbs());
    EXPECT_THAT(help, HasSubstr("lathe run matmul MxNxK"));
    EXPECT_THAT(help, HasSubstr("lathe run argmax ROWSxN"));
    EXPECT_EQ(help_of_group({"devices", flag}, verbs()), "");
    EXPECT_EQ(help_of_group({"run", "matmul", flag}, verbs()), "");
    EXPECT_TRUE(parse_line({"run", "matmul", flag})->has("help"));
    EXPECT_TRUE(parse_line({"devices", flag})->has("help"));
  }
  EXPECT_EQ(help_of_group({"run"}, verbs()), "");
}

TEST(CommandLine, AcceptsAnEmptyValue) {
  const auto arguments = parse_line({"devices", "--cache-dir", ""});
  ASSERT_TRUE(arguments.ok());
  EXPECT_TRUE(arguments->has("cache-dir"));
  EXPECT_EQ(arguments->text("cache-dir", "x"), "");
}

TEST(CommandLine, SuggestsTheNearestKnownName) {
  EXPECT_THAT(error_of({"devcies"}), HasSubstr("did you mean 'devices'?"));
  EXPECT_THAT(error_of({"run", "matmlu", "1x1x1"}), HasSubstr("did you mean 'matmul'?"));
  EXPECT_THAT(error_of({"run", "matmul", "1x1x1", "--dtyp", "f32"}), HasSubstr("did you mean '--dtype'?"));
  EXPECT_THAT(error_of({"run", "matmul", "1x1x1", "--wrokers", "2"}), HasSubstr("did you mean '--workers'?"));
  EXPECT_THAT(error_of({"run"}), HasSubstr("matmul|argmax"));
  // No suggestion if no name is near.
  EXPECT_EQ(error_of({"xyzzyxyzzy"}), "unknown verb 'xyzzyxyzzy'");
}

TEST(CommandLine, RejectsWrongNumbersOfWordsAndValues) {
  EXPECT_THAT(error_of({"run", "matmul"}), HasSubstr("needs MxNxK"));
  EXPECT_THAT(error_of({"run", "matmul", "1x1x1", "2x2x2"}), HasSubstr("'2x2x2' is one too many"));
  EXPECT_THAT(error_of({"run", "matmul", "1x1x1", "--dtype"}),
              HasSubstr("--dtype needs a value: --dtype f32|f16"));
  EXPECT_THAT(error_of({"run", "matmul", "1x1x1", "--json=1"}), HasSubstr("--json takes no value"));
  EXPECT_EQ(error_of({"run", "matmul", "--help"}), "");  // help needs no words
  EXPECT_EQ(error_of({"run", "matmul", "1x1x1", "--dtype", "f32", "--dtype=bf16"}), "--dtype is given twice");
  EXPECT_EQ(error_of({"--workers", "1", "run", "matmul", "1x1x1", "--workers", "1"}),
            "--workers is given twice");
  EXPECT_EQ(error_of({"run", "matmul", "1x1x1", "--json", "--json"}), "--json is given twice");
  EXPECT_EQ(error_of({"run", "matmul", "-h", "--help"}), "");
  EXPECT_THAT(error_of({}), HasSubstr("no verb"));
}

TEST(CommandLine, ChecksValues) {
  Arguments arguments;
  arguments.flags = {{"n", "12x"}, {"big", "11"}, {"d", "f31"}};
  EXPECT_THAT(std::string(arguments.integer("n", 0, 1, 10).status().message()),
              HasSubstr("from 1 to 10, not '12x'"));
  EXPECT_FALSE(arguments.integer("big", 0, 1, 10).ok());
  EXPECT_EQ(arguments.integer("absent", 7, 1, 10).value(), 7);
  EXPECT_THAT(std::string(arguments.choice("d", {"f32", "f16"}).status().message()),
              HasSubstr("did you mean 'f32'?"));
  EXPECT_EQ(arguments.choice("absent", {"f32", "f16"}).value(), "f32");
}

TEST(CommandLine, HelpListsVerbsFlagsAndExamples) {
  const std::string all = help_of(verbs()), one = help_of(verbs()[0]);
  for (const Verb& v : verbs()) EXPECT_THAT(all, HasSubstr(v.name));
  for (const char* expected : {"MxNxK", "--dtype f32|f16", "--json", "--cache-dir", "--workers", "run it"}) {
    EXPECT_THAT(one, HasSubstr(expected));
  }
}

TEST(Nearest, UsesEditDistance) {
  EXPECT_EQ(nearest("warn", {"warm", "run"}), "warm");
  EXPECT_EQ(nearest("", {"abcdef"}), "");
  EXPECT_EQ(nearest("exact", {"exalt", "exact"}), "exact");
}

}  // namespace
}  // namespace lathe::cli
