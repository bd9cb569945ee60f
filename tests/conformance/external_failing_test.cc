// An external library that is installed but fails. LATHE_STUB_BLASLT selects how the stub of cuBLASLt fails.
#include <cstdlib>

#include "device.h"
#include "matmul_case.h"

namespace lathe::conformance {
namespace {

class FailingLibrary : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("LATHE_STUB_BLASLT") == nullptr) GTEST_SKIP() << "LATHE_STUB_BLASLT is not set";
  }
  static void log(void* user, lathe_log_level level, const char* message) {
    if (level <= LATHE_LOG_WARNING) static_cast<std::vector<std::string>*>(user)->push_back(message);
  }
  lathe_context_options options_with(lathe_external_use use) {
    lathe_context_options options = memory_only(2);
    options.external = use;
    options.external_library = LATHE_EXTERNAL_CUBLASLT;
    options.log = log;
    options.log_user = &warnings_;
    return options;
  }
  static MatmulCase small() {
    MatmulCase c;
    c.m = 20, c.n = 24, c.k = 40;
    c.trans_b = true;
    return c;
  }
  std::vector<std::string> warnings_;
  Random random_ = random_stream(72);
};

// Lathe's own kernel does the request, and one warning says so.
TEST_F(FailingLibrary, PreferredLibraryFallsBackAndWarnsOnce) {
  OpenDevice device(options_with(LATHE_EXTERNAL_PREFER));
  ASSERT_EQ(device.status(), LATHE_OK) << lathe_last_error();
  const OperandsOn operands(device.get());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(run_case(device.get(), small(), &random_));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("status 1"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("Lathe's own kernel "), std::string::npos) << warnings_[0];
}

TEST_F(FailingLibrary, RequiredLibraryReportsTheFailure) {
  OpenDevice device(options_with(LATHE_EXTERNAL_REQUIRE));
  ASSERT_EQ(device.status(), LATHE_OK) << lathe_last_error();
  const OperandsOn operands(device.get());
  MatmulRequest request(small(), &random_);
  EXPECT_EQ(lathe_matmul(device.get(), nullptr, request.desc()), LATHE_NOT_AVAILABLE);
  EXPECT_NE(std::string(lathe_last_error()).find("matmul f32"), std::string::npos) << lathe_last_error();
  EXPECT_NE(std::string(lathe_last_error()).find("status 1"), std::string::npos) << lathe_last_error();
}

}  // namespace
}  // namespace lathe::conformance
