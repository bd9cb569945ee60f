#include "dispatch/prepare.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/idle_thread.h"
#include "core/json_object.h"
#include "dispatch/class_on_device.h"
#include "dispatch/device.h"
#include "dispatch/externals.h"
#include "dispatch/plan_records.h"

namespace lathe {
namespace {

// The steps below prepare_class(), in order.

// Finds, compiles, loads and publishes the kernel of one choice. CacheOutcome::kStopped: the policy's
// before_compile said so, and nothing was prepared.
absl::StatusOr<PreparedClass> prepare_choice(lathe_device& device, const DispatchKey& key,
                                             const Choice& choice, const CompilePolicy& policy);
// Null if this device has not loaded the kernel.
const LoadedKernel* find_loaded(lathe_device& device, const Key& key);
// Compiles the choice's kernel; the device's driver finishes it, if there is one. Counted, timed and traced.
absl::StatusOr<Artifact> compile(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                 Urgency urgency);
// Loads an artifact. If it comes from a store and the device refuses it, it is compiled again and replaced.
absl::StatusOr<Loaded> load_found(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                  const CompilePolicy& policy, CacheResult found);
// Enters the kernel of the choice into the dispatch table.
PreparedClass publish(lathe_device& device, const DispatchKey& key, const Choice& choice,
                      const Loaded& loaded, bool without_external);
// Writes the class's plan record, best effort: the cache has already logged a store that cannot be written.
void record_plan(const lathe_device& device, const DispatchKey& key, const Choice& choice);

CompilePolicy policy_for(PrepareFor purpose) {
  CompilePolicy policy;
  policy.may_compile = purpose != PrepareFor::kNoMiss;
  policy.urgency = purpose == PrepareFor::kIdle ? Urgency::kIdle : Urgency::kNow;
  return policy;
}

// Whether the kernel of a plan record is used without trying to compile the choice.
bool serves(const RecordedChoice& recorded, PrepareFor purpose) {
  return !recorded.is_outdated || purpose == PrepareFor::kCall || purpose == PrepareFor::kNoMiss;
}

}  // namespace

absl::StatusOr<PreparedClass> prepare_class(lathe_device& device, const DispatchKey& key,
                                            PrepareFor purpose) {
  // Step 1: choose.
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choose_plan(device, key, Ranking::kChoiceAlone));

  // Steps 2 to 5: find, compile, load, publish. If no store has the kernel, a plan record may name a stored one,
  // which saves compiling.
  const CompilePolicy policy = policy_for(purpose);
  std::optional<RecordedChoice> recorded;
  CompilePolicy unless_recorded = policy;
  unless_recorded.before_compile = [&] {
    recorded = find_recorded_choice(device, key, choice);
    return recorded && serves(*recorded, purpose) ? OnMiss::kStop : OnMiss::kCompile;
  };
  absl::StatusOr<PreparedClass> prepared = prepare_choice(device, key, choice, unless_recorded);

  // The kernel of the plan record, if it serves or if the choice failed. If that fails too, the choice again.
  const bool stopped = prepared.ok() && prepared->outcome == CacheOutcome::kStopped;
  if (recorded && (stopped || !prepared.ok())) {
    if (recorded->is_outdated && purpose == PrepareFor::kCall)  // a full queue leaves it to the next process
      (void)device.context.background.submit(device, key, JobKind::kRefresh);
    absl::StatusOr<PreparedClass> by_record = prepare_choice(device, key, recorded->choice, policy);
    if (by_record.ok()) return by_record;
    if (stopped) prepared = prepare_choice(device, key, choice, policy);
  }

  // The oracle's choice was compiled: later processes may use it by its record.
  if (prepared.ok() && prepared->outcome == CacheOutcome::kCompiled && choice.by == ChosenBy::kOracle &&
      !is_asked_for(device, choice))
    record_plan(device, key, choice);
  return prepared;
}

