// The body of a lathe_device: facts, driver, dispatch table, and the way from a miss to a loaded kernel.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/fork_safe_mutex.h"
#include "base/per_process.h"
#include "core/key.h"
#include "dispatch/context.h"
#include "dispatch/dispatch_table.h"
#include "oracle/oracle.h"
#include "request/request.h"
#include "runtime/driver.h"

namespace lathe {

// Every kernel a device has loaded, by the text of its key. Kernels unload when the device closes.
class LoadedKernels {
 public:
  // Null when absent.
  const LoadedKernel* find(const Key& key) const;
  // Keeps the first kernel of a key: a thread that lost the race gets the winner's, and its own object goes.
  // The code it loaded stays with the driver until the device closes.
  const LoadedKernel* insert(const Key& key, std::unique_ptr<LoadedKernel> kernel);

  // An artifact that was compiled afresh and that the device refuses: once more would bring the same.
  void note_refused(const Key& key, std::shared_ptr<const Artifact> fresh);
  bool was_refused(const Key& key, const std::shared_ptr<const Artifact>& artifact) const;
  // Held while a refused artifact of the key is compiled again. Other keys may share it; a forked child
  // begins anew.
  std::unique_lock<std::mutex> lock_compiling_again(const Key& key);

 private:
  mutable ForkSafeMutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<LoadedKernel>> kernels_;    // under mutex_
  std::unordered_map<std::string, std::shared_ptr<const Artifact>> refused_;  // under mutex_
  PerProcess<std::array<std::mutex, 16>> compiling_again_;
};

}  // namespace lathe

struct lathe_device {
  // A device with a driver, or (null driver) one that is only described by `facts`.
  lathe_device(lathe_context& owner, std::string device_name, lathe::DeviceFacts device_facts,
               std::unique_ptr<lathe::Driver> device_driver);
  ~lathe_device();

  // Where this device's PTX is assembled by the compiler: null with a driver, which does it itself.
  const lathe::AssemblerSearch* assembler() const {
    return driver == nullptr && context.options.assembler ? &*context.options.assembler : nullptr;
  }

  lathe::RequestContext request_context() const {
    return {name, is_cpu, context.misses.policy(), dependent_launch};
  }

  const uint64_t serial;  // no other device of the process had it or will
  lathe_context& context;
  const std::string name;
  const lathe::DeviceFacts facts;
  const bool is_cpu;
  const bool dependent_launch;  // its kernels may start beside the one before
  const std::unique_ptr<lathe::Driver> driver;
  const int32_t workers;         // what the oracle may count on
  lathe::LoadedKernels kernels;  // after the driver: unloaded before it goes
  lathe::DispatchTable table;
  lathe::DispatchTable generic;  // kernels of LATHE_MISS_FALLBACK, by their generic class
};

namespace lathe {

// What a request says of external libraries, or its context for it.
ExternalChoice external_choice(const lathe_device& device, const DispatchKey& key);
// What the oracle is told of them; where none is to be used nothing is looked for.
ExternalPolicy external_policy(const lathe_device& device, const DispatchKey& key);
// Those of the device's backend, opened if they were not. A described device is taken to have them all.
std::vector<ExternalFound> find_externals(const lathe_device& device);
// Whether a library does the kernel's work.
bool is_external(const LoadedKernel& kernel);
// The request without external libraries; kNotFound where it is to be nothing else.
absl::StatusOr<DispatchKey> without_external(const lathe_device& device, const DispatchKey& key);

// What the oracle said of a class on a device, and which candidate the request takes.
struct Choice {
  OracleAnswer answer;  // Ranking::kChoiceAlone: perhaps no more than the choice
  size_t rank = 0;      // index into answer.ranked
  ChosenBy by = ChosenBy::kOracle;
  Key key;

