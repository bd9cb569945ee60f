// Every allocation fails in turn in every C function. The compiler runs in another process, and the devices
// are fakes; allocation_cpu_test.cc links real code.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "allocation_campaign.h"
#include "allocation_fixture.h"

namespace lathe::fault {
namespace {

TEST_F(Allocation, NamesAndLastErrorSurviveEveryFailure) {
  try_allocations({"lathe_version", "",
                   [] { return strcmp(lathe_version(), "0.1.0") == 0 ? LATHE_OK : LATHE_INTERNAL; }});
  try_allocations({"lathe_status_name", "", [] {
                     return strcmp(lathe_status_name(LATHE_MISS), "MISS") == 0 ? LATHE_OK : LATHE_INTERNAL;
                   }});
  // On a thread's first failure, when the thread has no place for a message yet.
  std::string error;
  lathe_status status = LATHE_OK;
  const auto fail = [&] {
    std::thread([&] {
      status = lathe_device_free(nullptr, nullptr);
      error = lathe_last_error();
    }).join();
  };
  fail();
  const std::string whole = error;
  EXPECT_NE(whole.find("lathe_device_free: device is NULL"), std::string::npos) << whole;
  char text[256] = {};
  std::atomic<bool> go{false}, done{false};
  std::thread thread;
  try_allocations({"lathe_last_error", "a thread's first",
                   [&] {
                     go = true;
                     while (!done) std::this_thread::yield();
                     return LATHE_OK;
                   },
                   [&] {
                     if (thread.joinable()) thread.join();
                     go = done = false;
                     thread = std::thread([&] {
                       while (!go) std::this_thread::yield();
                       status = lathe_device_free(nullptr, nullptr);
                       std::snprintf(text, sizeof(text), "%s", lathe_last_error());
                       done = true;
                     });
                   },
                   [&] {
                     return (status == LATHE_INVALID_ARGUMENT &&
                             (whole == text || !strcmp(text, "INVALID_ARGUMENT"))) ||
                            (status == LATHE_OUT_OF_MEMORY && strstr(text, "MEMORY") != nullptr) ||
                            (status == LATHE_OUT_OF_MEMORY && strstr(text, "memory") != nullptr);
                   }});
  if (thread.joinable()) thread.join();
}

TEST_F(Allocation, ContextsSurviveEveryFailure) {
  const std::string directory = cache(), record = scratch_ + "/record", metrics = scratch_ + "/metrics",
                    trace = scratch_ + "/trace", bundle = generic();
  const char* bundles[] = {bundle.c_str()};
  lathe_context_options options = c_options(directory);
  lathe_context* context = nullptr;
  const auto drop = [&] {
    lathe_context_destroy(context);
    context = nullptr;
  };
  const auto make = [&] {
    drop();
    ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
  };
  const auto there = [&] { return context != nullptr; };
  try_allocations(
      {"lathe_context_create", "", [&] { return lathe_context_create(&options, &context); }, drop, there});
  options.fallback_bundle = "relative.bundle";  // relative, so that the current directory is read
  try_allocations({"lathe_context_create", "with a relative path",
                   [&] { return lathe_context_create(&options, &context); }, drop, there});
  options.fallback_bundle = nullptr;
  options.bundles = bundles, options.bundle_count = 1;
  options.record = record.c_str(), options.metrics = metrics.c_str(), options.trace = trace.c_str();
  try_allocations({"lathe_context_create", "with files and a thread",
                   [&] { return lathe_context_create(&options, &context); }, drop, there});
  try_allocations({"lathe_context_destroy", "with files and a thread",
                   [&] {
                     lathe_context_destroy(context);
                     context = nullptr;
                     return LATHE_OK;
                   },
                   make});
  make();
  lathe_statistics statistics = LATHE_STATISTICS_INIT;
  try_allocations(
      {"lathe_context_statistics", "", [&] { return lathe_context_statistics(context, &statistics); }});
  auto text = std::make_unique<Text>();
  const auto clear = [&] { text->clear(); };
  try_allocations({"lathe_context_metrics", "",
                   [&] { return lathe_context_metrics(context, Text::take, text.get()); }, clear,
                   [&] { return text->str().find("\nlathe_background_waiting 0\n") != std::string::npos; }});
  try_allocations({"lathe_context_set_miss", "", [&] {
                     return lathe_context_set_miss(
                         context, LATHE_MISS_ERROR, [](void*, const lathe_miss*) {}, nullptr);
                   }});
  drop();
}

TEST_F(Allocation, DevicesSurviveEveryFailure) {
  const std::string directory = cache(), facts = facts_file("h200.json");
  const lathe_context_options options = c_options(directory);
  lathe_context* context = nullptr;
  ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
  auto text = std::make_unique<Text>();
  ASSERT_EQ(lathe_devices(context, Text::take, text.get()), LATHE_OK);
  const std::string all = text->str();
  try_allocations({"lathe_devices", "", [&] { return lathe_devices(context, Text::take, text.get()); },
                   [&] { text->clear(); },
                   [&] {
                     EXPECT_EQ(text->str(), all);
                     return true;
                   }});
  lathe_device* device = nullptr;
  const auto close = [&] {
    if (device != nullptr) lathe_device_close(device);
    device = nullptr;
  };
  const auto there = [&] { return device != nullptr; };
  try_allocations(
      {"lathe_device_open", "cpu", [&] { return lathe_device_open(context, "cpu", &device); }, close, there});
  const auto open = [&] {
    if (device == nullptr) ASSERT_EQ(lathe_device_open(context, "cpu", &device), LATHE_OK);
  };
  uint64_t fingerprint = 0, expected = 0;
  open();
  ASSERT_EQ(lathe_device_fingerprint(device, &expected), LATHE_OK);
  try_allocations({"lathe_device_fingerprint", "",
                   [&] { return lathe_device_fingerprint(device, &fingerprint); }, [&] { fingerprint = 0; },
                   [&] { return fingerprint == expected; }});
  void* memory = nullptr;
  const auto release = [&] {
    EXPECT_EQ(lathe_device_free(device, memory), LATHE_OK);
    memory = nullptr;
  };
  const auto take = [&] {
    release();
    ASSERT_EQ(lathe_device_alloc(device, 4096, &memory), LATHE_OK);
  };
  try_allocations({"lathe_device_alloc", "", [&] { return lathe_device_alloc(device, 4096, &memory); },
                   release, [&] { return memory != nullptr; }});
  take();
  char bytes[4] = {1, 2, 3, 4};
  try_allocations({"lathe_device_copy", "",
                   [&] { return lathe_device_copy(device, nullptr, memory, bytes, 4, LATHE_COPY_TO_DEVICE); },
                   [&] { memset(memory, 0, 4); }, [&] { return memcmp(memory, bytes, 4) == 0; }});
  try_allocations({"lathe_device_free", "",
                   [&] {
                     const lathe_status status = lathe_device_free(device, memory);
                     if (status == LATHE_OK) memory = nullptr;
                     return status;
                   },
                   take});
  lathe_stream stream = nullptr;
  try_allocations({"lathe_stream_create", "", [&] { return lathe_stream_create(device, &stream); }});
  try_allocations({"lathe_stream_synchronize", "", [&] { return lathe_stream_synchronize(device, stream); }});
  try_allocations({"lathe_stream_destroy", "", [&] { return lathe_stream_destroy(device, stream); }});
  try_allocations({"lathe_device_close", "",
                   [&] {
                     lathe_device_close(device);
                     device = nullptr;
                     return LATHE_OK;
                   },
                   open});
  try_allocations({"lathe_device_describe", "",
                   [&] { return lathe_device_describe(context, facts.c_str(), nullptr, &device); }, close,
                   there});
  close();
  lathe_context_destroy(context);
}

TEST_F(Allocation, RunsSurviveEveryFailure) {
  Fake fake(options(cache()));
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  MatmulArgmaxRequest f;
  // Compile first, so that the kernels are in memory.
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_matmul_argmax(fake.device.get(), nullptr, &f.desc), LATHE_OK) << lathe_last_error();
  const auto reopen = [&] { fake.open(); };
  const auto ran = [&] { return fake.driver->launches.load() == 1; };
  try_allocations({"lathe_matmul", "from memory",
                   [&] { return lathe_matmul(fake.device.get(), nullptr, &m.desc); }, reopen, ran});
  try_allocations({"lathe_argmax", "from memory",
                   [&] { return lathe_argmax(fake.device.get(), nullptr, &a.desc); }, reopen, ran});
  try_allocations({"lathe_matmul_argmax", "from memory",
                   [&] { return lathe_matmul_argmax(fake.device.get(), nullptr, &f.desc); }, reopen, ran});
  uint32_t layout = 0;
  size_t bytes = 0;
  try_allocations({"lathe_packed_layout", "",
                   [&] { return lathe_packed_layout(fake.device.get(), &m.desc, &layout, &bytes); },
                   [&] { layout = bytes = 0; },
                   [&] { return layout != 0 && bytes == 48 * 33 * sizeof(float); }});
  m.b[0] = 3;
  std::vector<float> packed(48 * 33);
  try_allocations(
      {"lathe_pack_weights", "",
       [&] { return lathe_pack_weights(fake.device.get(), &m.desc, layout, packed.data(), bytes); },
       [&] { packed.assign(packed.size(), 0); }, [&] { return packed[0] == 3; }});
}

TEST_F(Allocation, PlansSurviveEveryFailure) {
  Fake fake(options(cache()));
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  MatmulArgmaxRequest f;
  lathe_plan* plan = nullptr;
  const auto drop = [&] {
    lathe_plan_destroy(plan);
    plan = nullptr;
    fake.open();
  };
  const auto there = [&] { return plan != nullptr; };
  size_t bytes = 0;
  std::vector<char> workspace;
  lathe_workspace chain = LATHE_WORKSPACE_INIT;
  // Chains a workspace for the plan's slices to a descriptor.
  const auto with_workspace = [&](const lathe_chain** next) {
    ASSERT_EQ(lathe_plan_slice_workspace_bytes(plan, 2, &bytes), LATHE_OK) << lathe_last_error();
    workspace.resize(bytes + 64);
    chain.data = workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64);
    chain.bytes = bytes;
    *next = reinterpret_cast<const lathe_chain*>(&chain);
  };