absl::Status refresh_class(lathe_device& device, const DispatchKey& key) {
  LATHE_ASSIGN_OR_RETURN(const Choice choice, choose_plan(device, key, Ranking::kChoiceAlone));
  if (choice.by != ChosenBy::kOracle || is_asked_for(device, choice)) return absl::OkStatus();
  CompilePolicy policy;
  policy.urgency = Urgency::kIdle;
  LATHE_RETURN_IF_ERROR(find_or_compile(device, key.problem, choice, policy).status());
  record_plan(device, key, choice);
  return absl::OkStatus();
}

namespace {

// As prepare_choice, after an external library that was chosen could not be used: Lathe's own kernel instead.
absl::StatusOr<PreparedClass> prepare_without_external(lathe_device& device, const DispatchKey& key,
                                                       const Choice& choice, const CompilePolicy& policy,
                                                       const absl::Status& why) {
  const std::optional<DispatchKey> own_key = without_external(device, key);
  if (!own_key) return why;
  device.context.logger.log(LogLevel::kWarning, absl::StrCat(device.name, ": ", why.message(),
                                                             "; Lathe's own kernel is used instead"));
  LATHE_ASSIGN_OR_RETURN(const Choice own, choose_plan(device, *own_key, Ranking::kChoiceAlone));
  LATHE_ASSIGN_OR_RETURN(const Loaded loaded, load_kernel(device, key.problem, own, policy));
  PreparedClass prepared = {nullptr, loaded.outcome, ""};
  if (loaded.kernel != nullptr) prepared = publish(device, key, own, loaded, /*without_external=*/true);
  prepared.kernel = std::string(name_of(choice.plan().config.kernel()));
  return prepared;
}

absl::StatusOr<PreparedClass> prepare_choice(lathe_device& device, const DispatchKey& key,
                                             const Choice& choice, const CompilePolicy& policy) {
  const CompileConfig& config = choice.plan().config;
  if (device.driver == nullptr) {  // a described device: there is nothing to load
    LATHE_ASSIGN_OR_RETURN(const CacheResult found, find_or_compile(device, key.problem, choice, policy));
    return PreparedClass{nullptr, found.outcome, std::string(name_of(config.kernel()))};
  }
  const absl::StatusOr<Loaded> loaded = load_kernel(device, key.problem, choice, policy);
  if (absl::IsUnavailable(loaded.status()) && !config.external.provider.empty())
    return prepare_without_external(device, key, choice, policy, loaded.status());
  LATHE_RETURN_IF_ERROR(loaded.status());
  if (loaded->kernel == nullptr)
    return PreparedClass{nullptr, loaded->outcome, std::string(name_of(config.kernel()))};
  return publish(device, key, choice, *loaded, /*without_external=*/false);
}

}  // namespace

absl::StatusOr<Loaded> load_kernel(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                   const CompilePolicy& policy) {
  if (const LoadedKernel* kernel = find_loaded(device, choice.key))
    return Loaded{kernel, CacheOutcome::kMemoryHit};
  LATHE_ASSIGN_OR_RETURN(CacheResult found, find_or_compile(device, problem, choice, policy));
  if (found.outcome == CacheOutcome::kStopped) return Loaded{nullptr, found.outcome};
  return load_found(device, problem, choice, policy, std::move(found));
}

// ---- Find

namespace {

const LoadedKernel* find_loaded(lathe_device& device, const Key& key) {
  const LoadedKernel* kernel = device.kernels.find(key);
  if (kernel != nullptr) device.context.counters.loaded_hits.fetch_add(1, std::memory_order_relaxed);
  return kernel;
}

}  // namespace

