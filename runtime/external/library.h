// External libraries: opened by name when one is needed, never linked. The declarations that Lathe needs of
// their interfaces are in each library's source file.
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

// The resources that a launch gives to a library.
struct ExternalSite {
  int32_t threads = 1;         // CPU: threads it may use, including the caller's
  void* stream = nullptr;      // GPU
  size_t workspace_bytes = 0;  // of the memory at the block's `workspace`
};

// A host_extern step with its routine bound. It must not outlive its library.
class ExternalCall {
 public:
  virtual ~ExternalCall() = default;
  // Runs the op with the sizes in the block. kUnavailable: the library cannot do it or failed, and no input
  // has been overwritten, so another kernel may run instead. kInternal: an input may have been overwritten.
  // Thread-safe.
  virtual absl::Status run(const ArgumentBlock& args, const ExternalSite& site) = 0;
};

class ExternalLibrary {
 public:
  virtual ~ExternalLibrary() = default;
  virtual std::string version() const = 0;  // "0.3.21"
  // kUnavailable: the library has no such routine, or not for this op. On a GPU the device's context is
  // current.
  virtual absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const ExternalCallFacts& facts) = 0;
};

// One row per library: openblas.cc, onednn.cc, blaslt.cc. open() returns kUnavailable, with the reason, if
// the library is absent or lacks a function. A library stays loaded until the process ends, because it may
// have threads.
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

// The libraries of one backend, each opened when it is first needed. Thread-safe. The child of a fork opens
// them again; the loader reuses what is already mapped.
class ExternalLibraries {
 public:
  explicit ExternalLibraries(Backend backend) : backend_(backend) {}
  // Lists every library of the backend, with the reason if one is absent.
  std::vector<ExternalFound> find();
  absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const Step& step);

 private:
  struct Opened {
    ExternalId id;
    std::unique_ptr<ExternalLibrary> opened;  // null: see `absent`
    std::string absent;
  };
  struct AllOpened {
    std::mutex mutex;
    std::vector<std::unique_ptr<Opened>> libraries;  // under mutex
  };
  static const Opened& open(AllOpened& all, const ExternalLibraryRow& row);  // call with the mutex held

  const Backend backend_;
  PerProcess<AllOpened> opened_;
};

// The first shared object of `names` that the loader can open.
class SharedObject {
 public:
  static absl::StatusOr<SharedObject> open(const std::vector<const char*>& names);
  // Returns null if there is no such function.
  void* find(const char* name) const;
  // The same for a required function. *missing gets the name of the first one that is not found.
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

// Copies C to D, for a library that adds to D. Does nothing if the class has no C, or C is D.
void copy_c_to_d(const ProblemClass& problem, const ArgumentBlock& args);
// Returns kUnavailable if a library must not run this block: an operand is less aligned than its elements, or
// alpha is 0 (a library then does not read A and B and would lose their NaNs).
absl::Status check_block(const ProblemClass& problem, const ArgumentBlock& args);
// The status of a failed library call: kUnavailable, or kInternal if D is also C or the residual, which may
// be partly overwritten.
absl::Status failed_call(const ArgumentBlock& args, absl::string_view what);

}  // namespace lathe
