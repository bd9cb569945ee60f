#include "tune/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "dispatch/device.h"
#include "runtime/cpu/cpu_facts.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

class Calibrate : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_calibrate_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
  }
  void TearDown() override { fs::remove_all(scratch_); }

  // A context of the C API with a log. Its cache is `scratch_`/cache unless the options name another.
  struct Host {
    explicit Host(const std::string& cache, const std::string* calibration = nullptr) {
      lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
      options.cache_dir = cache.c_str();
      options.workers = 2;
      if (calibration != nullptr) options.calibration = calibration->c_str();
      options.log_user = this;
      options.log = [](void* user, lathe_log_level level, const char* text) {
        if (level <= LATHE_LOG_WARNING) static_cast<Host*>(user)->warnings.emplace_back(text);
      };
      EXPECT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
    }
    ~Host() { lathe_context_destroy(context); }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    Json devices() const {
      std::string text;
      EXPECT_EQ(lathe_devices(context, append, &text), LATHE_OK) << lathe_last_error();
      return parse_json(text, "devices").value();
    }
    // The facts and the fingerprint of a CPU device that is opened now.
    DeviceFacts facts(uint64_t* fingerprint = nullptr) const {
      lathe_device* device = nullptr;
      EXPECT_EQ(lathe_device_open(context, "cpu", &device), LATHE_OK) << lathe_last_error();
      DeviceFacts facts = device->facts;
      if (fingerprint != nullptr) {
        EXPECT_EQ(lathe_device_fingerprint(device, fingerprint), LATHE_OK);
      }
      lathe_device_close(device);
      return facts;
    }
    lathe_context* context = nullptr;
    std::vector<std::string> warnings;
  };

  std::string cache() const { return scratch_ + "/cache"; }
  std::string beside_cache() const { return cache() + "/calibration.json"; }
  static Calibration of_this_machine(double core_rate) {
    return {query_machine_identity(query_cpu_facts()),
            2,
            {{"core_bytes_per_second", {core_rate, "measured: test"}},
             {"memory_bytes_per_second", {2 * core_rate, "measured: test"}}}};
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  void write_beside_cache(const std::string& text) const {
    fs::create_directory(cache());
    fs::permissions(cache(), fs::perms::owner_all);
    write(beside_cache(), text);
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Short, so that the values mean little.
  static lathe_calibrate_options quick() {
    lathe_calibrate_options options = LATHE_CALIBRATE_OPTIONS_INIT;
    options.nanoseconds = 200 * 1000 * 1000;
    options.pool_bytes = 8 << 20;
    return options;
  }

  std::string scratch_;
};

TEST_F(Calibrate, ContextsUseTheFileBesideTheCache) {
  uint64_t plain = 0, measured = 0, other_value = 0;
  Host before(cache());
  const double table_rate = before.facts(&plain).facts.at("core_bytes_per_second").value;
  write_beside_cache(calibration_text({of_this_machine(1.25e9)}));
  EXPECT_EQ(before.facts().facts.at("core_bytes_per_second").value, table_rate)
      << "a context reads the file once";

  Host host(cache());
  const DeviceFacts facts = host.facts(&measured);
  EXPECT_EQ(facts.facts.at("core_bytes_per_second").value, 1.25e9);
  EXPECT_EQ(facts.facts.at("memory_bytes_per_second").value, 2.5e9);
  EXPECT_NE(measured, plain);
  write(beside_cache(), calibration_text({of_this_machine(1.5e9)}));
  Host(cache()).facts(&other_value);
  EXPECT_NE(other_value, measured);
  EXPECT_THAT(host.warnings, IsEmpty());
  // An empty option turns it off.
  const std::string none;
  uint64_t off = 0;
  EXPECT_EQ(Host(cache(), &none).facts(&off).calibration, "");
  EXPECT_EQ(off, plain);
}

TEST_F(Calibrate, DevicesShowTheOriginOfEachFact) {
  write_beside_cache(calibration_text({of_this_machine(1.25e9)}));
  const Json cpu = Host(cache()).devices()[0];
  EXPECT_EQ(cpu["facts"]["core_bytes_per_second"]["origin"], "measured");
  EXPECT_EQ(cpu["facts"]["core_bytes_per_second"]["value"], 1.25e9);
  EXPECT_EQ(cpu["facts"]["fma_units"]["origin"], "table");
  EXPECT_EQ(cpu["facts"]["cores"]["origin"], "system");
  EXPECT_EQ(cpu["calibration"], "measured with 2 workers: " + beside_cache());
  const std::string none;
  EXPECT_FALSE(Host(cache(), &none).devices()[0].contains("calibration"));
}

TEST_F(Calibrate, FileOfAnotherMachineIsIgnoredWithAReason) {
  Calibration foreign = of_this_machine(1.25e9);
  foreign.machine.hypervisor = "another";
  write_beside_cache(calibration_text({foreign}));
  Host host(cache());
  EXPECT_NE(host.facts().facts.at("core_bytes_per_second").value, 1.25e9);
  EXPECT_THAT(
      host.devices()[0]["calibration"].get<std::string>(),
      HasSubstr("not used: " + beside_cache() + ": it is for another machine: hypervisor is another, not "));
  EXPECT_THAT(host.warnings, IsEmpty());
  // A shared file with both machines serves this one.
  write(beside_cache(), calibration_text({foreign, of_this_machine(1.75e9)}));
  EXPECT_EQ(Host(cache()).facts().facts.at("core_bytes_per_second").value, 1.75e9);
}

TEST_F(Calibrate, DamagedFileCausesOneWarning) {
  for (const std::string& text : {std::string("{\"lathe_calibration\": 1, \"mach"), std::string(""),
                                  std::string("{\"lathe_calibration\": 99, \"machines\": []}")}) {
    write_beside_cache(text);
    Host host(cache());
    EXPECT_NE(host.facts().calibration, "");
    (void)host.devices();
    EXPECT_THAT(host.warnings, ElementsAre(HasSubstr("calibration: " + beside_cache() + ": "))) << text;
  }
}

TEST_F(Calibrate, MissingFileIsToldOnlyIfItWasNamed) {
  EXPECT_THAT(Host(cache()).warnings, IsEmpty());
  const std::string named = scratch_ + "/nowhere.json";
  Host host(cache(), &named);
  EXPECT_THAT(host.warnings, ElementsAre(HasSubstr("nowhere.json")));
}

TEST_F(Calibrate, FileInARefusedCacheDirectoryIsNotUsed) {
  write_beside_cache(calibration_text({of_this_machine(1.25e9)}));
  fs::permissions(cache(), fs::perms::all);  // others may write
  Host host(cache());
  EXPECT_NE(host.facts().facts.at("core_bytes_per_second").value, 1.25e9);
  const lathe_calibrate_options options = quick();
  EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_NOT_AVAILABLE);
}

