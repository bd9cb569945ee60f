#include "api/device.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oracle_id.h"

namespace lathe {
namespace {

int32_t workers_of(const lathe_context& context, const DeviceFacts& facts, const Driver* driver) {
  if (driver != nullptr) return driver->workers();
  if (facts.target.backend != Backend::kCpu) return 1;
  if (context.options.workers > 0) return context.options.workers;
  return std::max(1, static_cast<int32_t>(facts.fact_or("cores", 1)));
}

// A kernel may ask for no more than its class promises: it would be run on operands it cannot take.
absl::Status check_preconditions(const Recipe& recipe, const ProblemClass& c) {
  const bool promised = recipe.pointer_alignment <= 1 || c.alignment == Alignment::k16
                            ? recipe.pointer_alignment <= 16
                            : recipe.pointer_alignment <= alignment_bytes(c.alignment, c.a);
  if (promised) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the artifact asks for pointers aligned to ",
                                          recipe.pointer_alignment,
                                          " bytes, which its problem class does not promise"));
}

// A driver calls code that it cannot take a wrong argument; to the API's caller it is a defect of this
// library's.
absl::Status refused_code(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsDataLoss(status)) return status;
  return absl::InternalError(absl::StrCat("the device refuses the kernel's code: ", status.message()));
}

// Says once that PTX waits for a driver, and of each kernel what its assembler had to say against it.
void report_assembly(lathe_device& device, const Artifact& artifact) {
  if (device.assembler() == nullptr) return;
  lathe_context& context = device.context;
  if (artifact.format == CodeFormat::kPtx && !context.told_of_no_assembler.exchange(true)) {
    context.logger.log(LogLevel::kWarning,
                       absl::StrCat(device.name,
                                    ": no ptxas or libnvJitLink takes its PTX here, so the "
                                    "driver will when a kernel is loaded"));
  }
  const absl::StatusOr<Json> metadata = parse_json(artifact.metadata, "metadata");
  if (!metadata.ok() || !metadata->contains("messages")) return;
  for (const Json& message : (*metadata)["messages"])
    context.logger.log(LogLevel::kWarning, absl::StrCat(device.name, ": ", message.get<std::string>()));
}

// True when a formula's value is the same for every M and batch.
bool is_fixed(const Formula& formula, const LaunchConfig& launch) {
  for (const Term& term : formula) {
    bool varies = false, vanishes = false;
    for (const Factor& factor : term.factors) {
      varies |= factor.var == Var::kM || factor.var == Var::kBatch;
      vanishes |= factor.var == Var::kMerge && launch.splits <= 1;
    }
    if (varies && !vanishes) return false;
  }
  return true;
}

}  // namespace

DispatchEntry make_entry(const DispatchKey& key, const LoadedKernel* kernel, int32_t wanted_splits) {
  DispatchEntry entry{key, kernel, wanted_splits, false, {}};
  const ProblemClass& c = key.problem;
  if (c.op == Op::kArgmax) return entry;  // the length of argmax's row varies within a class
  const Recipe& recipe = kernel->recipe();
  const LaunchConfig launch = make_launch_config(recipe, c, {c.m_lo, c.n, c.k, 1}, wanted_splits);
  if (is_fixed(recipe.workspace_bytes, launch) && is_fixed(recipe.scratch_bytes_per_worker, launch) &&
      is_fixed(recipe.counters, launch)) {
    entry.launch_is_fixed = true;
    entry.fixed_launch = launch;
  }
  return entry;
}

const LoadedKernel* LoadedKernels::find(const Key& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = kernels_.find(key.text);
  return it == kernels_.end() ? nullptr : it->second.get();
}

const LoadedKernel* LoadedKernels::insert(const Key& key, std::unique_ptr<LoadedKernel> kernel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kernels_.try_emplace(key.text, std::move(kernel)).first->second.get();
}

