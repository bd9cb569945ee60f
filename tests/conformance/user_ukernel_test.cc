// Ukernels supplied by users, from description and bitcode to results. The bitcode is that of a built-in ukernel, under
// another name.
#include <gmock/gmock.h>
#include <lathe/ukernel.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "argmax_case.h"
#include "device.h"
#include "matmul_case.h"
#include "nlohmann/json.hpp"

namespace lathe::conformance {
namespace {

using ::testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The described cost is so low that the oracle always chooses this ukernel.
constexpr char kDescription[] =
    "name: mine\n"
    "op: argmax\n"
    "dtype: f32\n"
    "function: lathe_argmax_row_f32\n"
    "attributes: alwaysinline nounwind\n"
    "target:\n"
    "  arch: x86-64\n"
    "  features: [avx2, fma]\n"
    "shape:\n"
    "  n: {least: 2, most: 70000}\n"
    "cost:\n"
    "  fixed_seconds: 1.0e-9\n"
    "  seconds_per_byte: 1.0e-18\n";

constexpr char kMatmulDescription[] =
    "name: mine\n"
    "op: matmul\n"
    "dtype: f32\n"
    "function: lathe_panels_f32_6x2\n"
    "attributes: alwaysinline nounwind\n"
    "target: {arch: x86-64, features: [avx2, fma]}\n"
    "shape:\n"
    "  n: {least: 16}\n"
    "tiling: {register_m: 6, register_n: 16}\n"
    "cost:\n"
    "  fixed_seconds: 1e-12\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class UserUkernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!skip_reason().empty()) GTEST_SKIP() << skip_reason();
    if (!is_cpu() || is_fallback()) GTEST_SKIP() << "only for compiled kernels of the CPU";
    const nlohmann::json plan = plan_of(*open());
    if (plan["target"].value("features", "").find("+avx2") == std::string::npos ||
        plan["target"].value("arch", "") != "x86-64")
      GTEST_SKIP() << "the bitcode is for AVX2";
  }

  std::unique_ptr<OpenDevice> open() {
    lathe_context_options options = memory_only(1);
    options.cache_dir = directory_.path().c_str();
    options.log_level = LATHE_LOG_ERROR;
    return std::make_unique<OpenDevice>(options);
  }
  static lathe_status add(lathe_context* context, const std::string& description, const std::string& bitcode,
                          int32_t store) {
    return lathe_ukernel_add(context, description.data(), description.size(),
                             reinterpret_cast<const uint8_t*>(bitcode.data()), bitcode.size(), store);
  }
  static ArgmaxCase argmax_case() {
    ArgmaxCase c;
    c.rows = 3, c.n = 5001;
    return c;
  }
  nlohmann::json plan_of(const OpenDevice& device) {
    ArgmaxRequest request(argmax_case(), &random_);
    lathe_plan* plan = nullptr;
    EXPECT_LATHE_OK(lathe_plan_argmax(device.get(), request.desc(), &plan));
    if (plan == nullptr) return {};
    nlohmann::json json = nlohmann::json::parse(explain(plan));
    lathe_plan_destroy(plan);
    return json;
  }
  // The rejection of the candidate with that ukernel; "none" if there is no such candidate.
  static std::string rejection_of(const nlohmann::json& plan) {
    for (const auto& candidate : plan["candidates"])
      if (candidate["config"]["ukernel"].value("bitcode", "").rfind("user/mine@", 0) == 0)
        return candidate.value("rejection", "");
    return "none";
  }
  std::string file(const char* ending) { return directory_.path() + "/ukernels/mine" + ending; }

  Random random_ = random_stream(47);
  const std::string bitcode_ = read(LATHE_UKERNEL_BITCODE);
  TemporaryDirectory directory_;
};

