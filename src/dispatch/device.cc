#include "dispatch/device.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"
#include "dispatch/externals.h"
#include "oracle_id.h"

namespace lathe {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

int32_t workers_of(const lathe_context& context, const DeviceFacts& facts, const Driver* driver) {
  if (driver != nullptr) return driver->workers();
  if (facts.target.backend != Backend::kCpu) return 1;
  if (context.options.workers > 0) return context.options.workers;
  return std::max(1, static_cast<int32_t>(facts.fact_or("cores", 1)));
}

// kInvalidArgument if the options name a ptxas that cannot be executed and the target needs one.
absl::Status check_assembler(const lathe_context& context, const Target& target) {
  const std::optional<AssemblerSearch>& search = context.options.assembler;
  if (target.backend != Backend::kCuda || !search || search->ptxas.empty()) return absl::OkStatus();
  if (access(search->ptxas.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("LATHE_PTXAS: ", search->ptxas, ": ", strerror(errno)));
}

Json unavailable_json(const std::string& name, const absl::Status& reason) {
  return json_object("name", name, "available", false, "reason", std::string(reason.message()), "target",
                     nullptr, "facts", Json::object());
}

}  // namespace

absl::StatusOr<std::unique_ptr<lathe_device>> open_device(lathe_context& context, const std::string& name) {
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<Driver> driver, open_driver(name, driver_options(context)));
  DeviceFacts facts = driver->facts();
  auto device = std::make_unique<lathe_device>(context, name, std::move(facts), std::move(driver));
  // Open external libraries now: the threads that a library starts inherit the priority of the thread that opens
  // it, and the background thread's is low.
  if (context.options.external.use != ExternalUse::kOff) (void)find_externals(*device);
  return device;
}

absl::StatusOr<std::unique_ptr<lathe_device>> describe_device(lathe_context& context,
                                                              const std::string& facts_path,
                                                              absl::string_view target) {
  LATHE_ASSIGN_OR_RETURN(DeviceFacts facts, described_facts(facts_path, target, context.logger));
  LATHE_RETURN_IF_ERROR(check_assembler(context, facts.target));
  std::string name = absl::StrCat(facts.name, " (described)");
  return std::make_unique<lathe_device>(context, std::move(name), std::move(facts), nullptr);
}

absl::StatusOr<DeviceFacts> described_facts(const std::string& path, absl::string_view target,
                                            const Logger& logger) {
  absl::StatusOr<DeviceFacts> facts = load_facts(path);
  // For the caller, a file that cannot be read is a wrong argument.
  if (!facts.ok())
    return absl::InvalidArgumentError(absl::StrCat("facts ", path, ": ", facts.status().message()));
  if (target.empty()) return facts;
  LATHE_ASSIGN_OR_RETURN(const Target wanted, parse_target(target));
  if (wanted.backend != facts->target.backend) {
    return absl::InvalidArgumentError(absl::StrCat("target ", target, " has backend ",
                                                   name_of(wanted.backend), ", but the facts in ", path,
                                                   " have ", name_of(facts->target.backend)));
  }
  if (wanted.arch != facts->target.arch)
    logger.log(LogLevel::kWarning, absl::StrCat("facts ", path, ": they are of ", facts->target.arch,
                                                "; plans for ", target, " use its sizes and rates"));
  facts->target = wanted;
  return facts;
}

absl::Status check_runnable(const lathe_device& device) {
  if (device.driver != nullptr) return absl::OkStatus();
  if (device.facts.target.backend == Backend::kSpirv)
    return absl::UnavailableError(absl::StrCat("device ", device.name, ": target ", device.facts.target.arch,
                                               " is compile-only: its kernels are compiled and stored, but "
                                               "cannot run here"));
  return absl::UnavailableError(
      absl::StrCat("device ", device.name, " is only described by facts: it can plan but not run"));
}

uint64_t fingerprint_of(const lathe_device& device) {
  Json facts = Json::object();
  for (const auto& [name, fact] : device.facts.facts) facts[name] = fact.value;
  Json all = json_object("facts", std::move(facts), "target", to_json(device.facts.target), "workers",
                         device.workers, "codegen", std::string(codegen_id()), "oracle", LATHE_ORACLE_ID,
                         "version", lathe_version());
  if (const uint64_t tuning = device.context.tuning.digest()) set_fields(&all, "tuning", tuning);
  if (Json pipelines = device.context.pipelines.digests(); !pipelines.is_null())
    set_fields(&all, "pipelines", std::move(pipelines));
  if (const auto ukernels = device.context.ukernels.all(); !ukernels->empty()) {
    Json of_users = Json::array();
    for (const UserUkernel& u : *ukernels)
      of_users.push_back(json_object("row", to_json(u), "defect", u.defect));
    set_fields(&all, "ukernels", std::move(of_users));
  }
  const std::string text = all.dump();
  return XXH3_64bits(text.data(), text.size());
}

DriverOptions driver_options(const lathe_context& context) {
  DriverOptions options;
  options.workers = context.options.workers;
  options.validate = context.options.validate;
  options.cpu_target = context.options.cpu_target;
  options.perf_map = context.options.perf_map;
  options.logger = context.logger;
  options.calibrations = &context.calibrations;
  if (context.options.parallel_for != nullptr) {
    options.parallel_for = [call = context.options.parallel_for, user = context.options.parallel_for_user](
                               int64_t count, ParallelBody body, void* body_context) {
      call(user, count, body, body_context);
    };
  }
  return options;
}

Json facts_with_origin(const std::map<std::string, Fact>& facts) {
  Json json = fact_values_json(facts);
  for (const auto& [name, fact] : facts) set_fields(&json[name], "origin", std::string(origin_of(fact)));
  return json;
}

Json devices_json(const lathe_context& context) {
  const DriverOptions options = driver_options(context);
  Json devices = Json::array();
  for (const BackendRow& backend : backends()) {
    const absl::StatusOr<std::vector<std::string>> names = backend.enumerate();
    if (!names.ok()) {
      devices.push_back(unavailable_json(backend.prefix, names.status()));
      continue;
    }
    for (const std::string& name : *names) {
      const absl::StatusOr<DeviceFacts> facts = backend.query(name, options);
      if (!facts.ok()) {
        devices.push_back(unavailable_json(name, facts.status()));
        continue;
      }
      Json device = to_json(*facts);
      device["description"] = device["name"];
      device["name"] = name;
      if (facts->target.backend == Backend::kCpu) device["facts"] = facts_with_origin(facts->facts);
      device["available"] = true;
      device["reason"] = "";
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

}  // namespace lathe

lathe_device::lathe_device(lathe_context& owner, std::string device_name, lathe::DeviceFacts device_facts,
                           std::unique_ptr<lathe::Driver> device_driver)
    : serial(lathe::next_serial()),
      context(owner),
      name(std::move(device_name)),
      facts(std::move(device_facts)),
      is_cpu(facts.target.backend == lathe::Backend::kCpu),
      dependent_launch(lathe::has_dependent_launch(facts.target)),
      driver(std::move(device_driver)),
      workers(lathe::workers_of(owner, facts, driver.get())) {
  context.devices.fetch_add(1, std::memory_order_relaxed);
}

lathe_device::~lathe_device() {
  context.background.forget(*this);
  context.devices.fetch_sub(1, std::memory_order_relaxed);
}