absl::StatusOr<Choice> choose_plan(const lathe_device& device, const DispatchKey& key) {
  Choice choice;
  const std::shared_ptr<const std::vector<UserUkernel>> ukernels = device.context.ukernels.all();
  const OraclePolicy policy = {device.workers, key.split_k, ukernels.get()};
  LATHE_ASSIGN_OR_RETURN(choice.answer, rank_plans(key.problem, device.facts, policy));
  if (key.candidate > 0) {
    choice.rank = static_cast<size_t>(key.candidate) - 1;
    if (choice.rank >= choice.answer.ranked.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("candidate ", key.candidate, " of ", choice.answer.ranked.size()));
    }
    if (choice.rank >= choice.answer.legal) {
      return absl::InvalidArgumentError(absl::StrCat(
          "candidate ", key.candidate, " is not legal here: ", choice.answer.ranked[choice.rank].rejection));
    }
  }
  choice.key = key_of(key.problem, choice.plan().config, device.facts.target, codegen_id());
  return choice;
}

Dims largest_request(const ProblemClass& c) { return {c.m_hi, c.op == Op::kArgmax ? c.row_hi : c.n, c.k, 1}; }

std::string describe_class(const lathe_device& device, const ProblemClass& c) {
  return absl::StrCat(describe(c, largest_request(c)), " on ", device.name);
}