  try_allocations({"lathe_plan_argmax", "",
                   [&] { return lathe_plan_argmax(fake.device.get(), &a.desc, &plan); }, drop, there});
  ASSERT_NE(plan, nullptr);
  try_allocations(
      {"lathe_plan_run_argmax", "", [&] { return lathe_plan_run_argmax(plan, nullptr, &a.desc); }});
  with_workspace(&a.desc.next);
  try_allocations({"lathe_plan_run_argmax_slice", "",
                   [&] { return lathe_plan_run_argmax_slice(plan, &a.desc, 0, 1, 2); }});
  try_allocations({"lathe_plan_matmul_argmax", "",
                   [&] { return lathe_plan_matmul_argmax(fake.device.get(), &f.desc, &plan); }, drop, there});
  try_allocations({"lathe_plan_run_matmul_argmax", "",
                   [&] { return lathe_plan_run_matmul_argmax(plan, nullptr, &f.desc); }});
  with_workspace(&f.desc.next);
  try_allocations({"lathe_plan_run_matmul_argmax_slice", "",
                   [&] { return lathe_plan_run_matmul_argmax_slice(plan, &f.desc, 0, 1, 2); }});
  try_allocations({"lathe_plan_matmul", "",
                   [&] { return lathe_plan_matmul(fake.device.get(), &m.desc, &plan); }, drop, there});
  try_allocations(
      {"lathe_plan_run_matmul", "", [&] { return lathe_plan_run_matmul(plan, nullptr, &m.desc); }});
  const size_t misaligned = 1;
  MatmulRequest other(7, 40, 33);
  std::vector<float> room(8 * 40);
  other.desc.d.data = reinterpret_cast<char*>(room.data()) + misaligned;
  try_allocations({"lathe_plan_run_matmul", "of another alignment",
                   [&] { return lathe_plan_run_matmul(plan, nullptr, &other.desc); },
                   [&] {
                     drop();
                     ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_OK);
                   },
                   [&] { return fake.driver->launches.load() == 1; }});
  int32_t phases = 0;
  try_allocations({"lathe_plan_phases", "", [&] { return lathe_plan_phases(plan, &phases); },
                   [&] { phases = 0; }, [&] { return phases >= 1; }});
  try_allocations(
      {"lathe_plan_workspace_bytes", "", [&] { return lathe_plan_workspace_bytes(plan, &bytes); }});
  try_allocations({"lathe_plan_slice_workspace_bytes", "",
                   [&] { return lathe_plan_slice_workspace_bytes(plan, 2, &bytes); }});
  auto text = std::make_unique<Text>();
  ASSERT_EQ(lathe_plan_explain(plan, Text::take, text.get()), LATHE_OK);
  const std::string explained = text->str();
  try_allocations({"lathe_plan_explain", "", [&] { return lathe_plan_explain(plan, Text::take, text.get()); },
                   [&] { text->clear(); }, [&] { return text->str() == explained; }});
  const auto try_explain = [&](const char* call, const std::function<lathe_status()>& explain) {
    text->clear();
    ASSERT_EQ(explain(), LATHE_OK) << lathe_last_error();
    const std::string whole = text->str();
    try_allocations({call, "", explain, [&] { text->clear(); }, [&] { return text->str() == whole; }});
  };
  // Explain loaded classes and classes that are not loaded.
  try_explain("lathe_explain_matmul",
              [&] { return lathe_explain_matmul(fake.device.get(), &m.desc, Text::take, text.get()); });
  try_explain("lathe_explain_argmax",
              [&] { return lathe_explain_argmax(fake.device.get(), &a.desc, Text::take, text.get()); });
  try_explain("lathe_explain_matmul_argmax", [&] {
    return lathe_explain_matmul_argmax(fake.device.get(), &f.desc, Text::take, text.get());
  });
  text->clear();
  ASSERT_EQ(lathe_plan_dump(plan, "a: pipeline", Text::take, text.get()), LATHE_OK);
  const std::string dumped = text->str();
  try_allocations({"lathe_plan_dump", "",
                   [&] { return lathe_plan_dump(plan, "a: pipeline", Text::take, text.get()); },
                   [&] { text->clear(); }, [&] { return text->str() == dumped; }});
  text->clear();
  const std::string payload = R"({"functions":[]})";  // the answer of the fake compiler
  const auto inspect = [&] {
    return lathe_payload_inspect(&fake.context, "p.mlir", payload.data(), payload.size(), Text::take,
                                 text.get());
  };
  ASSERT_EQ(inspect(), LATHE_OK) << lathe_last_error();
  const std::string inspected = text->str();
  try_allocations({"lathe_payload_inspect", "", inspect, [&] { text->clear(); },
                   [&] { return text->str() == inspected; }});
  with_workspace(&m.desc.next);
  try_allocations({"lathe_plan_run_matmul_slice", "",
                   [&] { return lathe_plan_run_matmul_slice(plan, &m.desc, 0, 1, 2); }});
  m.desc.next = nullptr;
  try_allocations({"lathe_plan_destroy", "",
                   [&] {
                     lathe_plan_destroy(plan);
                     plan = nullptr;
                     return LATHE_OK;
                   },
                   [&] {
                     if (plan == nullptr)
                       ASSERT_EQ(lathe_plan_matmul(fake.device.get(), &m.desc, &plan), LATHE_OK);
                   }});
}

