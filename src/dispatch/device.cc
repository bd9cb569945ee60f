#include "dispatch/device.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/idle_thread.h"
#include "core/json_object.h"
#include "dispatch/plan_records.h"
#include "kernels/candidates_external.h"
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

// A kernel may ask for no more than its class promises: it would be run on operands it cannot take.
absl::Status check_preconditions(const Recipe& recipe, const ProblemClass& c) {
  const bool promised = recipe.pointer_alignment <= 1 || c.alignment == Alignment::k16
                            ? recipe.pointer_alignment <= 16
                            : recipe.pointer_alignment <= alignment_bytes(c.alignment, c.a);
  if (promised) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the artifact asks for pointers aligned to ",
                                                 recipe.pointer_alignment,
                                                 " bytes, which its problem class does not promise"));
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
  DispatchEntry entry;
  entry.key = key;
  entry.kernel = kernel;
  entry.wanted_splits = wanted_splits;
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
  const ForkSafeLock lock(mutex_);
  const auto it = kernels_.find(key.text);
  return it == kernels_.end() ? nullptr : it->second.get();
}

const LoadedKernel* LoadedKernels::insert(const Key& key, std::unique_ptr<LoadedKernel> kernel) {
  const ForkSafeLock lock(mutex_);
  return kernels_.try_emplace(key.text, std::move(kernel)).first->second.get();
}

void LoadedKernels::note_refused(const Key& key, std::shared_ptr<const Artifact> fresh) {
  const ForkSafeLock lock(mutex_);
  refused_[key.text] = std::move(fresh);
}

bool LoadedKernels::was_refused(const Key& key, const std::shared_ptr<const Artifact>& artifact) const {
  const ForkSafeLock lock(mutex_);
  const auto it = refused_.find(key.text);
  return it != refused_.end() && it->second == artifact;
}

std::unique_lock<std::mutex> LoadedKernels::lock_compiling_again(const Key& key) {
  std::array<std::mutex, 16>& locks = compiling_again_.get();
  return std::unique_lock<std::mutex>(locks[std::hash<std::string>()(key.text) % locks.size()]);
}

std::vector<ExternalFound> find_externals(const lathe_device& device) {
  if (device.driver != nullptr) return device.driver->find_externals();
  std::vector<ExternalFound> all;
  for (const ExternalRow& row : external_rows()) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const ExternalFound& f) { return f.id == row.id; });
    if (row.backend == device.facts.target.backend && !known)
      all.push_back({row.id, "of a described device", ""});
  }
  return all;
}

ExternalChoice external_choice(const lathe_device& device, const DispatchKey& key) {
  if (key.external == ExternalUse::kDefault) return device.context.options.external;
  return {key.external, key.external_which};
}

ExternalPolicy external_policy(const lathe_device& device, const DispatchKey& key) {
  ExternalPolicy policy;
  policy.choice = external_choice(device, key);
  policy.threads = device.driver != nullptr ? device.driver->external_threads() : device.workers;
  if (policy.choice.use != ExternalUse::kOff) policy.found = find_externals(device);
  return policy;
}

bool is_external(const LoadedKernel& kernel) {
  const std::vector<Step>& steps = kernel.recipe().steps;
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& s) { return s.kind == StepKind::kHostExtern; });
}

absl::StatusOr<DispatchKey> without_external(const lathe_device& device, const DispatchKey& key) {
  if (external_choice(device, key).use == ExternalUse::kRequire || key.candidate != 0)
    return absl::NotFoundError("the external library alone was asked for");
  DispatchKey own = key;
  own.external = ExternalUse::kOff;
  own.external_which = ExternalId::kAny;
  return own;
}

void take_rank(const lathe_device& device, const DispatchKey& key, size_t rank, ChosenBy by, Choice* choice) {
  choice->rank = rank;
  choice->by = by;
  choice->key =
      key_of(key.problem, choice->plan().config, device.facts.target, codegen_for(device, key.problem));
}

