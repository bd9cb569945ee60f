// Every allocation, by index, fails under every C entry point; kernels are compiled out of process.
//
// Devices' drivers are fakes, where any but opening a device goes through: linking a CPU kernel's code is
// LLVM's work, which ends the process where memory does.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "allocation_campaign.h"
#include "allocation_fixture.h"
#include "lathe/ukernel.h"

namespace lathe::fault {
namespace {

TEST_F(Allocation, Names) {
  try_allocations({"lathe_version", "",
                   [] { return strcmp(lathe_version(), "0.1.0") == 0 ? LATHE_OK : LATHE_INTERNAL; }});
  try_allocations({"lathe_status_name", "", [] {
                     return strcmp(lathe_status_name(LATHE_MISS), "MISS") == 0 ? LATHE_OK : LATHE_INTERNAL;
                   }});
  // On a thread whose first failure it is, which has nowhere to keep a message yet.
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

TEST_F(Allocation, Contexts) {
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

TEST_F(Allocation, Devices) {
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

TEST_F(Allocation, Runs) {
  Fake fake(options(cache()));
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  MatmulArgmaxRequest f;
  // Once compiled, kernels lie in memory.
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

TEST_F(Allocation, Plans) {
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
  // The plan's slices' workspace, chained to a descriptor while they run.
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
  text->clear();
  ASSERT_EQ(lathe_plan_dump(plan, "a: pipeline", Text::take, text.get()), LATHE_OK);
  const std::string dumped = text->str();
  try_allocations({"lathe_plan_dump", "",
                   [&] { return lathe_plan_dump(plan, "a: pipeline", Text::take, text.get()); },
                   [&] { text->clear(); }, [&] { return text->str() == dumped; }});
  text->clear();
  const std::string payload = R"({"functions":[]})";  // which the fake compiler answers with
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

// A process is started, asked, its answer stored.
TEST_F(Allocation, Misses) {
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
  // From disk: what nothing failed for is there whole, so that this compiles nothing.
  afresh();
  ASSERT_EQ(lathe_argmax(fake->device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_argmax", "from disk",
                   [&] { return lathe_argmax(fake->device.get(), nullptr, &a.desc); },
                   [&] { fake = nullptr, fake = std::make_unique<Fake>(options(cache())); }, ran});
  // Another class each time: one process and one store for all.
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

// Recorded, traced, told to a callback and looked for at a server that is not there, none of which may take a
// call's kernel away.
TEST_F(Allocation, WatchedMisses) {
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

// On a generic kernel, its own being made by the background thread, whose allocations fail too: a device
// closes when its job is done.
TEST_F(Allocation, Fallback) {
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

TEST_F(Allocation, Manifests) {
  lathe_manifest* manifest = nullptr;
  const auto drop = [&] {
    lathe_manifest_destroy(manifest);
    manifest = nullptr;
  };
  const auto make = [&] {
    drop();
    ASSERT_EQ(lathe_manifest_create(&manifest), LATHE_OK);
  };
  auto text = std::make_unique<Text>();
  const auto now = [&] {
    text->clear();
    EXPECT_EQ(lathe_manifest_text(manifest, Text::take, text.get()), LATHE_OK);
    return text->str();
  };
  const auto says = [&](const char* part) {
    return [&, part] { return now().find(part) != std::string::npos; };
  };
  try_allocations({"lathe_manifest_create", "", [&] { return lathe_manifest_create(&manifest); }, drop});
  try_allocations({"lathe_manifest_destroy", "",
                   [&] {
                     lathe_manifest_destroy(manifest);
                     manifest = nullptr;
                     return LATHE_OK;
                   },
                   make});
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  MatmulArgmaxRequest f;
  try_allocations({"lathe_manifest_add_matmul", "",
                   [&] { return lathe_manifest_add_matmul(manifest, "a weight", &m.desc, 64); }, make,
                   says("a weight")});
  try_allocations({"lathe_manifest_add_argmax", "",
                   [&] { return lathe_manifest_add_argmax(manifest, "rows", &a.desc); }, make, says("rows")});
  try_allocations({"lathe_manifest_add_matmul_argmax", "",
                   [&] { return lathe_manifest_add_matmul_argmax(manifest, "a head", &f.desc, 64); }, make,
                   says("a head")});
  try_allocations({"lathe_manifest_note", "",
                   [&] { return lathe_manifest_note(manifest, "model", "a model of twenty"); }, make,
                   says("twenty")});
  make();
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, "a weight", &m.desc, 64), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_argmax(manifest, "rows", &a.desc), LATHE_OK);
  ASSERT_EQ(lathe_manifest_note(manifest, "model", "m"), LATHE_OK);
  const std::string whole = now();
  try_allocations({"lathe_manifest_text", "",
                   [&] { return lathe_manifest_text(manifest, Text::take, text.get()); },
                   [&] { text->clear(); }, [&] { return text->str() == whole; }});
  try_allocations({"lathe_manifest_parse", "",
                   [&] { return lathe_manifest_parse(manifest, whole.data(), whole.size()); }, make,
                   [&] { return now() == whole; }});
  std::string empty = now();
  const std::string wrong = "{\"lathe_manifest\": 1, \"classes\": [{\"op\": \"matmul\", \"n\": -1}]}";
  try_allocations({"lathe_manifest_parse", "a wrong one",
                   [&] {
                     const lathe_status status = lathe_manifest_parse(manifest, wrong.data(), wrong.size());
                     return status == LATHE_INVALID_ARGUMENT ? LATHE_OK : status;
                   },
                   make, [&] { return now() != whole; }});
}

TEST_F(Allocation, WarmUps) {
  Fake fake(options(cache()));
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  lathe_manifest* manifest = nullptr;
  ASSERT_EQ(lathe_manifest_create(&manifest), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, "w", &m.desc, 2), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_argmax(manifest, "r", &a.desc), LATHE_OK);
  auto text = std::make_unique<Text>();
  ASSERT_EQ(lathe_manifest_classes(fake.device.get(), manifest, Text::take, text.get()), LATHE_OK);
  const std::string classes = text->str();
  try_allocations(
      {"lathe_manifest_classes", "",
       [&] { return lathe_manifest_classes(fake.device.get(), manifest, Text::take, text.get()); },
       [&] { text->clear(); }, [&] { return text->str() == classes; }});
  lathe_warmup_options options = LATHE_WARMUP_OPTIONS_INIT;
  options.parallelism = 2;
  options.progress = [](void*, const lathe_warmup_progress*) { return 0; };
  lathe_warmup_report report = LATHE_WARMUP_REPORT_INIT;
  const auto warm = [&] { return lathe_warmup(fake.device.get(), manifest, &options, &report); };
  ASSERT_EQ(warm(), LATHE_OK) << lathe_last_error();
  const uint64_t all = report.classes;
  const auto prepared = [&] { return report.classes == all && report.loaded + report.compiled == all; };
  try_allocations({"lathe_warmup", "from memory", warm, [&] { fake.open(); }, prepared});
  lathe_manifest* small = nullptr;
  ASSERT_EQ(lathe_manifest_create(&small), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_matmul(small, "w", &m.desc, 1), LATHE_OK);
  std::unique_ptr<Fake> fresh;
  try_allocations({"lathe_warmup", "compiled",
                   [&] { return lathe_warmup(fresh->device.get(), small, &options, &report); },
                   [&] {
                     fresh = nullptr;
                     fs::remove_all(scratch_ + "/fresh");
                     fresh = std::make_unique<Fake>(Allocation::options(scratch_ + "/fresh"));
                   },
                   [&] { return report.failed == 0 && report.compiled == report.classes; }});
  lathe_manifest_destroy(small);
  lathe_manifest_destroy(manifest);
}

TEST_F(Allocation, Tuning) {
  Fake fake(options(cache()));
  MatmulRequest m(7, 40, 33);
  ArgmaxRequest a(3, 100);
  MatmulArgmaxRequest f;
  lathe_manifest* manifest = nullptr;
  ASSERT_EQ(lathe_manifest_create(&manifest), LATHE_OK);
  ASSERT_EQ(lathe_manifest_add_matmul(manifest, "w", &m.desc, 1), LATHE_OK);
  const std::string output = scratch_ + "/tuning.json";
  lathe_tune_options how = LATHE_TUNE_OPTIONS_INIT;
  how.candidates = 2;
  how.candidate_nanoseconds = how.pool_bytes = 1;
  lathe_tune_report report = LATHE_TUNE_REPORT_INIT;
  const auto forget = [&] { report = LATHE_TUNE_REPORT_INIT; };
  const auto one = [&] { return report.classes == 1 && report.replaced + report.confirmed == 1; };
  const auto matmul = [&] { return lathe_tune_matmul(fake.device.get(), &m.desc, &how, &report); };
  const auto argmax = [&] { return lathe_tune_argmax(fake.device.get(), &a.desc, &how, &report); };
  const auto head = [&] { return lathe_tune_matmul_argmax(fake.device.get(), &f.desc, &how, &report); };
  // Once compiled, kernels lie in memory.
  for (const auto& call : std::initializer_list<std::function<lathe_status()>>{matmul, argmax, head})
    ASSERT_EQ(call(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune_matmul", "", matmul, forget, one});
  try_allocations({"lathe_tune_argmax", "", argmax, forget, one});
  try_allocations({"lathe_tune_matmul_argmax", "", head, forget, one});
  how.output = output.c_str();
  ASSERT_EQ(lathe_tune(fake.device.get(), manifest, &how, &report), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune", "into a file",
                   [&] { return lathe_tune(fake.device.get(), manifest, &how, &report); }, forget, one});
  // And its records, read by the next.
  try_allocations({"lathe_matmul", "by a tuning record",
                   [&] { return lathe_matmul(fake.device.get(), nullptr, &m.desc); }, [&] { fake.open(); },
                   [&] { return fake.driver->launches.load() == 1; }});
  lathe_context_options with = c_options(cache());
  with.tuning = output.c_str();
  lathe_context* context = nullptr;
  try_allocations({"lathe_context_create", "with a tuning file",
                   [&] { return lathe_context_create(&with, &context); },
                   [&] {
                     lathe_context_destroy(context);
                     context = nullptr;
                   },
                   [&] { return context != nullptr; }});
  lathe_context_destroy(context);
  lathe_manifest_destroy(manifest);
}

TEST_F(Allocation, StoresAndBundles) {
  const std::string directory = cache(), bundle = scratch_ + "/a.bundle";
  Fake fake(options(directory));
  ArgmaxRequest a(3, 100);
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(lathe_argmax(fake.device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  const char* sources[] = {directory.c_str()};
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  const auto forget = [&] { report = LATHE_BUNDLE_REPORT_INIT; };
  const auto two = [&] { return report.entries == 2 && report.defects == 0; };
  try_allocations({"lathe_bundle_write", "",
                   [&] { return lathe_bundle_write(bundle.c_str(), sources, 1, nullptr, &report); }, forget,
                   two});
  auto text = std::make_unique<Text>();
  const auto clear = [&] { text->clear(); };
  ASSERT_EQ(lathe_bundle_list(bundle.c_str(), Text::take, text.get()), LATHE_OK);
  const std::string listed = text->str();
  try_allocations({"lathe_bundle_list", "",
                   [&] { return lathe_bundle_list(bundle.c_str(), Text::take, text.get()); }, clear,
                   [&] { return text->str() == listed; }});
  try_allocations({"lathe_cache_list", "",
                   [&] { return lathe_cache_list(&fake.context, Text::take, text.get()); }, clear,
                   [&] {
                     const absl::StatusOr<Json> json = parse_json(text->str(), "list");
                     return json.ok() && json->at("entries").size() == 2 && json->at("defects").empty();
                   }});
  const auto empty = [&] {
    forget();
    EXPECT_EQ(lathe_cache_clear(&fake.context, nullptr), LATHE_OK);
  };
  try_allocations({"lathe_cache_import", "",
                   [&] { return lathe_cache_import(&fake.context, bundle.c_str(), &report); }, empty, two});
  uint64_t removed = 0;
  const auto refill = [&] {
    removed = 0;
    EXPECT_EQ(lathe_cache_import(&fake.context, bundle.c_str(), nullptr), LATHE_OK) << lathe_last_error();
  };
  const auto both = [&] { return removed == 2; };
  try_allocations(
      {"lathe_cache_prune", "", [&] { return lathe_cache_prune(&fake.context, 0, &removed); }, refill, both});
  try_allocations(
      {"lathe_cache_clear", "", [&] { return lathe_cache_clear(&fake.context, &removed); }, refill, both});
}

// The whole program's last word: a function that is added to the library is to be added here.
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

TEST_F(Allocation, Ukernels) {
  ContextOptions own = options(cache());
  own.ukernels = scratch_ + "/ukernels";
  Fake fake(own);
  const std::string bitcode = "which the fake compiler does not read";
  UserUkernel mine;
  mine.name = "mine", mine.function = "f", mine.target = {Backend::kCpu, "x86-64", ""};
  mine.digest = bitcode_digest(bitcode);
  const std::string description = canonical_text(to_json(mine));  // its answer
  auto text = std::make_unique<Text>();
  const auto list = [&] { return lathe_ukernel_list(&fake.context, Text::take, text.get()); };
  const auto listed = [&] {
    text->clear();
    return list() == LATHE_OK && text->str().find(R"("name":"mine")") != std::string::npos;
  };
  const auto add = [&] {
    return lathe_ukernel_add(&fake.context, description.data(), description.size(),
                             reinterpret_cast<const uint8_t*>(bitcode.data()), bitcode.size(), 1);
  };
  const auto remove = [&] { return lathe_ukernel_remove(&fake.context, "mine"); };
  ASSERT_EQ(add(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_ukernel_add", "", add, remove, listed});
  try_allocations({"lathe_ukernel_list", "", list, [&] { text->clear(); }, [&] { return text->calls == 1; }});
  try_allocations(
      {"lathe_ukernel_remove", "", remove, [&] { ASSERT_EQ(add(), LATHE_OK); }, [&] { return !listed(); }});
}

}  // namespace
}  // namespace lathe::fault
