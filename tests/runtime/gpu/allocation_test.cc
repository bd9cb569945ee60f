// Counts allocations by replacing the process's malloc. A repeated launch must make none, must not lock the
// launch memory, and must call the driver only for the current context and the launch.
#include <atomic>
#include <cstdlib>

#include "fake_gpu.h"

namespace {
std::atomic<int64_t> allocations{0};
}

#define LATHE_REPLACES __attribute__((visibility("default")))
extern "C" {
void* __libc_malloc(size_t bytes);
LATHE_REPLACES void* malloc(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
}

namespace lathe {
namespace {

class GpuAllocation : public FakeGpu {};

TEST_F(GpuAllocation, RepeatedLaunchMakesNone) {
  auto driver = open();
  Step step = step_of("k");
  step.cluster = {2, 1, 1};
  step.attributes = {"pdl"};
  step.tensor_maps = {{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128},
                      {"b", DType::kF16, Var::kK, Var::kN, 64, 128, 128}};
  step.argument_bytes = parameter_bytes(2);
  const auto kernel = load(*driver, artifact_of({step, step_of("merge")}));
  TestLaunch l(*kernel);
  l.launch.stream = make_stream(primary(0));
  l.launch.config.workspace_bytes = 10000;
  l.launch.config.counters = 100;
  l.launch.config.splits = 2;
  ASSERT_TRUE(driver->launch(l.launch).ok());
  std::map<std::string, int> calls = state_->calls;
  context_stack() = {primary(0)};

  state_->quiet = true;
  const int64_t before = allocations.load();
  bool good = true;
  for (int i = 0; i < 1000; ++i) good &= driver->launch(l.launch).ok();
  const int64_t after = allocations.load();
  state_->quiet = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(after, before);
  EXPECT_EQ(state_->calls, calls) << "only the two calls that a quiet driver does not record are made";

  l.launch.config.workspace_bytes = 100000;
  EXPECT_TRUE(driver->launch(l.launch).ok());
  EXPECT_GT(allocations.load(), after) << "the counter works: a larger slab allocates its record";
}

}  // namespace
}  // namespace lathe