  const Plan& plan() const { return answer.ranked[rank].plan; }
};
// What the class' kernels are compiled by; null: the built-in pipeline.
const Json* pipeline_for(const lathe_device& device, const ProblemClass& c, const CompileConfig& config);
// The codegen id in their keys.
std::string codegen_for(const lathe_device& device, const ProblemClass& c);

// kUnimplemented when no candidate is legal; kInvalidArgument for a forced candidate that does not exist or
// is rejected, with the reason. The oracle's, or the request's, alone. The whole ranking, to look others up
// in or to show.
absl::StatusOr<Choice> choose_by_oracle(const lathe_device& device, const DispatchKey& key);
// The same where no tuning record says otherwise. One that names no candidate of today's is a warning, once a
// context. Of a `ranking` that nobody reads the rest of, the choice alone is worked out.
enum class Ranking { kWhole, kChoiceAlone };
absl::StatusOr<Choice> choose_plan(const lathe_device& device, const DispatchKey& key,
                                   Ranking ranking = Ranking::kWhole);
// What an entry of the table was made of.
absl::StatusOr<Choice> choice_of(const lathe_device& device, const DispatchEntry& entry);
// Has the choice be that candidate of its answer.
void take_rank(const lathe_device& device, const DispatchKey& key, size_t rank, ChosenBy by, Choice* choice);

// Of one matrix. An open range's end is no request that anyone makes: for texts and sizes.
Dims largest_request(const ProblemClass& c);
// Null: not an elementwise op's. kUnavailable: the context has not met the program.
absl::StatusOr<std::shared_ptr<const ElementwiseProgram>> program_for(const lathe_device& device,
                                                                      const ProblemClass& c);
// That request: "matmul f32 a=n b=t m=16 n=4096 k=33 batch=1 on cpu".
std::string describe_class(const lathe_device& device, const ProblemClass& c);

// How what no store has is made.
using BeforeCompile = ArtifactCache::BeforeWait;
struct Making {
  // False: a miss_error in the compiler's place, and an artifact of the stores that the device refuses is not
  // made again.
  bool may_compile = true;
  // Where it is given: asked when no store has it, before anybody's compile is waited for; its error comes in
  // the compiler's place.
  BeforeCompile before_compile = nullptr;
  // kIdle: by a thread that runs where nothing else wants the core.
  Urgency urgency = Urgency::kNow;
};

// From memory, disk or the compiler: counted, timed. Needs no driver.
absl::StatusOr<CacheResult> get_artifact(lathe_device& device, const ProblemClass& problem,
                                         const Choice& choice, const Making& making = {});

// The artifact's code on the device, which must have a driver: counted, timed, traced. refuses_code() of an
// error: the artifact is to blame, another may do.
absl::StatusOr<std::unique_ptr<LoadedKernel>> load_artifact(lathe_device& device, const ProblemClass& problem,
                                                            const Artifact& artifact);
bool refuses_code(const absl::Status& status);

// The table's entry for a kernel; with the launch config where the class alone decides it.
DispatchEntry make_entry(const DispatchKey& key, const LoadedKernel* kernel, int32_t wanted_splits);

struct Loaded {
  const LoadedKernel* kernel;
  CacheOutcome outcome;
};
// The choice's kernel on the device, which must have a driver. An artifact of the stores that the device
// refuses is as a miss: compiled, and replaced where it lay; a miss_error where it may not be. kInternal
// where the device refuses what was compiled just now.
absl::StatusOr<Loaded> load_kernel(lathe_device& device, const ProblemClass& problem, const Choice& choice,
                                   const Making& making = {});
struct Prepared {
  const DispatchEntry* entry;
  CacheOutcome outcome;
};
// Loads the choice's kernel onto the device and enters it into the dispatch table: Lathe's own where an
// external library that was chosen cannot be used after all. The device must have a driver.
absl::StatusOr<Prepared> prepare_kernel(lathe_device& device, const DispatchKey& key, const Choice& choice,
                                        const Making& making = {});

DriverOptions driver_options(const lathe_context& context);
// The facts file at `path`, for `target` ("": the file's own; of another one the logger is told).
absl::StatusOr<DeviceFacts> described_facts(const std::string& path, absl::string_view target,
                                            const Logger& logger);
// kInvalidArgument where PTX is to be assembled by a program that was named and is none.
absl::Status check_assembler(const lathe_context& context, const Target& target);

// kUnavailable for a device that is only described.
absl::Status check_runnable(const lathe_device& device);

// Facts (their values, not their sources), target, workers, codegen id, oracle id, library version and the
// context's tuning file.
uint64_t fingerprint_of(const lathe_device& device);
// lathe_devices' JSON.
Json devices_json(const lathe_context& context);

}  // namespace lathe
