// What differs on a GPU: stream captures, code that the driver refuses, empty products, launch memory.
#include <gtest/gtest.h>

#include <string>

#include "fake_device.h"
#include "tests/warm_weight.h"

namespace lathe {
namespace {

bool last_error_says(const std::string& part) {
  return std::string(lathe_last_error()).find(part) != std::string::npos;
}

struct FakeGpuDevice : FakeDevice {
  FakeGpuDevice() : FakeDevice(fake_compiler(), MissPolicy::kBlock, "h200.json") {}
};

DispatchKey key_of_request(const FakeGpuDevice& fake, const lathe_matmul_desc& desc) {
  Request r;
  EXPECT_TRUE(read_matmul(&desc, Purpose::kRun, fake.device->request_context(), nullptr, &r).ok());
  return r.key;
}

TEST(Gpu, DependentLaunchIsPartOfTheClassIfTheDeviceHasIt) {
  FakeGpuDevice hopper;
  FakeDevice ampere(fake_compiler(), MissPolicy::kBlock, "a100.json");
  MatmulRequest m(7, 40, 33);
  const DispatchKey plain = key_of_request(hopper, m.desc);
  for (auto [wanted, expected] : {std::pair{LATHE_DEPENDENT_LAUNCH_ON, DependentLaunch::kOn},
                                  {LATHE_DEPENDENT_LAUNCH_CONSTANT_B, DependentLaunch::kConstantB}}) {
    m.desc.dependent_launch = wanted;
    const DispatchKey key = key_of_request(hopper, m.desc);
    EXPECT_EQ(key.problem.dependent_launch, expected);
    EXPECT_FALSE(key == plain);
    Request r;
    EXPECT_TRUE(read_matmul(&m.desc, Purpose::kRun, ampere.device->request_context(), nullptr, &r).ok());
    EXPECT_EQ(r.key.problem.dependent_launch, DependentLaunch::kOff);
    ArgmaxRequest a(3, 100);
    a.desc.dependent_launch = wanted;
    EXPECT_TRUE(read_argmax(&a.desc, Purpose::kRun, hopper.device->request_context(), nullptr, &r).ok());
    EXPECT_EQ(r.key.problem.dependent_launch, DependentLaunch::kOn) << "argmax has no B";
  }
  m.desc.dependent_launch = static_cast<lathe_dependent_launch>(3);
  EXPECT_EQ(lathe_matmul(hopper.device.get(), nullptr, &m.desc), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("dependent_launch 3 is unknown")) << lathe_last_error();
}

TEST(Gpu, MissOnACapturedStreamFailsUnderEveryPolicy) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 33);
  int stream = 0;
  fake.driver->captured_stream = &stream;
  for (lathe_miss_policy policy : {LATHE_MISS_DEFAULT, LATHE_MISS_BLOCK, LATHE_MISS_ERROR}) {
    m.desc.miss_policy = policy;
    EXPECT_EQ(lathe_matmul(fake.device.get(), &stream, &m.desc), LATHE_CAPTURE_MISS);
    EXPECT_TRUE(last_error_says("matmul f32 a=n b=t m=7 n=40 k=33 batch=1 on fake: no kernel"))
        << lathe_last_error();
  }
  EXPECT_EQ(fake.driver->loads.load(), 0);
  EXPECT_EQ(fake.statistics().compiles, 0u);
  EXPECT_EQ(fake.device->table.size(), 0u);
  EXPECT_EQ(fake.statistics().dispatch_misses, 3u);

  m.desc.miss_policy = LATHE_MISS_BLOCK;
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK)
      << "the other stream is not captured";
  ASSERT_EQ(lathe_matmul(fake.device.get(), &stream, &m.desc), LATHE_OK) << "a hit launches inside a capture";
  EXPECT_EQ(fake.driver->last.stream, &stream);
  ArgmaxRequest a(3, 100);
  EXPECT_EQ(lathe_argmax(fake.device.get(), &stream, &a.desc), LATHE_CAPTURE_MISS);
}

TEST(Gpu, PlanRunsInACaptureButMissesWithAnotherAlignment) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 32);
  lathe_plan* plan = nullptr;
  int stream = 0;
  fake.driver->captured_stream = nullptr;  // the default stream; planning works during a capture
  ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
  fake.driver->captured_stream = &stream;
  EXPECT_EQ(lathe_plan_run_matmul(plan, &stream, &m.desc), LATHE_OK) << lathe_last_error();
  const auto misaligned = reinterpret_cast<uintptr_t>(m.desc.a.data) + 4;
  m.desc.a.data = reinterpret_cast<void*>(misaligned);
  EXPECT_EQ(lathe_plan_run_matmul(plan, &stream, &m.desc), LATHE_CAPTURE_MISS);
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(lathe_plan_run_matmul(plan, &stream, &m.desc), LATHE_OK) << "now it is loaded";
  lathe_plan_destroy(plan);
}

TEST(Gpu, CacheKeepsTheCodeThatTheDriverAssembled) {
  FakeGpuDevice fake;
  fake.driver->finished_code = "a cubin";
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->finishes.load(), 1);
  const Choice choice = choose_plan(*fake.device, key_of_request(fake, m.desc)).value();
  EXPECT_EQ(fake.context->cache->get(choice.key).value().artifact->code, "a cubin");
}

