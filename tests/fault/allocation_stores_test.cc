// Manifests, warm-ups, tuning, stores, bundles and ukernels, with every allocation failing by index.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>

#include "allocation_campaign.h"
#include "allocation_fixture.h"
#include "lathe/ukernel.h"
#include "remote_fixture.h"

namespace lathe::fault {
namespace {

TEST_F(Allocation, ManifestsSurviveEveryFailure) {
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
  lathe_grouped_matmul_desc experts = LATHE_GROUPED_MATMUL_DESC_INIT;
  experts.n = 40, experts.k = 33, experts.groups = 8;
  experts.a.dtype = experts.b.dtype = experts.d.dtype = LATHE_F32;
  experts.b.layout = LATHE_COLUMN_MAJOR;
  experts.b.batch_stride = 40 * 33;
  try_allocations({"lathe_manifest_add_grouped_matmul", "",
                   [&] { return lathe_manifest_add_grouped_matmul(manifest, "experts", &experts, 64); }, make,
                   says("experts")});
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
  drop();
}

TEST_F(Allocation, WarmUpsSurviveEveryFailure) {
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

TEST_F(Allocation, TuningSurvivesEveryFailure) {
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
  // Compile first, so that the kernels are in memory.
  for (const auto& call : std::initializer_list<std::function<lathe_status()>>{matmul, argmax, head})
    ASSERT_EQ(call(), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune_matmul", "", matmul, forget, one});
  try_allocations({"lathe_tune_argmax", "", argmax, forget, one});
  try_allocations({"lathe_tune_matmul_argmax", "", head, forget, one});
  how.output = output.c_str();
  ASSERT_EQ(lathe_tune(fake.device.get(), manifest, &how, &report), LATHE_OK) << lathe_last_error();
  try_allocations({"lathe_tune", "into a file",
                   [&] { return lathe_tune(fake.device.get(), manifest, &how, &report); }, forget, one});
  // The next device reads the tuning records.
  try_allocations({"lathe_matmul", "by a tuning record",
                   [&] { return lathe_matmul(fake.device.get(), nullptr, &m.desc); }, [&] { fake.open(); },
                   [&] { return fake.driver->launches.load() == 1; }});
  const std::string directory = cache();
  lathe_context_options with = c_options(directory);
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

// With so little time, nothing is measured.
TEST_F(Allocation, CalibrationsSurviveEveryFailure) {
  const std::string directory = cache(), output = scratch_ + "/machines.json";
  const lathe_context_options options = c_options(directory);
  lathe_context* context = nullptr;
  const auto close = [&] {
    lathe_context_destroy(context);
    context = nullptr;
  };
  ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
  lathe_calibrate_options how = LATHE_CALIBRATE_OPTIONS_INIT;
  how.nanoseconds = 30 * 1000 * 1000;
  how.pool_bytes = 1 << 16;
  how.output = output.c_str();
  lathe_calibrate_report report = LATHE_CALIBRATE_REPORT_INIT;
  try_allocations({"lathe_calibrate", "into two files",
                   [&] { return lathe_calibrate(context, &how, &report); },
                   [&] { report = LATHE_CALIBRATE_REPORT_INIT; }, [&] { return report.absent > 5; }});
  close();
  lathe_context_options with = options;
  with.calibration = output.c_str();
  try_allocations({"lathe_context_create", "with a calibration file",
                   [&] { return lathe_context_create(&with, &context); }, close,
                   [&] { return context != nullptr; }});
  lathe_device* device = nullptr;
  try_allocations({"lathe_device_open", "with a calibration file",
                   [&] { return lathe_device_open(context, "cpu", &device); },
                   [&] {
                     lathe_device_close(device);
                     device = nullptr;
                   },
                   [&] { return device != nullptr; }});
  lathe_device_close(device);
  close();
}

// A server that answers every command with a string that is neither an entry nor a lease.
TEST_F(Allocation, RemoteStoreSurvivesEveryFailure) {
  NameLookup names;
  if (absl::IsUnimplemented(Redis::connect({"127.0.0.1", "1"}, 0.1, &names).status()))
    GTEST_SKIP() << "this build has no hiredis";
  const std::string wrong = bulk("no entry of Lathe's, whatever was asked for");
  const LyingServer server([&](int client) {
    char command[4096];
    do say(client, wrong);
    while (recv(client, command, sizeof(command), 0) > 0);
  });
  ArgmaxRequest a(3, 100);
  ContextOptions own = options(cache());
  std::unique_ptr<Fake> fresh = std::make_unique<Fake>(own);
  // Now its kernel is on disk, and the server is only asked for tuning records.
  ASSERT_EQ(lathe_argmax(fresh->device.get(), nullptr, &a.desc), LATHE_OK) << lathe_last_error();
  own.remote = server.url();
  try_allocations({"lathe_argmax", "over a misbehaving server",
                   [&] { return lathe_argmax(fresh->device.get(), nullptr, &a.desc); },
                   [&] {
                     fresh = nullptr;
                     fresh = std::make_unique<Fake>(own);
                   },
                   [&] { return fresh->driver->launches.load() == 1; }, [] {}, /*every=*/true});
  EXPECT_GT(server.commands.load(), 0) << "the server must have been asked";
}

TEST_F(Allocation, StoresAndBundlesSurviveEveryFailure) {
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

TEST_F(Allocation, UkernelsSurviveEveryFailure) {
  ContextOptions own = options(cache());
  own.ukernels = scratch_ + "/ukernels";
  Fake fake(own);
  const std::string bitcode = "not read by the fake compiler";
  UserUkernel mine;
  mine.name = "mine", mine.function = "f", mine.target = {Backend::kCpu, "x86-64", ""};
  mine.digest = bitcode_digest(bitcode);
  const std::string description = canonical_text(to_json(mine));  // the fake compiler's answer
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
