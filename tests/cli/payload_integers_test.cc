// Runs payloads with integers beyond 2^53 on the CPU. Correct kernels pass, and an error in the last bit is found. To
// make a wrong kernel, a test changes the program so that it differs from the text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/payload_run.h"

namespace lathe::cli {
namespace {

using ::testing::HasSubstr;

std::string payload(const std::string& name) {
  std::ifstream file(LATHE_PAYLOADS_DIR "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class PayloadIntegers : public testing::Test {
 protected:
  void SetUp() override {
    Arguments arguments;
    arguments.flags = {{"cache-dir", ""}, {"workers", "2"}};
    context_ = make_context(arguments).value();
    device_ = open_device(context_.get(), arguments).value();
  }
  Json function_of(const std::string& text) {
    std::vector<Text> pieces;
    const lathe_status status =
        lathe_payload_inspect(context_.get(), "p.mlir", text.data(), text.size(), collect_text, &pieces);
    EXPECT_EQ(status, LATHE_OK) << lathe_last_error();
    return parse_json(pieces, "the program").value().at("functions").at(0);
  }
  reference::CheckResult run(const Json& function) {
    const Stream stream = Stream::make(device_.get()).value();
    auto trial = PayloadTrial::make(device_.get(), stream, function, 1, 5, {});
    EXPECT_TRUE(trial.ok()) << trial.status();
    const absl::Status launched = (*trial)->launch().status();
    EXPECT_TRUE(launched.ok()) << launched;
    const absl::StatusOr<reference::CheckResult> check = (*trial)->verify();
    EXPECT_TRUE(check.ok()) << check.status();
    return *check;
  }

  Context context_;
  Device device_;
};

// The step's program with one word replaced.
void replace(Json* step, const std::string& from, const std::string& to) {
  auto text = step->at("program").get<std::string>();
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  (*step)["program"] = text.replace(at, from.size(), to);
}

TEST_F(PayloadIntegers, AcceptsRightResults) {
  const Json function = function_of(payload("integers.mlir"));
  ASSERT_EQ(function.at("steps").size(), 3u);
  EXPECT_TRUE(function.at("steps")[0].contains("program"));
  EXPECT_TRUE(function.at("steps")[2].contains("on_host")) << function;
  const reference::CheckResult check = run(function);
  EXPECT_TRUE(check.ok) << check.what;
  EXPECT_EQ(check.unjudged, "");
}

TEST_F(PayloadIntegers, FindsAKernelWithAWrongLastBit) {
  const Json right = function_of(payload("integers.mlir"));
  // With each change the kernel differs from the one that the text asks for.
  const std::pair<const char*, const char*> edits[] = {{"9007199254740993", "9007199254740992"},
                                                       {"9007199254740993", "9007199254740994"},
                                                       {"arith.extui", "arith.extsi"}};
  for (const auto& [from, to] : edits) {
    Json wrong = right;
    replace(&wrong["steps"][0], from, to);
    const reference::CheckResult check = run(wrong);
    EXPECT_FALSE(check.ok) << to;
    EXPECT_THAT(check.what, HasSubstr("; the payload says ")) << to;
  }
}

TEST_F(PayloadIntegers, FindsAnIndexWithAWrongLastBit) {
  std::string text = payload("argmax.mlir");
  const std::string cast = "    %column = arith.index_cast %c : index to i64\n";
  const size_t at = text.find(cast);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, cast.size(),
               "    %c0 = arith.index_cast %c : index to i64\n    %first = arith.constant 9007199254740993 : "
               "i64\n    %column = arith.addi %c0, %first : i64\n");
  Json function = function_of(text);
  EXPECT_EQ(function.at("steps")[0].at("index_offset"), (int64_t{1} << 53) + 1);
  EXPECT_TRUE(run(function).ok);
  function["steps"][0]["index_offset"] = int64_t{1} << 53;
  EXPECT_FALSE(run(function).ok);
}

}  // namespace
}  // namespace lathe::cli