// A miss starts the compiler process, sends it a request and stores its answer.
TEST_F(Allocation, MissesSurviveEveryFailure) {
  std::unique_ptr<Fake> fake;
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  const auto afresh = [&] {
    fake = nullptr;
    fs::remove_all(cache());
    fake = std::make_unique<Fake>(options(cache()));
  };
  const auto ran = [&] { return fake->driver->launches.load() == 1; };
  try_allocations({"lathe_argmax", "process and store new",
                   [&] { return lathe_argmax(fake->device.get(), nullptr, &a.desc); }, afresh, ran});
  // From disk. The entry was written without failures, so this compiles nothing.
  afresh();
  ASSERT_EQ(lathe_argmax(fake->device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_argmax", "from disk",
                   [&] { return lathe_argmax(fake->device.get(), nullptr, &a.desc); },
                   [&] { fake = nullptr, fake = std::make_unique<Fake>(options(cache())); }, ran});
  // A new class for each call, with one compiler process and one store for all.
  int64_t n = 40;
  afresh();
  try_allocations({"lathe_matmul", "compiled",
                   [&] { return lathe_matmul(fake->device.get(), nullptr, &m.desc); },
                   [&] {
                     m.desc.n = m.desc.d.leading_dimension = 40 + (++n) % 100000;
                     m.b.resize(static_cast<size_t>(m.desc.n * 33));
                     m.d.resize(static_cast<size_t>(m.desc.n * 7));
                     m.desc.b.data = m.b.data(), m.desc.d.data = m.d.data();
                     fake->driver->launches = 0;
                   },
                   ran});
}