TEST_F(UserUkernels, IsChosenNamedInTheKeyAndRight) {
  ASSERT_FALSE(bitcode_.empty());
  const auto device = open();
  const std::string without = plan_of(*device)["key"].value("text", "");
  ASSERT_LATHE_OK(add(device->context(), kDescription, bitcode_, 0));
  const auto other = open();  // created after it, but the ukernel was not stored
  EXPECT_EQ(rejection_of(plan_of(*other)), "none");
  const auto fresh = open();
  ASSERT_LATHE_OK(add(fresh->context(), kDescription, bitcode_, 0));
  const nlohmann::json plan = plan_of(*fresh);
  EXPECT_EQ(plan["config"]["ukernel"]["function"], "lathe_argmax_row_f32");
  EXPECT_THAT(plan["config"]["ukernel"].value("bitcode", ""),
              ::testing::MatchesRegex("user/mine@[0-9a-f]{32}"));
  EXPECT_THAT(plan["key"].value("text", ""), HasSubstr(plan["config"]["ukernel"].value("bitcode", "?")));
  EXPECT_NE(plan["key"].value("text", ""), without);
  EXPECT_DOUBLE_EQ(plan.value("predicted_seconds", 0.0), 1e-9 + 1e-18 * 16 * 16384 * 4);
  for (int kind = 0; kind < kRowsKinds; ++kind) {
    ArgmaxCase c = argmax_case();
    c.kind = static_cast<Rows>(kind);
    c.wants_values = kind % 2;
    EXPECT_TRUE(ArgmaxRequest(c, &random_).run(fresh->get())) << kind;
  }
}

TEST_F(UserUkernels, PlansKeepAUkernelThatWasRemoved) {
  const auto device = open();
  ASSERT_LATHE_OK(add(device->context(), kDescription, bitcode_, 0));
  const nlohmann::json before = plan_of(*device);
  EXPECT_EQ(before["config"]["ukernel"]["function"], "lathe_argmax_row_f32");
  ASSERT_LATHE_OK(lathe_ukernel_remove(device->context(), "mine"));
  const nlohmann::json after = plan_of(*device);
  EXPECT_EQ(after["config"], before["config"]);
  EXPECT_EQ(after["key"], before["key"]);
}