absl::StatusOr<CacheResult> find_or_compile(lathe_device& device, const ProblemClass& problem,
                                            const Choice& choice, const CompilePolicy& policy) {
  ArtifactCache& cache = *device.context.cache;
  if (policy.may_compile) {
    return cache.get_or_create(
        choice.key, [&] { return compile(device, problem, choice, policy.urgency); }, policy.before_compile,
        policy.urgency);
  }
  absl::StatusOr<CacheResult> found = cache.get(choice.key);
  if (!absl::IsNotFound(found.status())) return found;
  if (policy.before_compile != nullptr && policy.before_compile() == OnMiss::kStop)
    return CacheResult{nullptr, CacheOutcome::kStopped};
  return miss_error("no store has its kernel, and compiling is not allowed");
}

// ---- Compile

namespace {

// Warns once that the driver has to assemble PTX, and logs each complaint of a kernel's assembler.
void report_assembly(lathe_device& device, const Artifact& artifact) {
  if (device.assembler() == nullptr) return;
  lathe_context& context = device.context;
  if (artifact.format == CodeFormat::kPtx && !context.told_of_no_assembler.exchange(true)) {
    context.logger.log(LogLevel::kWarning,
                       absl::StrCat(device.name,
                                    ": no ptxas or libnvJitLink here can assemble its PTX, so "
                                    "the driver will when it loads a kernel"));
  }
  const absl::StatusOr<Json> metadata = parse_json(artifact.metadata, "metadata");
  if (!metadata.ok() || !metadata->contains("messages")) return;
  for (const Json& message : (*metadata)["messages"])
    context.logger.log(LogLevel::kWarning, absl::StrCat(device.name, ": ", message.get<std::string>()));
}

absl::StatusOr<Artifact> compile(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                 Urgency urgency) {
  lathe_context& context = device.context;
  // Load the compiler before the timer starts, since loading is reported separately. This thread has normal
  // priority, so the dynamic linker's lock is not held by an idle one. A compiler process for idle work is
  // started in run_idly(), at idle priority.
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
        json_object("device", device.name, "kernel", std::string(name_of(choice.plan().config.kernel())),
                    "key", choice.key.fingerprint, "error", std::string(artifact.status().message())));
  }
  if (artifact.ok()) report_assembly(device, *artifact);
  (artifact.ok() ? context.counters.compiles : context.counters.compile_failures)
      .fetch_add(1, std::memory_order_relaxed);
  if (!artifact.ok() || device.driver == nullptr) return artifact;
  return device.driver->finish(*std::move(artifact));
}

// Replaces a stored artifact that the device refuses, such as a cubin for another driver version, or an entry
// with the right key but code that the compiler did not make.
absl::StatusOr<CacheResult> compile_again(lathe_device& device, const ProblemClass& problem,
                                          const Choice& choice, const CompilePolicy& policy,
                                          const std::shared_ptr<const Artifact>& refused,
                                          const absl::Status& refusal) {
  const std::string why = absl::StrCat("the stored kernel ", choice.key.fingerprint,
                                       " is refused by the device: ", refusal.message());
  device.context.logger.log(LogLevel::kWarning,
                            absl::StrCat("cache: ", describe_class(device, problem), ": ", why));
  if (policy.before_compile != nullptr && policy.before_compile() == OnMiss::kStop)
    return CacheResult{nullptr, CacheOutcome::kStopped};
  if (!policy.may_compile) return miss_error(absl::StrCat(why, "; compiling it again is not allowed"));
  ArtifactCache& cache = *device.context.cache;
  std::unique_lock<std::mutex> lock;
  if (policy.urgency == Urgency::kNow) lock = device.kernels.lock_compiling_again(choice.key);
  // Another thread may have replaced the artifact while this one waited for the lock.
  absl::StatusOr<CacheResult> now = cache.get(choice.key);
  if (now.ok() && now->artifact != refused) return now;
  absl::StatusOr<Artifact> fresh = compile(device, problem, choice, policy.urgency);
  if (!fresh.ok())
    return absl::Status(fresh.status().code(), absl::StrCat(fresh.status().message(), "; ", why));
  return CacheResult{cache.replace(choice.key, *std::move(fresh)), CacheOutcome::kCompiled};
}

}  // namespace

// ---- Load