TEST_F(Calibrate, MeasuresStoresAndReports) {
  const std::string output = scratch_ + "/shared.json";
  Calibration foreign = of_this_machine(1.25e9);
  foreign.machine.vendor = "another";
  write(output, calibration_text({foreign}));
  std::string text;
  lathe_calibrate_options options = quick();
  options.output = output.c_str();
  options.text = append;
  options.text_user = &text;
  lathe_calibrate_report report = LATHE_CALIBRATE_REPORT_INIT;
  Host host(cache());  // the cache directory does not exist yet
  const DeviceFacts before = host.facts();
  ASSERT_EQ(lathe_calibrate(host.context, &options, &report), LATHE_OK) << lathe_last_error();
  EXPECT_GT(report.facts, 5u);
  EXPECT_GT(report.absent, 0u) << "the pool is too small for the rates of memory";
  EXPECT_GT(report.milliseconds, 0);
  EXPECT_LT(report.milliseconds, 10000);

  const Json result = parse_json(text, "result").value();
  EXPECT_EQ(result["facts"].size(), report.facts);
  EXPECT_EQ(result["absent"].size(), report.absent);
  EXPECT_EQ(result["workers"], 2);
  EXPECT_EQ(result["stored"], Json::array({beside_cache(), output}));
  EXPECT_EQ(result["before"].size(), before.facts.size());
  EXPECT_EQ(result["before"]["fma_units"]["origin"], "table");

  const auto own = parse_calibrations(contents(beside_cache())),
             shared = parse_calibrations(contents(output));
  ASSERT_TRUE(own.ok() && shared.ok()) << own.status() << shared.status();
  ASSERT_EQ(own->machines.size(), 1u);
  ASSERT_EQ(shared->machines.size(), 2u);
  EXPECT_EQ(to_json(shared->machines[0]), to_json(foreign)) << "another machine's entry stays";
  EXPECT_EQ(to_json(shared->machines[1]), to_json(own->machines[0]));
  struct stat s;
  ASSERT_EQ(stat(cache().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);

  // The context keeps its facts, and the next one takes the new ones.
  EXPECT_EQ(to_json(host.facts()), to_json(before));
  const double clock = own->machines[0].facts.at("clock_hz").value;
  EXPECT_EQ(Host(cache()).facts().facts.at("clock_hz").value, clock);
  EXPECT_EQ(Host("", &output).facts().facts.at("clock_hz").value, clock);
}

TEST_F(Calibrate, NamedFileIsTheOneThatIsWritten) {
  const std::string named = scratch_ + "/named.json";
  write(named, calibration_text({}));
  Host host(cache(), &named);
  const lathe_calibrate_options options = quick();
  ASSERT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(parse_calibrations(contents(named))->machines.size(), 1u);
  EXPECT_FALSE(fs::exists(beside_cache()));
}

TEST_F(Calibrate, NeedsAPlaceForTheResult) {
  Host host("");
  lathe_calibrate_options options = quick();
  EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr("set cache_dir, calibration or output"));
  const std::string nowhere = scratch_ + "/absent/file.json";
  options.output = nowhere.c_str();
  EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_THAT(lathe_last_error(), HasSubstr(nowhere + ": cannot be written: No such file or directory"));
  // A caller that takes the text needs no file.
  std::string text;
  options.output = nullptr;
  options.text = append;
  options.text_user = &text;
  EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_OK) << lathe_last_error();
  EXPECT_THAT(text, HasSubstr("\"stored\":[]"));
}

