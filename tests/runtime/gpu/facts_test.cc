// Compares the facts of CUDA devices with the numbers in the devices' data sheets.
#include "core/facts.h"

#include "fake_gpu.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

class CudaFacts : public FakeGpu {
 protected:
  DeviceFacts query() {
    auto facts = gpu::query(platform_, "cuda:0");
    if (!facts.ok()) throw std::runtime_error(message(facts.status()));
    return *facts;
  }
};

TEST_F(CudaFacts, MatchTheDataSheetOfAnH100) {
  const DeviceFacts facts = query();
  EXPECT_EQ(facts.name, "Imaginary 0");
  EXPECT_EQ(facts.target, *parse_target("sm_90a"));
  EXPECT_EQ(facts.fact_or("compute_units", 0), 132);
  EXPECT_EQ(facts.fact_or("clock_hz", 0), 1.98e9);
  EXPECT_EQ(facts.fact_or("l2_bytes", 0), 50 << 20);
  EXPECT_EQ(facts.fact_or("shared_memory_bytes", 0), 227 << 10);
  EXPECT_EQ(facts.fact_or("registers_per_unit", 0), 65536);
  EXPECT_EQ(facts.fact_or("threads_per_unit", 0), 2048);
  EXPECT_EQ(facts.fact_or("max_workgroup_size", 0), 1024);
  // The data sheet of the SXM module: 3.35 TB/s, 67 TFLOPS f32, and 989.4 TFLOPS f16 at 1.83 GHz.
  EXPECT_NEAR(facts.fact_or("memory_bytes_per_second", 0), 3.35e12, 0.01e12);
  EXPECT_NEAR(facts.fact_or("flops_f32", 0), 67e12, 0.2e12);
  EXPECT_NEAR(facts.fact_or("flops_matrix_f16", 0), 989.4e12 * 1.98 / 1.83, 2e12);
  EXPECT_GT(facts.fact_or("launch_seconds", 0), 0);
}

TEST_F(CudaFacts, RoundTripThroughAFactsFile) {
  const DeviceFacts facts = query();
  auto read = facts_from_json(to_json(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->facts.size(), facts.facts.size());
  for (const auto& [name, fact] : facts.facts) EXPECT_FALSE(fact.source.empty()) << name;
  EXPECT_THAT(facts.facts.at("compute_units").source, HasSubstr("MULTIPROCESSOR_COUNT"));
}

TEST_F(CudaFacts, UnknownAttributesAreAbsent) {
  state_->attributes.erase(36);
  state_->attributes[38] = 0;
  const DeviceFacts facts = query();
  EXPECT_EQ(facts.facts.count("memory_bytes_per_second"), 0u);
  EXPECT_EQ(facts.facts.count("l2_bytes"), 0u);
  EXPECT_EQ(facts.facts.count("compute_units"), 1u);
}

TEST_F(CudaFacts, EveryCapabilityHasItsTarget) {
  const std::pair<int, const char*> targets[] = {
      {75, "sm_75"},
      {80, "sm_80"},
      {86, "sm_86"},
      {87, "sm_87"},
      {89, "sm_89"},
      {90, "sm_90a"},
      {100, "sm_100a"},
      {103, "sm_103a"},
      {120, "sm_120"},
      {121, "sm_121"},
      // Capabilities without a row use a target whose PTX their driver can assemble.
      {88, "sm_87"},
      {101, "sm_90"},
      {110, "sm_90"},
      {130, "sm_121"}};
  for (const auto& [capability, target] : targets) {
    state_->capability = capability;
    EXPECT_EQ(query().target, *parse_target(target)) << capability;
  }
  state_->capability = 70;
  const absl::Status old = gpu::open(platform_, "cuda:0", {}).status();
  EXPECT_EQ(old.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message(old),
              HasSubstr("cuda:0: not available, because its compute capability 7.0 is below 7.5"));
}

// 108 multiprocessors at 1.41 GHz. The A100's data sheet says 19.5 and 312 TFLOPS.
TEST_F(CudaFacts, MatchTheDataSheetOfAnA100) {
  state_->capability = 80;
  state_->attributes[16] = 108;
  state_->attributes[13] = 1410000;
  EXPECT_NEAR(query().fact_or("flops_f32", 0), 19.5e12, 0.1e12);
  EXPECT_NEAR(query().fact_or("flops_matrix_f16", 0), 312e12, 1e12);
}

}  // namespace
}  // namespace lathe