namespace {

absl::StatusOr<OracleAnswer> ask_oracle(const lathe_device& device, const DispatchKey& key, Ranking ranking) {
  const std::shared_ptr<const std::vector<UserUkernel>> ukernels = device.context.ukernels.all();
  const OraclePolicy policy = {device.workers, key.split_k, external_policy(device, key), ukernels.get()};
  return ranking == Ranking::kWhole ? rank_plans(key.problem, device.facts, policy)
                                    : first_plan(key.problem, device.facts, policy);
}

}  // namespace

absl::StatusOr<Choice> choose_by_oracle(const lathe_device& device, const DispatchKey& key) {
  Choice choice;
  LATHE_ASSIGN_OR_RETURN(choice.answer, ask_oracle(device, key, Ranking::kWhole));
  const bool forced = key.candidate > 0 || key.split_k > 0;
  size_t rank = 0;
  if (key.candidate > 0) {
    rank = static_cast<size_t>(key.candidate) - 1;
    if (rank >= choice.answer.ranked.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("candidate ", key.candidate, " of ", choice.answer.ranked.size()));
    }
    if (rank >= choice.answer.legal) {
      return absl::InvalidArgumentError(absl::StrCat(
          "candidate ", key.candidate, " is not legal here: ", choice.answer.ranked[rank].rejection));
    }
  }
  take_rank(device, key, rank, forced ? ChosenBy::kRequest : ChosenBy::kOracle, &choice);
  return choice;
}

absl::StatusOr<Choice> choose_plan(const lathe_device& device, const DispatchKey& key, Ranking ranking) {
  // Who goes back to the vendor's library means it, whatever was measured.
  const ExternalUse use = external_choice(device, key).use;
  const bool means_it = use == ExternalUse::kPrefer || use == ExternalUse::kRequire;
  const bool forced = key.candidate > 0 || key.split_k > 0;
  const std::optional<PlanRecord> record =
      means_it || forced ? std::nullopt : find_tuning(device, key.problem);
  if (!record && !forced && ranking == Ranking::kChoiceAlone) {
    Choice first;
    LATHE_ASSIGN_OR_RETURN(first.answer, ask_oracle(device, key, ranking));
    take_rank(device, key, 0, ChosenBy::kOracle, &first);
    return first;
  }
  absl::StatusOr<Choice> choice = choose_by_oracle(device, key);
  if (!choice.ok() || !record) return choice;
  if (const std::optional<size_t> rank = recorded_rank(choice->answer, key.problem, *record)) {
    take_rank(device, key, *rank, ChosenBy::kTuning, &*choice);
    return choice;
  }
  const bool first = !device.context.told_of_foreign_tuning.exchange(true);
  device.context.logger.log(
      first ? LogLevel::kWarning : LogLevel::kDebug,
      absl::StrCat("tuning: ", describe_class(device, key.problem), ": the record names a ",
                   record->config.kernel, " kernel that is no candidate here; the oracle's choice stays"));
  return choice;
}

absl::StatusOr<Choice> choice_of(const lathe_device& device, const DispatchEntry& entry) {
  DispatchKey key = entry.key;
  if (entry.without_external) {
    LATHE_ASSIGN_OR_RETURN(key, without_external(device, key));
  }
  absl::StatusOr<Choice> choice = choose_by_oracle(device, key);
  if (!choice.ok()) return choice;
  std::vector<RankedPlan>& ranked = choice->answer.ranked;
  const auto is_it = [&](const RankedPlan& r) {
    return r.plan.config == entry.plan.config && r.plan.launch.splits == entry.plan.launch.splits;
  };
  const auto found = std::find_if(ranked.begin(), ranked.end(), is_it);
  const auto rank = static_cast<size_t>(found - ranked.begin());
  if (found == ranked.end()) ranked.push_back({entry.plan, ""});  // a user's ukernel that was removed since
  take_rank(device, key, rank, entry.by, &*choice);
  return choice;
}

