// lathe_payload_inspect: the compiler's answer about a payload, as a status or a text.
#include <gtest/gtest.h>

#include <string>

#include "core/json.h"
#include "lathe/lathe.h"

namespace lathe {
namespace {

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

class Payload : public ::testing::Test {
 protected:
  void open(const std::string& compiler, uint32_t seconds = 60) {
    path_ = std::string(LATHE_FAKE_COMPILER_DIR "/") + compiler;
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.cache_dir = "";
    options.compiler_library = path_.c_str();
    options.compiler_program = LATHE_COMPILER_PROCESS_FILE;
    options.compiler_seconds = seconds;
    ASSERT_EQ(lathe_context_create(&options, &context_), LATHE_OK) << lathe_last_error();
  }
  ~Payload() override { lathe_context_destroy(context_); }
  // The fake compiler returns the payload as its answer.
  lathe_status inspect(const std::string& answer) {
    text_.clear();
    return lathe_payload_inspect(context_, "p.mlir", answer.data(), answer.size(), append, &text_);
  }

  std::string path_, text_;
  lathe_context* context_ = nullptr;
};

TEST_F(Payload, PassesTheSteps) {
  open("fake_compiler.so");
  ASSERT_EQ(inspect(R"({"functions":[{"name":"f"}]})"), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(Json::parse(text_), Json::parse(R"({"functions":[{"name":"f"}]})"));
}

TEST_F(Payload, RefusalIsAStatusThatNamesThePlace) {
  open("fake_compiler.so");
  EXPECT_EQ(inspect(R"({"refused":{"location":"p.mlir:3:8","reason":"why","malformed":false}})"),
            LATHE_UNSUPPORTED);
  EXPECT_NE(std::string(lathe_last_error()).find("p.mlir:3:8: why"), std::string::npos) << lathe_last_error();
  EXPECT_EQ(inspect(R"({"refused":{"location":"p.mlir:3:8","reason":"why","malformed":true}})"),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(text_, "");
}

TEST_F(Payload, MalformedAnswersAreInternalErrors) {
  open("fake_compiler.so");
  for (const char* answer : {"", "{", "[]", "3", R"({"refused":3})", R"({"refused":{"location":"p"}})"})
    EXPECT_EQ(inspect(answer), LATHE_INTERNAL) << answer << ": " << lathe_last_error();
}

TEST_F(Payload, ReportsTheCompilersMessage) {
  open("fake_compiler_fails.so");
  EXPECT_EQ(inspect("{}"), LATHE_COMPILE_FAILED);
  EXPECT_NE(std::string(lathe_last_error()).find("no such shape"), std::string::npos) << lathe_last_error();
}

TEST_F(Payload, PayloadThatCrashesItsReaderFailsAlone) {
  open("fake_compiler_misbehaves.so");
  for (const char* deadly : {R"({"n":1001})", R"({"n":1002})", R"({"n":1004})"}) {
    EXPECT_EQ(inspect(deadly), LATHE_COMPILE_FAILED) << deadly;
    EXPECT_NE(std::string(lathe_last_error()).find("payload p.mlir: the compiler process"), std::string::npos)
        << lathe_last_error();
    EXPECT_EQ(text_, "");
    EXPECT_EQ(inspect(R"({"functions":[]})"), LATHE_OK) << lathe_last_error();
  }
}

TEST_F(Payload, PayloadThatHangsItsReaderTimesOut) {
  open("fake_compiler_misbehaves.so", /*seconds=*/1);
  EXPECT_EQ(inspect(R"({"n":1003})"), LATHE_TIMEOUT);
  EXPECT_NE(std::string(lathe_last_error()).find("payload p.mlir: the compiler process took more than 1 s"),
            std::string::npos)
      << lathe_last_error();
}

TEST_F(Payload, RefusesNullArguments) {
  open("fake_compiler.so");
  EXPECT_EQ(lathe_payload_inspect(nullptr, "p", "", 0, append, &text_), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_payload_inspect(context_, "p", nullptr, 1, append, &text_), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_payload_inspect(context_, "p", "", 0, nullptr, &text_), LATHE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lathe