TEST_F(Calibrate, DamagedFileIsNotOverwritten) {
  const std::string output = scratch_ + "/damaged.json";
  write(output, "notes of somebody");
  std::string text;
  lathe_calibrate_options options = quick();
  options.output = output.c_str();
  options.text = append;
  options.text_user = &text;
  Host host("");
  EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_THAT(lathe_last_error(), HasSubstr(output + ": not changed: "));
  EXPECT_EQ(contents(output), "notes of somebody");
  EXPECT_THAT(text, HasSubstr("\"facts\":{"));
}

TEST_F(Calibrate, RefusesOtherDevicesAndWrongOptions) {
  Host host("");
  const auto refused = [&](lathe_status status, const char* message, auto&& change) {
    lathe_calibrate_options options = quick();
    options.text = append;
    change(&options);
    EXPECT_EQ(lathe_calibrate(host.context, &options, nullptr), status);
    EXPECT_THAT(lathe_last_error(), HasSubstr(message));
  };
  refused(LATHE_UNSUPPORTED, "cuda:0 cannot be measured; only the device cpu can",
          [](lathe_calibrate_options* o) { o->device = "cuda:0"; });
  refused(LATHE_INVALID_ARGUMENT, "no device tpu", [](lathe_calibrate_options* o) { o->device = "tpu"; });
  refused(LATHE_INVALID_ARGUMENT, "more than 10 seconds",
          [](lathe_calibrate_options* o) { o->nanoseconds = 10000000001u; });
  refused(LATHE_INVALID_ARGUMENT, "struct_size", [](lathe_calibrate_options* o) { o->struct_size = 1; });
  const lathe_chain chain = {sizeof(lathe_chain), nullptr, LATHE_CHAIN_TUNING, 0};
  refused(LATHE_UNSUPPORTED, "chain", [&](lathe_calibrate_options* o) { o->next = &chain; });
  EXPECT_EQ(lathe_calibrate(nullptr, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_calibrate_report report = LATHE_CALIBRATE_REPORT_INIT;
  report.struct_size = 2;
  EXPECT_EQ(lathe_calibrate(host.context, nullptr, &report), LATHE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lathe
