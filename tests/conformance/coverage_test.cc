// Every request has a legal candidate on every described device. Plans are made but not compiled.

#include "device.h"

namespace lathe::conformance {
namespace {

lathe_matmul_desc request(int64_t m, int64_t n, int64_t k, int layout, lathe_dtype dtype,
                          lathe_determinism determinism) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.a.dtype = desc.b.dtype = desc.d.dtype = dtype;
  desc.a.layout = layout & 1 ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.b.layout = layout & 2 ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.determinism = determinism;
  return desc;
}

class Coverage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    lathe_context_options options = memory_only(2);
    const std::string facts = std::string(LATHE_FACTS_DIRECTORY) + "/" + GetParam() + ".json";
    ASSERT_LATHE_OK(lathe_context_create(&options, &context_));
    ASSERT_LATHE_OK(lathe_device_describe(context_, facts.c_str(), nullptr, &device_));
  }
  void TearDown() override {
    lathe_device_close(device_);
    lathe_context_destroy(context_);
  }
  void expect_plan(const lathe_matmul_desc& desc) {
    if (failures_ >= 10) return;
    lathe_plan* plan = nullptr;
    const lathe_status status = lathe_plan_matmul(device_, &desc, &plan);
    lathe_plan_destroy(plan);
    EXPECT_EQ(status, LATHE_OK) << std::string(lathe_last_error()).substr(0, 400);
    failures_ += status != LATHE_OK;
  }

  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  int failures_ = 0;
};

TEST_P(Coverage, EveryMatmulHasAPlan) {
  Random random = random_stream(14);
  constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
  for (int64_t m : {1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 40, 100, 200, 300, 513}) {
    for (int64_t n : {1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 64, 100, 1000, 28672}) {
      for (int layout = 0; layout < 4; ++layout) {
        const int64_t k = random.below(2) ? random.between(1, 40) : random.between(1, 60000);
        const auto determinism = static_cast<lathe_determinism>(random.below(3));
        expect_plan(request(m, n, k, layout, kFloats[random.below(3)], determinism));
      }
    }
  }
}

TEST_P(Coverage, EveryForcedSplitHasAPlan) {
  for (int64_t m : {1, 6, 16, 60, 600}) {
    for (int64_t n : {1, 7, 48, 456}) {
      for (int layout = 0; layout < 4; ++layout) {
        for (int32_t split : {1, 2, 7, 77, 65535}) {
          lathe_matmul_desc desc = request(m, n, 51234, layout, LATHE_F32, LATHE_DETERMINISM_RUN_TO_RUN);
          lathe_tuning tuning = LATHE_TUNING_INIT;
          tuning.split_k = split;
          desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
          expect_plan(desc);
        }
      }
    }
  }
}

TEST_P(Coverage, EveryArgmaxHasAPlan) {
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_BF16}) {
    for (int64_t rows : {1, 3, 300}) {
      for (int64_t n : {1, 2, 31, 1000, 5000, 151936, 1000000}) {
        lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
        desc.rows = rows;
        desc.n = n;
        desc.x.dtype = dtype;
        lathe_plan* plan = nullptr;
        EXPECT_EQ(lathe_plan_argmax(device_, &desc, &plan), LATHE_OK) << lathe_last_error();
        lathe_plan_destroy(plan);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Facts, Coverage,
                         testing::Values("ryzen-7-5800u", "xeon-8592plus", "ampere-altra", "graviton3",
                                         "graviton4", "h200", "mi300x"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace lathe::conformance
