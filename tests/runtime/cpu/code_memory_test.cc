// On systems that restrict executable memory, code is either loaded, or rejected with the system's error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "../../system_rules.h"
#include "../test_kernels.h"
#include "core/args.h"
#include "runtime/cpu/object_loader.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Loads and runs a kernel with constants, data and calls. Returns "" if the result is correct.
std::string load_and_run() {
  ObjectLoader loader;
  const absl::StatusOr<std::vector<void*>> linked =
      loader.link(read_test_object("relocations"), {"relocations"});
  if (!linked.ok()) return std::string(linked.status().ToString());
  float out[4] = {};
  ArgumentBlock args;
  args.d = out;
  for (int64_t task = 0; task < 4; ++task) reinterpret_cast<CpuTask>((*linked)[0])(&args, task);
  return out[0] == 42.0f && out[3] == 3.5f * 3 + 41 ? "" : "it computes something else";
}

// Returns load_and_run() of a child process under a rule, or nullopt if the system does not support the rule.
std::optional<std::string> load_under(bool (*take_on)()) {
  constexpr const char* kNoRule = "the system does not have this rule";
  const std::string answer = in_child([take_on] { return take_on() ? load_and_run() : kNoRule; });
  return answer == kNoRule ? std::nullopt : std::make_optional(answer);
}

TEST(CodeMemory, LoadsUnderMemoryDenyWriteExecute) {
  const auto answer = load_under(refuse_gain_of_execution);
  if (!answer) GTEST_SKIP() << "no PR_SET_MDWE";
  EXPECT_EQ(*answer, "");
}

TEST(CodeMemory, LoadsThroughAMappedFileIfMprotectIsDenied) {
  const auto answer = load_under([] { return deny_execution(/*files=*/false); });
  if (!answer) GTEST_SKIP() << "no seccomp";
  EXPECT_EQ(*answer, "");
}

TEST(CodeMemory, IsUnavailableWithBothCausesIfFilesAreDeniedToo) {
  const auto answer = load_under([] { return deny_execution(/*files=*/true); });
  if (!answer) GTEST_SKIP() << "no seccomp";
  EXPECT_THAT(*answer, AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("mprotect: Permission denied"),
                             HasSubstr("memfd_create: Permission denied")));
}

TEST(CodeMemory, ReportsLackOfMemory) {
  ObjectLoader loader;
  const absl::Status status = loader.link(read_test_object("huge"), {"first"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes of code: mmap: Cannot allocate memory"));
  EXPECT_EQ(load_and_run(), "");
}

}  // namespace
}  // namespace lathe