const Json* pipeline_for(const lathe_device& device, const ProblemClass& c, const CompileConfig& config) {
  if (!config.external.provider.empty()) return nullptr;  // nothing is compiled
  return device.context.pipelines.find(c.op, device.facts.target.backend);
}

std::string codegen_for(const lathe_device& device, const ProblemClass& c) {
  return device.context.pipelines.codegen_of(c.op, device.facts.target.backend);
}

Dims largest_request(const ProblemClass& c) {
  const int64_t n = c.op == Op::kArgmax ? c.row_hi : c.op == Op::kElementwise ? Bucket::kOpenEnd : c.n;
  return {c.m_hi, n, c.k, 1};
}

absl::StatusOr<std::shared_ptr<const ElementwiseProgram>> program_for(const lathe_device& device,
                                                                      const ProblemClass& c) {
  std::shared_ptr<const ElementwiseProgram> program;
  if (c.op != Op::kElementwise) return program;
  program = device.context.programs.find(c);
  if (program != nullptr) return program;
  return absl::UnavailableError("the program is in no manifest and no request that this context has seen");
}

std::string describe_class(const lathe_device& device, const ProblemClass& c) {
  return absl::StrCat(describe(c, largest_request(c)), " on ", device.name);
}

namespace {

// As the compiler makes it, and as the device's driver finishes it. Counted and timed.
absl::StatusOr<Artifact> compile(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                 Urgency urgency) {
  lathe_context& context = device.context;
  // Ahead of the timer: the library's load is reported apart from compiling. The loader's lock is the host's,
  // and is not held idly; a process that compiles idly is started so.
  if (urgency == Urgency::kNow || context.options.compiler_in_process)
    LATHE_RETURN_IF_ERROR(context.compiler->load());
  const auto start = Trace::Clock::now();
  ScopedTimer timer(&context.counters.compile_nanoseconds);
  const CompileConfig& config = choice.plan().config;
  const std::string bitcode = context.ukernels.bitcode_of(config.ukernel);
  LATHE_ASSIGN_OR_RETURN(const auto program, program_for(device, problem));
  const CompileRequest request = {problem,
                                  config,
                                  device.facts.target,
                                  device.assembler(),
                                  pipeline_for(device, problem, config),
                                  bitcode,
                                  program == nullptr ? absl::string_view() : program->text};
  absl::StatusOr<Artifact> artifact = absl::InternalError("");
  const auto run = [&] { artifact = context.compiler->compile(request); };
  if (urgency == Urgency::kIdle)
    run_idly(run);
  else
    run();
  if (context.trace.enabled()) {
    context.trace.span(
        "compile", describe(problem, largest_request(problem)), start,
        json_object("device", device.name, "kernel", choice.plan().config.kernel, "key",
                    choice.key.fingerprint, "error", std::string(artifact.status().message())));
  }
  if (artifact.ok()) report_assembly(device, *artifact);
  (artifact.ok() ? context.counters.compiles : context.counters.compile_failures)
      .fetch_add(1, std::memory_order_relaxed);
  if (!artifact.ok() || device.driver == nullptr) return artifact;
  return device.driver->finish(*std::move(artifact));
}

}  // namespace

bool refuses_code(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status);
}

absl::StatusOr<std::unique_ptr<LoadedKernel>> load_artifact(lathe_device& device, const ProblemClass& problem,
                                                            const Artifact& artifact) {
  LATHE_RETURN_IF_ERROR(check_preconditions(artifact.recipe, problem));
  const lathe_context& context = device.context;
  const auto start = Trace::Clock::now();
  device.context.counters.kernel_loads.fetch_add(1, std::memory_order_relaxed);
  ScopedTimer timer(&device.context.counters.link_nanoseconds);
  auto loaded = device.driver->load(artifact);
  if (context.trace.enabled()) {
    const Json symbol = artifact.recipe.steps.empty() ? Json(nullptr) : Json(artifact.recipe.steps[0].symbol);
    context.trace.span("load", describe(problem, largest_request(problem)), start,
                       json_object("device", device.name, "symbol", symbol, "error",
                                   std::string(loaded.status().message())));
  }
  return loaded;
}

