// External libraries as the runtime meets them: opened by name where one is wanted, never linked. The few
// declarations of their interfaces that are needed are written here, in each library's file.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/per_process.h"
#include "core/args.h"
#include "core/external.h"
#include "core/facts.h"
#include "core/recipe.h"

namespace lathe {

// What a launch lends a library.
struct ExternalSite {
  int32_t threads = 1;         // CPU: its own threads, the caller's counted
  void* stream = nullptr;      // GPU
  size_t workspace_bytes = 0;  // at the block's `workspace`
};

// A host_extern step, its routine found. Lives no longer than its library.
class ExternalCall {
 public:
  virtual ~ExternalCall() = default;
  // Does the op with the block's true sizes. kUnavailable: the library cannot do this one or has failed, and
  // no operand that is an input has been written to: another kernel may do it. kInternal: one has been.
  // Thread-safe.
  virtual absl::Status run(const ArgumentBlock& args, const ExternalSite& site) = 0;
};

class ExternalLibrary {
 public:
  virtual ~ExternalLibrary() = default;
  virtual std::string version() const = 0;  // "0.3.21"
  // kUnavailable: it has no such routine, or not for this op. On a GPU the device's context is current.
  virtual absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const ExternalCallFacts& facts) = 0;
};

// One row a library: openblas.cc, onednn.cc, blaslt.cc. open() is kUnavailable, with the reason, where it is
// absent or lacks a function. What it opens stays mapped until the process ends: such libraries keep threads.
struct ExternalLibraryRow {
  ExternalId id;
  Backend backend;
  absl::StatusOr<std::unique_ptr<ExternalLibrary>> (*open)();
};
const std::vector<ExternalLibraryRow>& external_libraries();

absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_openblas();
absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_onednn();
absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_cublaslt();
absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_hipblaslt();

// The libraries of one device's backend, each opened when it is first asked for. Thread-safe. A child of a
// fork opens them anew, which the loader does from what is mapped.
class ExternalLibraries {
 public:
  explicit ExternalLibraries(Backend backend) : backend_(backend) {}
  // Every one of the backend; what is absent says why.
  std::vector<ExternalFound> find();
  absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const Step& step);

 private:
  struct Opened {
    ExternalId id;
    std::unique_ptr<ExternalLibrary> opened;  // null: `absent` says why
    std::string absent;
  };
  struct AllOpened {
    std::mutex mutex;
    std::vector<std::unique_ptr<Opened>> libraries;  // under mutex
  };
  static const Opened& open(AllOpened& all, const ExternalLibraryRow& row);  // under its mutex

  const Backend backend_;
  PerProcess<AllOpened> opened_;
};

// A shared object by the first of `names` that the loader finds.
class SharedObject {
 public:
  static absl::StatusOr<SharedObject> open(const std::vector<const char*>& names);
  // Null where it has no such function.
  void* find(const char* name) const;
  // The same for what must be there: *missing gets the first name that is not.
  template <typename Function>
  void need(const char* name, Function* function, std::string* missing) const {
    *function = reinterpret_cast<Function>(find(name));
    if (*function == nullptr && missing->empty()) *missing = name;
  }
  const std::string& name() const { return name_; }

 private:
  SharedObject(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

// What a call starts from: D holds C where `problem` has one that lies elsewhere.
void copy_c_to_d(const ProblemClass& problem, const ArgumentBlock& args);
// Why a block is not for a library: an operand below its element's alignment, an alpha of 0 (where no library
// reads A and B, and their NaNs would be lost).
absl::Status check_block(const ProblemClass& problem, const ArgumentBlock& args);
// What a library said in a call: kUnavailable or, where D is C or the residual, which may be half written,
// kInternal.
absl::Status failed_call(const ArgumentBlock& args, absl::string_view what);

}  // namespace lathe
