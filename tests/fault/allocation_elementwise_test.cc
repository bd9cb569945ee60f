// As allocation_test.cc, for the functions of elementwise ops.
#include <gtest/gtest.h>

#include <cstring>

#include "allocation_campaign.h"
#include "allocation_fixture.h"

namespace lathe::fault {
namespace {

constexpr char kText[] =
    R"({"d":"f32","inputs":[{"dims":"mn","dtype":"f32"},{"dims":"n","dtype":"f32"}],)"
    R"("nodes":[["arith.mulf","f32",0,1],["number","f32",0.0],["arith.maximumf","f32",2,3]],"yield":4})";

struct ElementwiseRequest {
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  lathe_program* program = nullptr;
  std::vector<float> x = std::vector<float>(3 * 40), y = std::vector<float>(40),
                     d = std::vector<float>(3 * 40);
  ElementwiseRequest() {
    EXPECT_EQ(lathe_program_create(kText, strlen(kText), &program), LATHE_OK) << lathe_last_error();
    desc.program = program;
    desc.m = 3, desc.n = 40;
    desc.inputs[0].data = x.data(), desc.inputs[1].data = y.data(), desc.d.data = d.data();
    desc.inputs[0].dtype = desc.inputs[1].dtype = desc.d.dtype = LATHE_F32;
  }
  ~ElementwiseRequest() { lathe_program_destroy(program); }
};

TEST_F(Allocation, ElementwiseProgramsSurviveEveryFailure) {
  lathe_program* program = nullptr;
  const auto drop = [&] {
    lathe_program_destroy(program);
    program = nullptr;
  };
  try_allocations({"lathe_program_create", "",
                   [&] { return lathe_program_create(kText, strlen(kText), &program); }, drop,
                   [&] { return program != nullptr; }});
  try_allocations({"lathe_program_destroy", "", [&] {
                     drop();
                     return LATHE_OK;
                   }});
}

TEST_F(Allocation, ElementwiseRunsSurviveEveryFailure) {
  Fake fake(options(cache()));
  ElementwiseRequest e;
  ASSERT_EQ(lathe_elementwise(fake.device.get(), nullptr, &e.desc), LATHE_OK) << lathe_last_error();
  const auto ran = [&] { return fake.driver->launches.load() == 1; };
  try_allocations({"lathe_elementwise", "from memory",
                   [&] { return lathe_elementwise(fake.device.get(), nullptr, &e.desc); },
                   [&] { fake.open(); }, ran});
  lathe_plan* plan = nullptr;
  const auto drop = [&] {
    lathe_plan_destroy(plan);
    plan = nullptr;
    fake.open();
  };
  try_allocations({"lathe_plan_elementwise", "",
                   [&] { return lathe_plan_elementwise(fake.device.get(), &e.desc, &plan); }, drop,
                   [&] { return plan != nullptr; }});
  ASSERT_NE(plan, nullptr);
  try_allocations(
      {"lathe_plan_run_elementwise", "", [&] { return lathe_plan_run_elementwise(plan, nullptr, &e.desc); }});
  auto text = std::make_unique<Text>();
  const auto explain = [&] {
    return lathe_explain_elementwise(fake.device.get(), &e.desc, Text::take, text.get());
  };
  ASSERT_EQ(explain(), LATHE_OK) << lathe_last_error();
  const std::string explained = text->str();
  try_allocations({"lathe_explain_elementwise", "", explain, [&] { text->clear(); },
                   [&] { return text->str() == explained; }});
  size_t bytes = 0;
  ASSERT_EQ(lathe_plan_slice_workspace_bytes(plan, 2, &bytes), LATHE_OK) << lathe_last_error();
  std::vector<char> workspace(bytes + 64);
  lathe_workspace chain = LATHE_WORKSPACE_INIT;
  chain.data = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64);
  chain.bytes = bytes;
  e.desc.next = reinterpret_cast<const lathe_chain*>(&chain);
  try_allocations({"lathe_plan_run_elementwise_slice", "",
                   [&] { return lathe_plan_run_elementwise_slice(plan, &e.desc, 0, 1, 2); }});
  drop();
}

TEST_F(Allocation, ElementwiseTuningSurvivesEveryFailure) {
  Fake fake(options(cache()));
  ElementwiseRequest e;
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 2;
  how.candidate_nanoseconds = how.pool_bytes = 1;
  lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
  const auto tune = [&] { return lathe_tune_elementwise(fake.device.get(), &e.desc, &how, &report); };
  ASSERT_EQ(tune(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune_elementwise", "", tune, [&] { report = LATHE_TUNE_REPORT_INIT; },
                   [&] { return report.classes == 1 && report.replaced + report.confirmed == 1; }});
}

TEST_F(Allocation, ElementwiseManifestsSurviveEveryFailure) {
  ElementwiseRequest e;
  lathe_manifest* manifest = nullptr;
  const auto make = [&] {
    lathe_manifest_destroy(manifest);
    ASSERT_EQ(lathe_manifest_create(&manifest), LATHE_OK);
  };
  std::string text;
  const auto take = [](void* user, const char*, const char* piece, size_t size) {
    static_cast<std::string*>(user)->assign(piece, size);
  };
  const auto has_program = [&] {
    return lathe_manifest_text(manifest, take, &text) == LATHE_OK &&
           text.find("arith.maximumf") != std::string::npos;
  };
  try_allocations({"lathe_manifest_add_elementwise", "",
                   [&] { return lathe_manifest_add_elementwise(manifest, "scaled", &e.desc); }, make,
                   has_program});
  ASSERT_TRUE(has_program());
  const std::string listed = text;
  try_allocations({"lathe_manifest_parse", "with a program",
                   [&] { return lathe_manifest_parse(manifest, listed.data(), listed.size()); }, make,
                   has_program});
  lathe_manifest_destroy(manifest);
}

}  // namespace
}  // namespace lathe::fault
