// Compares the facts of HIP devices with the numbers in the devices' data sheets.
#include "core/facts.h"
#include "fake_hip.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HipFacts : public FakeHip {
 protected:
  DeviceFacts query(const std::string& name = "hip:0") {
    auto facts = gpu::query(platform_, name);
    if (!facts.ok()) throw std::runtime_error(message(facts.status()));
    return *facts;
  }
  std::string refusal() {
    const absl::Status status = gpu::open(platform_, "hip:0", {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    return message(status);
  }
};

TEST_F(HipFacts, MatchTheDataSheetOfAnMI300X) {
  const DeviceFacts facts = query();
  EXPECT_EQ(facts.name, "Imaginary 0");
  EXPECT_EQ(facts.target, *parse_target("gfx942"));
  EXPECT_EQ(facts.fact_or("compute_units", 0), 304);
  EXPECT_EQ(facts.fact_or("clock_hz", 0), 2.1e9);
  EXPECT_EQ(facts.fact_or("threads_per_unit", 0), 2048);
  EXPECT_EQ(facts.fact_or("shared_memory_bytes", 0), 65536);
  EXPECT_EQ(facts.fact_or("max_workgroup_size", 0), 1024);
  EXPECT_EQ(facts.fact_or("registers_per_unit", 0), 4 * 512 * 64);
  // The data sheet: 5.3 TB/s, 163.4 and 1307.4 TFLOPS.
  EXPECT_NEAR(facts.fact_or("memory_bytes_per_second", 0), 5.3e12, 0.03e12);
  EXPECT_NEAR(facts.fact_or("flops_f32", 0), 163.4e12, 0.1e12);
  EXPECT_NEAR(facts.fact_or("flops_matrix_f16", 0), 1307.4e12, 0.5e12);
  EXPECT_GT(facts.fact_or("launch_seconds", 0), 0);
}

TEST_F(HipFacts, MatchTheDataSheetOfAnRX7900XTX) {
  set_isa("gfx1100", 96);
  for (fake_driver::HsaAgent& agent : state_->agents) agent.wave = 32;
  state_->attributes = {{5, 2500000}, {19, 6 << 20}, {56, 1024}, {59, 384}, {60, 1250000}, {74, 65536}};
  const DeviceFacts facts = query();
  EXPECT_EQ(facts.target, *parse_target("gfx1100"));
  EXPECT_EQ(facts.fact_or("compute_units", 0), 96);
  EXPECT_EQ(facts.fact_or("threads_per_unit", 0), 1024);
  EXPECT_NEAR(facts.fact_or("memory_bytes_per_second", 0), 960e9, 1e9);
  EXPECT_NEAR(facts.fact_or("flops_f32", 0), 61.4e12, 0.1e12);
  EXPECT_NEAR(facts.fact_or("flops_matrix_f16", 0), 122.8e12, 0.1e12);
}

// Facts must survive being written to a facts file and read again.
TEST_F(HipFacts, RoundTripThroughAFactsFile) {
  const DeviceFacts facts = query();
  auto read = facts_from_json(to_json(facts));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->facts.size(), facts.facts.size());
  for (const auto& [name, fact] : facts.facts) EXPECT_FALSE(fact.source.empty()) << name;
}

TEST_F(HipFacts, TargetIncludesTheModes) {
  for (const char* isa : {"gfx942:sramecc+:xnack+", "gfx942:sramecc-:xnack-", "gfx90a:sramecc+:xnack-",
                          "gfx950:sramecc+:xnack-", "gfx1201"}) {
    set_isa(isa);
    EXPECT_EQ(query().target, *parse_target(isa)) << isa;
  }
}

TEST_F(HipFacts, FindsTheAgentByPciAddress) {
  state_->agents[3].isas[0] = "amdgcn-amd-amdhsa--gfx1100";
  std::swap(state_->agents[3], state_->agents[6]);  // HSA's order may differ from HIP's
  EXPECT_EQ(query("hip:3").target.arch, "gfx1100");
  EXPECT_EQ(query("hip:6").target.arch, "gfx942");
  // A CPU agent comes first, with the PCI address of a GPU.
  fake_driver::HsaAgent cpu;
  cpu.type = 0;
  cpu.bdf = 0x10 << 8;
  state_->agents.insert(state_->agents.begin(), cpu);
  EXPECT_EQ(query().target.arch, "gfx942");
  // The same bus in another PCI domain is another device.
  state_->attributes[69] = 1;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("HSA has 8 GPU agent(s), but none"), HasSubstr("0001:10:00")));
}

TEST_F(HipFacts, ErrorNamesTheUnknownArchitecture) {
  set_isa("gfx803");
  EXPECT_THAT(refusal(),
              HasSubstr("hip:0: not available, because Lathe has no kernels for its architecture, gfx803"));
  set_isa("sm_90a");
  EXPECT_THAT(refusal(), HasSubstr("sm_90a"));
  state_->agents[0].isas.clear();
  EXPECT_THAT(refusal(), HasSubstr("HSA reports no instruction set for the GPU at 0000:10:00"));
}

TEST_F(HipFacts, ReportsFailuresOfHsa) {
  state_->fail_once["hsa_init"] = 0x1008;
  EXPECT_THAT(refusal(), HasSubstr("hsa_init failed with 0x1008"));
  state_->fail_once["hsa_iterate_agents"] = 0x1000;
  EXPECT_THAT(refusal(), HasSubstr("hsa_iterate_agents failed with 0x1000"));
  EXPECT_EQ(state_->calls["hsa_init"], state_->calls["hsa_shut_down"] + 1)
      << "each successful init is undone";
}

TEST_F(HipFacts, UnknownAttributesAreAbsent) {
  state_->attributes.erase(60);
  const DeviceFacts facts = query();
  EXPECT_EQ(facts.facts.count("memory_bytes_per_second"), 0u);
  EXPECT_EQ(facts.facts.count("compute_units"), 1u);
}

}  // namespace
}  // namespace lathe