TEST(Gpu, PtxFromTheCacheIsAssembledAndKept) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 33);
  const DispatchKey key = key_of_request(fake, m.desc);
  const Choice choice = choose_plan(*fake.device, key).value();
  Artifact ptx = *find_or_compile(*fake.described, key.problem, choice).value().artifact;
  ptx.format = CodeFormat::kPtx;
  fake.context->cache->replace(choice.key, ptx);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->finishes.load(), 1);
  EXPECT_EQ(fake.context->cache->get(choice.key).value().artifact->format, CodeFormat::kPtx)
      << "PTX that the driver cannot assemble is loaded as it is";
  auto second = std::make_unique<FakeDriver>(fake.device->facts);
  second->finished_code = "a cubin";
  lathe_device device(*fake.context, "second", fake.device->facts, std::move(second));
  ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.context->cache->get(choice.key).value().artifact->code, "a cubin");
  EXPECT_EQ(fake.statistics().compiles, 1u);
}

TEST(Gpu, RefusedCodeIsCompiledAgainOnce) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 33);
  // Another device of the process has stored a cubin that this device's driver refuses.
  fake.driver->finished_code = "an old cubin";
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK);
  auto second = std::make_unique<FakeDriver>(fake.device->facts);
  FakeDriver* driver = second.get();
  lathe_device device(*fake.context, "second", fake.device->facts, std::move(second));
  driver->refused_code = "an old cubin";
  driver->finished_code = "a new cubin";
  EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(driver->loads.load(), 2);
  EXPECT_EQ(fake.statistics().compiles, 2u);
  EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK);
  EXPECT_EQ(driver->loads.load(), 2);

  // If freshly compiled code is refused too, that is an error; it is not compiled again.
  driver->refused_code = driver->finished_code = "never";
  m.desc.n = 20;
  EXPECT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_INTERNAL);
  EXPECT_TRUE(last_error_says("on second: the device refuses the kernel's code: a cubin of another time"))
      << lathe_last_error();
  EXPECT_EQ(driver->loads.load(), 3);
}

// D is the epilogue of zero. It is computed as a product with K = 1, whose operands are one zero in the driver's
// memory.
TEST(Gpu, EmptyProductMultipliesZeros) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 0);
  m.desc.a.data = m.desc.b.data = nullptr;
  m.desc.a.leading_dimension = 5;
  m.desc.b.leading_dimension = 6;
  m.desc.a.batch_stride = 9;
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  const Launch& launch = fake.driver->last;
  const ArgumentBlock& args = fake.driver->last_args;
  EXPECT_TRUE(launch.zero_product);
  EXPECT_EQ(launch.dims.k, 1);
  EXPECT_EQ(args.k, 1);
  EXPECT_EQ(args.a, nullptr);
  EXPECT_EQ(args.b, nullptr);
  EXPECT_EQ(args.lda | args.ldb | args.stride_a | args.stride_b, 0) << "all elements are at the same address";
  EXPECT_EQ(args.d, m.d.data());
  EXPECT_EQ(args.ldd, 40);
  MatmulRequest one(7, 40, 1);
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &one.desc), LATHE_OK);
  EXPECT_FALSE(fake.driver->last.zero_product);

  m.desc.n = 41;
  m.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_MISS);
  EXPECT_TRUE(last_error_says("m=7 n=41 k=0 ")) << "the caller's sizes: " << lathe_last_error();
  m.desc.m = 0;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << "there is nothing to do";
}

TEST(Gpu, EmptyMatmulArgmaxMultipliesZeros) {
  FakeGpuDevice fake;
  std::vector<float> bias(40);
  std::vector<int64_t> indices(7);
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = 7;
  desc.n = 40;
  desc.a.dtype = desc.b.dtype = LATHE_F16;
  desc.logits_dtype = desc.bias_dtype = LATHE_F32;
  desc.bias = bias.data();
  desc.indices = indices.data();
  ASSERT_EQ(lathe_matmul_argmax(fake.device.get(), nullptr, &desc), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(fake.driver->last.zero_product);
  EXPECT_EQ(fake.driver->last_args.k, 1);
  EXPECT_EQ(fake.driver->last_args.lda | fake.driver->last_args.ldb, 0);
  EXPECT_EQ(fake.driver->last_args.a, nullptr);
  EXPECT_EQ(fake.driver->last_args.bias, bias.data());
}

TEST(Gpu, EmptyProductCanBeWarmedUpAndPlanned) {
  FakeGpuDevice fake;
  MatmulRequest m(7, 40, 0);
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  ASSERT_EQ(warm_weight(fake.device.get(), m.desc, 20, &report), LATHE_OK) << lathe_last_error();
  EXPECT_GT(report.classes, 0u);
  m.desc.miss_policy = LATHE_MISS_ERROR;
  EXPECT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  lathe_plan* plan = nullptr;
  ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(lathe_plan_run_matmul(plan, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_TRUE(fake.driver->last.zero_product);
  lathe_plan_destroy(plan);
}

// The fake compiler's kernels need 4 bytes for each element of each split.
TEST(Gpu, WarmUpReservesLaunchMemory) {
  FakeGpuDevice fake;
  MatmulRequest m(1, 48, 50000);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = 4;
  m.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  ASSERT_EQ(warm_weight(fake.device.get(), m.desc, 600), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->reserved_bytes, 4u * 4 * 48 * 600) << "the open bucket, up to m_max";
  ASSERT_EQ(warm_weight(fake.device.get(), m.desc, 20), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->reserved_bytes, 4u * 4 * 48 * 20) << "classes in the table count too";
  EXPECT_EQ(fake.driver->reserved_counters, 0u);
}

TEST(Gpu, LaunchesPassTheProblemClass) {
  FakeGpuDevice fake;
  ArgmaxRequest a(3, 100);
  ASSERT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.driver->last_problem.op, Op::kArgmax);
  EXPECT_EQ(fake.driver->last_problem.a, DType::kF32);
}

}  // namespace
}  // namespace lathe