namespace {

// As the compiler makes it, and as the device's driver finishes it. Counted and timed.
absl::StatusOr<Artifact> compile(lathe_device& device, const ProblemClass& problem, const Choice& choice) {
  lathe_context& context = device.context;
  // Ahead of the timer: the library's load is reported apart from compiling.
  LATHE_RETURN_IF_ERROR(context.compiler->load());
  const auto start = Trace::Clock::now();
  ScopedTimer timer(&context.counters.compile_nanoseconds);
  const std::string bitcode = context.ukernels.bitcode_of(choice.plan().config.ukernel);
  absl::StatusOr<Artifact> artifact = context.compiler->compile(
      {problem, choice.plan().config, device.facts.target, device.assembler(), bitcode});
  if (context.trace.enabled()) {
    context.trace.span("compile", describe(problem, largest_request(problem)), start,
                       {{"device", device.name},
                        {"kernel", choice.plan().config.kernel},
                        {"key", choice.key.fingerprint},
                        {"error", std::string(artifact.status().message())}});
  }
  if (artifact.ok()) report_assembly(device, *artifact);
  (artifact.ok() ? context.counters.compiles : context.counters.compile_failures)
      .fetch_add(1, std::memory_order_relaxed);
  if (!artifact.ok() || device.driver == nullptr) return artifact;
  return device.driver->finish(*std::move(artifact));
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> load(lathe_device& device, const ProblemClass& problem,
                                                   const Artifact& artifact) {
  LATHE_RETURN_IF_ERROR(check_preconditions(artifact.recipe, problem));
  const lathe_context& context = device.context;
  const auto start = Trace::Clock::now();
  device.context.counters.kernel_loads.fetch_add(1, std::memory_order_relaxed);
  ScopedTimer timer(&device.context.counters.link_nanoseconds);
  auto loaded = device.driver->load(artifact);
  if (context.trace.enabled()) {
    const Json symbol = artifact.recipe.steps.empty() ? Json(nullptr) : Json(artifact.recipe.steps[0].symbol);
    context.trace.span(
        "load", describe(problem, largest_request(problem)), start,
        {{"device", device.name}, {"symbol", symbol}, {"error", std::string(loaded.status().message())}});
  }
  return loaded;
}

}  // namespace

absl::StatusOr<CacheResult> get_artifact(lathe_device& device, const ProblemClass& problem,
                                         const Choice& choice) {
  return device.context.cache->get_or_create(choice.key, [&] { return compile(device, problem, choice); });
}

absl::StatusOr<Prepared> prepare_kernel(lathe_device& device, const DispatchKey& key, const Choice& choice,
                                        bool may_compile) {
  CacheOutcome outcome = CacheOutcome::kMemoryHit;
  const LoadedKernel* kernel = device.kernels.find(choice.key);
  if (kernel != nullptr) {
    device.context.counters.loaded_hits.fetch_add(1, std::memory_order_relaxed);
  } else {
    LATHE_ASSIGN_OR_RETURN(const CacheResult result, get_artifact(device, key.problem, choice));
    outcome = result.outcome;
    std::shared_ptr<const Artifact> artifact = result.artifact;
    if (artifact->format == CodeFormat::kPtx && outcome != CacheOutcome::kCompiled) {
      // Left by a described device or another machine: what this driver makes of it is worth keeping.
      Artifact finished = device.driver->finish(*artifact);
      if (finished.format != CodeFormat::kPtx)
        artifact = device.context.cache->replace(choice.key, std::move(finished));
    }
    auto loaded = load(device, key.problem, *artifact);
    if (absl::IsDataLoss(loaded.status()) && outcome != CacheOutcome::kCompiled) {
      // A cubin of another driver's or assembler's time: what this driver makes of the compiler's PTX it
      // takes.
      if (!may_compile)
        return absl::NotFoundError(absl::StrCat(
            "the stored kernel is refused, and nothing is to be compiled: ", loaded.status().message()));
      device.context.logger.log(LogLevel::kInfo,
                                absl::StrCat("compiling again: ", loaded.status().message()));
      LATHE_ASSIGN_OR_RETURN(Artifact fresh, compile(device, key.problem, choice));
      outcome = CacheOutcome::kCompiled;
      loaded = load(device, key.problem, *device.context.cache->replace(choice.key, std::move(fresh)));
    }
    if (!loaded.ok()) return refused_code(loaded.status());
    kernel = device.kernels.insert(choice.key, *std::move(loaded));
  }
  const DispatchEntry* entry = device.table.insert(make_entry(key, kernel, choice.plan().launch.splits));
  return Prepared{entry, outcome};
}

DriverOptions driver_options(const lathe_context& context) {
  DriverOptions options;
  options.workers = context.options.workers;
  options.validate = context.options.validate;
  options.cpu_target = context.options.cpu_target;
  options.perf_map = context.options.perf_map;
  options.logger = context.logger;
  if (context.options.parallel_for != nullptr) {
    options.parallel_for = [call = context.options.parallel_for, user = context.options.parallel_for_user](
                               int64_t count, ParallelBody body, void* body_context) {
      call(user, count, body, body_context);
    };
  }
  return options;
}

absl::StatusOr<DeviceFacts> described_facts(const std::string& path, absl::string_view target) {
  absl::StatusOr<DeviceFacts> facts = load_facts(path);
  // A file that cannot be read is a wrong argument; kNotFound would say LATHE_MISS.
  if (!facts.ok())
    return absl::InvalidArgumentError(absl::StrCat("facts ", path, ": ", facts.status().message()));
  if (target.empty()) return facts;
  LATHE_ASSIGN_OR_RETURN(const Target wanted, parse_target(target));
  if (wanted.backend != facts->target.backend) {
    return absl::InvalidArgumentError(absl::StrCat("target ", target, " is of backend ",
                                                   name_of(wanted.backend), ", the facts ", path, " of ",
                                                   name_of(facts->target.backend)));
  }
  facts->target = wanted;
  return facts;
}

absl::Status check_runnable(const lathe_device& device) {
  if (device.driver != nullptr) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("device ", device.name, " is only described by facts: it plans and cannot run"));
}

uint64_t fingerprint_of(const lathe_device& device) {
  Json facts = Json::object();
  for (const auto& [name, fact] : device.facts.facts) facts[name] = fact.value;
  const std::string text = Json{{"facts", std::move(facts)}, {"target", to_json(device.facts.target)},
                                {"workers", device.workers}, {"codegen", std::string(codegen_id())},
                                {"oracle", LATHE_ORACLE_ID}, {"version", lathe_version()}}
                               .dump();
  return XXH3_64bits(text.data(), text.size());
}

namespace {

Json unavailable_json(const std::string& name, const absl::Status& reason) {
  return {{"name", name},
          {"available", false},
          {"reason", std::string(reason.message())},
          {"target", nullptr},
          {"facts", Json::object()}};
}

}  // namespace

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
    : context(owner),
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