TEST_F(UserUkernels, StoredUkernelServesLaterContextsUntilItsFileChanges) {
  ASSERT_LATHE_OK(add(open()->context(), kDescription, bitcode_, 1));
  const auto later = open();
  EXPECT_EQ(plan_of(*later)["config"]["ukernel"]["function"], "lathe_argmax_row_f32");
  EXPECT_TRUE(ArgmaxRequest(argmax_case(), &random_).run(later->get()));
  {
    std::fstream changed(file(".bc"), std::ios::binary | std::ios::in | std::ios::out);
    changed.seekp(100);
    changed.put(static_cast<char>(~bitcode_[100]));
  }
  const auto after_change = open();
  EXPECT_THAT(rejection_of(plan_of(*after_change)), HasSubstr("mine.bc has changed since it was added"));
  EXPECT_TRUE(ArgmaxRequest(argmax_case(), &random_).run(after_change->get()));
  ASSERT_EQ(std::remove(file(".bc").c_str()), 0);
  const auto after_loss = open();
  EXPECT_THAT(rejection_of(plan_of(*after_loss)), HasSubstr("mine.bc is missing"));
  EXPECT_TRUE(ArgmaxRequest(argmax_case(), &random_).run(after_loss->get()));
  EXPECT_LATHE_OK(lathe_ukernel_remove(after_loss->context(), "mine"));
  EXPECT_EQ(lathe_ukernel_remove(after_loss->context(), "mine"), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_ukernel_remove(after_loss->context(), "../mine"), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(rejection_of(plan_of(*open())), "none");
}

TEST_F(UserUkernels, RejectsUnfitRequestsWithTheReason) {
  const auto device = open();
  const auto rejection = [&](const char* from, const char* to) {
    EXPECT_LATHE_OK(add(device->context(), replaced(kDescription, from, to), bitcode_, 0));
    const auto plan = plan_of(*device);
    return rejection_of(plan);
  };
  EXPECT_THAT(rejection("most: 70000", "most: 5000"), HasSubstr("is not in 2 to 5000"));
}

TEST_F(UserUkernels, ErrorsOfADescriptionNameTheLine) {
  const auto device = open();
  const auto error = [&](const char* from, const char* to) -> std::string {
    EXPECT_EQ(add(device->context(), replaced(kDescription, from, to), bitcode_, 1), LATHE_INVALID_ARGUMENT);
    return lathe_last_error();
  };
  EXPECT_THAT(error("dtype: f32", "dtipe: f32"), HasSubstr("line 3: unknown key 'dtipe'"));
  EXPECT_THAT(error("most: 70000", "most: many"), HasSubstr("line 10: 'most': 'many' is not a whole number"));
  EXPECT_THAT(error("least: 2", "least: 70001"),
              HasSubstr("line 10: 'n': least 70001 is greater than most 70000"));
  EXPECT_THAT(error("[avx2, fma]", "avx2, fma"),
              HasSubstr("line 8: 'features' is not a list such as [avx2, fma]"));
  EXPECT_THAT(error("  n: {least", "  k: {least"), HasSubstr("line 10: shape 'k' is only for matmul"));
  EXPECT_THAT(error("dtype: f32", "dtype: i8"), HasSubstr("line 3: dtype 'i8' is only for matmul"));
  EXPECT_THAT(error("dtype: f32\n", ""), HasSubstr("line 1: 'dtype' is missing"));
  EXPECT_THAT(error("fixed_seconds: 1.0e-9\n  seconds_per_byte: 1.0e-18", "fixed_seconds: 0"),
              HasSubstr("line 11: 'cost': the sum of its values must be greater than 0"));
  EXPECT_THAT(error("1.0e-9", "-1"),
              HasSubstr("line 12: 'fixed_seconds': '-1' is not a number of seconds from 0 to 1e6"));
  EXPECT_THAT(error("name: mine", "name: ../mine"), HasSubstr("is not a valid ukernel name"));
  EXPECT_THAT(error("op: argmax", "op: softmax"), HasSubstr("line 2: op 'softmax'"));
  EXPECT_THAT(error("function: lathe_argmax_row_f32", "function: f"),
              HasSubstr("does not define the function 'f'"));
  EXPECT_THAT(error("alwaysinline", "fast"), HasSubstr("no function attribute 'fast'"));
  EXPECT_THAT(error("arch: x86-64", "arch: aarch64"), HasSubstr("compiled for x86_64"));
  EXPECT_EQ(add(device->context(), "", bitcode_, 0), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_ukernel_add(device->context(), kDescription, sizeof(kDescription) - 1, nullptr, 0, 0),
            LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(rejection_of(plan_of(*device)), "none");
}

std::string bitcode_of_choice(lathe_device* device, const MatmulRequest& request) {
  lathe_plan* plan = nullptr;
  EXPECT_LATHE_OK(lathe_plan_matmul(device, request.desc(), &plan));
  if (plan == nullptr) return "";
  const nlohmann::json json = nlohmann::json::parse(explain(plan));
  lathe_plan_destroy(plan);
  return json["config"]["ukernel"].value("bitcode", "");
}

TEST_F(UserUkernels, MatmulIsRightOnOddShapes) {
  const auto device = open();
  ASSERT_LATHE_OK(add(device->context(), kMatmulDescription, read(LATHE_UKERNEL_MATMUL_BITCODE), 0));
  const int64_t shapes[][3] = {{6, 16, 8},   {7, 17, 1},   {13, 31, 15},
                               {29, 67, 61}, {97, 101, 3}, {43, 65, 1031}};
  int layout = 0;
  for (const auto& shape : shapes) {
    MatmulCase c;
    c.m = shape[0], c.n = shape[1], c.k = shape[2];
    c.trans_a = layout & 1, c.trans_b = layout & 2;
    c.padding = layout, c.batch = 1 + layout % 2;
    if (layout % 3 == 1) c.bias = LATHE_F32;
    ++layout;
    MatmulRequest request(c, &random_);
    EXPECT_THAT(bitcode_of_choice(device->get(), request), ::testing::StartsWith("user/mine@"))
        << c.describe();
    EXPECT_TRUE(request.run(device->get()));
  }
  MatmulCase refused;
  refused.m = 30, refused.n = 15, refused.k = 40;
  MatmulRequest request(refused, &random_);
  EXPECT_EQ(bitcode_of_choice(device->get(), request).find("user/"), std::string::npos)
      << "the ukernel was chosen although N is below 16";
  EXPECT_TRUE(request.run(device->get()));
}

// Whatever LLVM makes of damaged bitcode: this process survives, and accepted bitcode computes no worse results.
TEST_F(UserUkernels, DamagedBitcodeIsRefused) {
  const auto device = open();
  EXPECT_EQ(add(device->context(), kDescription, "no bitcode", 0), LATHE_INVALID_ARGUMENT);
  int refused = 0;
  const int tries = static_cast<int>(quick_or(4, 24));
  for (int i = 0; i < tries; ++i) {
    std::string damaged = bitcode_;
    if (i % 3 == 0) {
      damaged.resize(random_.below(static_cast<int64_t>(damaged.size())));
    } else {
      for (int flip = 0; flip <= i; ++flip)
        damaged[static_cast<size_t>(random_.below(static_cast<int64_t>(damaged.size())))] ^=
            static_cast<char>(1 << random_.below(8));
    }
    refused += add(device->context(), kDescription, damaged, 0) != LATHE_OK;
  }
  EXPECT_GT(refused, tries / 2);
}

}  // namespace
}  // namespace lathe::conformance