// Misses are also recorded, traced, reported to a callback and looked up on an unreachable server. A failure
// in any of these must not fail the call.
TEST_F(Allocation, WatchedMissesSurviveEveryFailure) {
  ContextOptions all = options("");
  all.record = scratch_ + "/record", all.metrics = scratch_ + "/metrics", all.trace = scratch_ + "/trace";
  all.remote = "redis://127.0.0.1:1";
  std::unique_ptr<Fake> fake;
  ArgmaxRequest a(3, 100);
  try_allocations(
      {"lathe_argmax", "watched", [&] { return lathe_argmax(fake->device.get(), nullptr, &a.desc); },
       [&] {
         fake = nullptr;
         fs::remove(all.record);
         fake = std::make_unique<Fake>(all);
         ASSERT_EQ(lathe_context_set_miss(
                       &fake->context, LATHE_MISS_DEFAULT, [](void*, const lathe_miss*) {}, nullptr),
                   LATHE_OK);
       },
       [&] { return fake->driver->launches.load() == 1; }});
}

// The call runs a generic kernel while a background thread compiles its own kernel. That thread's allocations
// fail, too; the device closes when the thread is done.
TEST_F(Allocation, FallbackSurvivesEveryFailure) {
  std::unique_ptr<Fake> fake;
  int launches = 0;
  MatmulRequest m(7, 40, 33);
  m.desc.miss_policy = LATHE_MISS_FALLBACK;
  try_allocations(
      {"lathe_matmul", "fallback", [&] { return lathe_matmul(fake->device.get(), nullptr, &m.desc); },
       [&] { fake = nullptr, fake = std::make_unique<Fake>(options("")); }, [&] { return launches == 1; },
       [&] {
         fake->wait_for_background();
         launches = fake->driver->launches.load();
         fake->device = nullptr;
       }});
}

// At the end of the program: every exported function must have been tested above.
class EveryFunction : public testing::Environment {
  void TearDown() override {
    std::printf("%lld allocations failed\n", static_cast<long long>(injected_failures()));
    if (testing::GTEST_FLAG(filter) != "*") return;
    const std::set<std::string> exported = exported_functions(LATHE_LIBRARY_FILE);
    EXPECT_GT(exported.size(), 50u);
    EXPECT_EQ(exported, tried_functions());
  }
};
const testing::Environment* const every_function = testing::AddGlobalTestEnvironment(new EveryFunction);

}  // namespace
}  // namespace lathe::fault