absl::StatusOr<CacheResult> get_artifact(lathe_device& device, const ProblemClass& problem,
                                         const Choice& choice, const Making& making) {
  ArtifactCache& cache = *device.context.cache;
  if (!making.may_compile) {
    absl::StatusOr<CacheResult> found = cache.get(choice.key);
    if (!absl::IsNotFound(found.status())) return found;
    if (making.before_compile != nullptr) LATHE_RETURN_IF_ERROR(making.before_compile());
    return miss_error("no store has its kernel, and nothing is to be compiled");
  }
  return cache.get_or_create(
      choice.key, [&] { return compile(device, problem, choice, making.urgency); }, making.before_compile,
      making.urgency);
}

namespace {

// PTX that a described device or another machine left: what this driver makes of it is worth keeping.
void finish_stored(lathe_device& device, const Key& key, CacheResult* found) {
  if (found->artifact->format != CodeFormat::kPtx || found->outcome == CacheOutcome::kCompiled) return;
  Artifact finished = device.driver->finish(*found->artifact);
  if (finished.format != CodeFormat::kPtx)
    found->artifact = device.context.cache->replace(key, std::move(finished));
}

// In the place of an artifact of the stores that the device refuses: a cubin of another driver's time, or a
// whole entry of the right key whose code is not what the compiler makes for it.
absl::StatusOr<CacheResult> compile_again(lathe_device& device, const ProblemClass& problem,
                                          const Choice& choice, const Making& making,
                                          const std::shared_ptr<const Artifact>& refused,
                                          const absl::Status& refusal) {
  const std::string why = absl::StrCat("the stored kernel ", choice.key.fingerprint,
                                       " is refused by the device: ", refusal.message());
  device.context.logger.log(LogLevel::kWarning,
                            absl::StrCat("cache: ", describe_class(device, problem), ": ", why));
  if (making.before_compile != nullptr) LATHE_RETURN_IF_ERROR(making.before_compile());
  if (!making.may_compile) return miss_error(absl::StrCat(why, "; and nothing is to be compiled"));
  ArtifactCache& cache = *device.context.cache;
  std::unique_lock<std::mutex> lock;
  if (making.urgency == Urgency::kNow) lock = device.kernels.lock_compiling_again(choice.key);
  // Another thread that met the refusal may have replaced it by now.
  absl::StatusOr<CacheResult> now = cache.get(choice.key);
  if (now.ok() && now->artifact != refused) return now;
  absl::StatusOr<Artifact> fresh = compile(device, problem, choice, making.urgency);
  if (!fresh.ok())
    return absl::Status(fresh.status().code(), absl::StrCat(fresh.status().message(), "; ", why));
  return CacheResult{cache.replace(choice.key, *std::move(fresh)), CacheOutcome::kCompiled};
}

}  // namespace

absl::StatusOr<Loaded> load_kernel(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                   const Making& making) {
  if (const LoadedKernel* kernel = device.kernels.find(choice.key)) {
    device.context.counters.loaded_hits.fetch_add(1, std::memory_order_relaxed);
    return Loaded{kernel, CacheOutcome::kMemoryHit};
  }
  LATHE_ASSIGN_OR_RETURN(CacheResult found, get_artifact(device, problem, choice, making));
  finish_stored(device, choice.key, &found);
  auto loaded = load_artifact(device, problem, *found.artifact);
  if (refuses_code(loaded.status()) && found.outcome != CacheOutcome::kCompiled &&
      !device.kernels.was_refused(choice.key, found.artifact)) {
    LATHE_ASSIGN_OR_RETURN(found,
                           compile_again(device, problem, choice, making, found.artifact, loaded.status()));
    loaded = load_artifact(device, problem, *found.artifact);
  }
  if (refuses_code(loaded.status())) {
    // A driver calls code that it cannot take a wrong argument; to the API's caller it is a defect of this
    // library's.
    device.kernels.note_refused(choice.key, found.artifact);
    return absl::InternalError(
        absl::StrCat("the device refuses the kernel's code: ", loaded.status().message()));
  }
  LATHE_RETURN_IF_ERROR(loaded.status());
  return Loaded{device.kernels.insert(choice.key, *std::move(loaded)), found.outcome};
}