namespace {

// A kernel must not require more than its class promises, since it would run on operands that it cannot take.
absl::Status check_preconditions(const Recipe& recipe, const ProblemClass& c) {
  const bool promised = recipe.pointer_alignment <= 1 || c.alignment == Alignment::k16
                            ? recipe.pointer_alignment <= 16
                            : recipe.pointer_alignment <= alignment_bytes(c.alignment, c.a);
  if (promised) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the artifact requires pointers aligned to ",
                                                 recipe.pointer_alignment,
                                                 " bytes, which its problem class does not promise"));
}

// A stored artifact may still be PTX, written for a described device or on another machine. If this driver can
// assemble it, the result replaces it in the stores.
void finish_stored(lathe_device& device, const Key& key, CacheResult* found) {
  if (found->artifact->format != CodeFormat::kPtx || found->outcome == CacheOutcome::kCompiled) return;
  Artifact finished = device.driver->finish(*found->artifact);
  if (finished.format != CodeFormat::kPtx)
    found->artifact = device.context.cache->replace(key, std::move(finished));
}

absl::StatusOr<Loaded> load_found(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                  const CompilePolicy& policy, CacheResult found) {
  finish_stored(device, choice.key, &found);
  auto loaded = load_artifact(device, problem, *found.artifact);
  if (refuses_code(loaded.status()) && found.outcome != CacheOutcome::kCompiled &&
      !device.kernels.was_refused(choice.key, found.artifact)) {
    LATHE_ASSIGN_OR_RETURN(found,
                           compile_again(device, problem, choice, policy, found.artifact, loaded.status()));
    if (found.outcome == CacheOutcome::kStopped) return Loaded{nullptr, found.outcome};
    loaded = load_artifact(device, problem, *found.artifact);
  }
  if (refuses_code(loaded.status())) {
    // The driver reports a wrong argument or a damaged file. For the caller of the API it is a defect of Lathe.
    device.kernels.note_refused(choice.key, found.artifact);
    return absl::InternalError(
        absl::StrCat("the device refuses the kernel's code: ", loaded.status().message()));
  }
  LATHE_RETURN_IF_ERROR(loaded.status());
  return Loaded{device.kernels.insert(choice.key, *std::move(loaded)), found.outcome};
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

// ---- Publish

namespace {

// True if the formula has the same value for every M and batch.
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

PreparedClass publish(lathe_device& device, const DispatchKey& key, const Choice& choice,
                      const Loaded& loaded, bool without_external) {
  DispatchEntry entry = make_entry(key, loaded.kernel, choice.plan().launch.splits);
  entry.plan = choice.plan();
  entry.by = choice.by;
  entry.without_external = without_external;
  return {device.table.insert(entry), loaded.outcome, std::string(name_of(choice.plan().config.kernel()))};
}

void record_plan(const lathe_device& device, const DispatchKey& key, const Choice& choice) {
  PlanRecord record = make_record(device, RecordKind::kPlan, key.problem);
  record.config = choice.plan().config;
  record.splits = choice.plan().launch.splits;
  (void)device.context.cache->write_record(record);
}

}  // namespace

DispatchEntry make_entry(const DispatchKey& key, const LoadedKernel* kernel, int32_t wanted_splits) {
  DispatchEntry entry;
  entry.key = key;
  entry.kernel = kernel;
  entry.wanted_splits = wanted_splits;
  const ProblemClass& c = key.problem;
  if (has_row_lengths(c.op)) return entry;  // the length of argmax's rows varies within a class
  const Recipe& recipe = kernel->recipe();
  const LaunchConfig launch = make_launch_config(recipe, c, {c.m_lo, c.n, c.k, 1}, wanted_splits);
  if (is_fixed(recipe.workspace_bytes, launch) && is_fixed(recipe.scratch_bytes_per_worker, launch) &&
      is_fixed(recipe.counters, launch)) {
    entry.launch_is_fixed = true;
    entry.fixed_launch = launch;
  }
  return entry;
}

}  // namespace lathe