absl::StatusOr<Prepared> prepare_kernel(lathe_device& device, const DispatchKey& key, const Choice& choice,
                                        const Making& making) {
  absl::StatusOr<Loaded> loaded = load_kernel(device, key.problem, choice, making);
  const Choice* taken = &choice;
  absl::StatusOr<Choice> own_choice;
  if (absl::IsUnavailable(loaded.status()) && !choice.plan().config.external.provider.empty()) {
    const absl::StatusOr<DispatchKey> own = without_external(device, key);
    if (!own.ok()) return loaded.status();
    device.context.logger.log(LogLevel::kWarning, absl::StrCat(device.name, ": ", loaded.status().message(),
                                                               "; Lathe's own kernel instead"));
    own_choice = choose_plan(device, *own, Ranking::kChoiceAlone);
    if (!own_choice.ok()) return own_choice.status();
    taken = &*own_choice;
    loaded = load_kernel(device, key.problem, *taken, making);
  }
  if (!loaded.ok()) return loaded.status();
  DispatchEntry entry = make_entry(key, loaded->kernel, taken->plan().launch.splits);
  entry.plan = taken->plan();
  entry.by = taken->by;
  entry.without_external = taken != &choice;
  return Prepared{device.table.insert(entry), loaded->outcome};
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

absl::StatusOr<DeviceFacts> described_facts(const std::string& path, absl::string_view target,
                                            const Logger& logger) {
  absl::StatusOr<DeviceFacts> facts = load_facts(path);
  // A file that cannot be read is a wrong argument.
  if (!facts.ok())
    return absl::InvalidArgumentError(absl::StrCat("facts ", path, ": ", facts.status().message()));
  if (target.empty()) return facts;
  LATHE_ASSIGN_OR_RETURN(const Target wanted, parse_target(target));
  if (wanted.backend != facts->target.backend) {
    return absl::InvalidArgumentError(absl::StrCat("target ", target, " is of backend ",
                                                   name_of(wanted.backend), ", the facts ", path, " of ",
                                                   name_of(facts->target.backend)));
  }
  if (wanted.arch != facts->target.arch)
    logger.log(LogLevel::kWarning,
               absl::StrCat("facts ", path, ": of ", facts->target.arch, "; what is planned for ", target,
                            " is planned with its sizes and rates"));
  facts->target = wanted;
  return facts;
}

absl::Status check_assembler(const lathe_context& context, const Target& target) {
  const std::optional<AssemblerSearch>& search = context.options.assembler;
  if (target.backend != Backend::kCuda || !search || search->ptxas.empty()) return absl::OkStatus();
  if (access(search->ptxas.c_str(), X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("LATHE_PTXAS: ", search->ptxas, ": ", strerror(errno)));
}

absl::Status check_runnable(const lathe_device& device) {
  if (device.driver != nullptr) return absl::OkStatus();
  if (device.facts.target.backend == Backend::kSpirv)
    return absl::UnavailableError(absl::StrCat("device ", device.name, ": target ", device.facts.target.arch,
                                               " is compile-only: its kernels are compiled and kept, and "
                                               "nothing here runs them"));
  return absl::UnavailableError(
      absl::StrCat("device ", device.name, " is only described by facts: it plans and cannot run"));
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

namespace {

Json unavailable_json(const std::string& name, const absl::Status& reason) {
  return json_object("name", name, "available", false, "reason", std::string(reason.message()), "target",
                     nullptr, "facts", Json::object());
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
