#include "cli/stream_capture.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lathe::cli {
namespace {

using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;
using Context = struct ContextHandle*;

struct Functions {
  int (*begin)(lathe_stream, int mode);
  int (*end)(lathe_stream, Graph*);
  int (*instantiate)(GraphExec*, Graph, unsigned long long flags);
  int (*launch)(GraphExec, lathe_stream);
  int (*destroy_exec)(GraphExec);
  int (*destroy_graph)(Graph);
  // CUDA only: make the context of a stream current. A HIP stream knows its device.
  int (*stream_get_context)(lathe_stream, Context*);
  int (*push_context)(Context);
  int (*pop_context)(Context*);
};
constexpr int kGlobalMode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL, hipStreamCaptureModeGlobal
constexpr size_t kCalls = sizeof(Functions) / sizeof(void*);
// Positions in Functions, for error messages.
enum Place : size_t { kBegin, kEnd, kInstantiate, kLaunch };

// What differs between CUDA and HIP. The open device has already loaded the library.
struct Platform {
  const char* prefix;                    // prefix of the device names
  std::array<const char*, 4> libraries;  // file names of the library, null after the last
  // In the order of Functions. Null: the platform has no such function.
  std::array<const char*, kCalls> functions;
};
constexpr Platform kPlatforms[] = {
    {"cuda:",
     {"libcuda.so.1"},
     {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
      "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamGetCtx", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}},
    {"hip:",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
     {"hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiateWithFlags", "hipGraphLaunch",
      "hipGraphExecDestroy", "hipGraphDestroy"}},
};

struct Library {
  const Platform* platform;
  Functions call;

  absl::Status checked(Place which, int result) const {
    if (result == 0) return absl::OkStatus();
    return absl::UnknownError(absl::StrCat(platform->functions[which], " failed with driver error ", result));
  }
};

// Makes the stream's context current during its lifetime.
class StreamContext {
 public:
  StreamContext(const Functions& call, lathe_stream stream) : call_(call) {
    Context context = nullptr;
    pushed_ = call.stream_get_context != nullptr && call.stream_get_context(stream, &context) == 0 &&
              call.push_context(context) == 0;
  }
  ~StreamContext() {
    Context popped = nullptr;
    if (pushed_) call_.pop_context(&popped);
  }
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

 private:
  const Functions& call_;
  bool pushed_ = false;
};

class DriverGraph : public CapturedGraph {
 public:
  DriverGraph(const Library& library, lathe_stream stream) : library_(library), stream_(stream) {}
  ~DriverGraph() override {
    const StreamContext context(library_.call, stream_);
    if (exec != nullptr) library_.call.destroy_exec(exec);
    if (graph != nullptr) library_.call.destroy_graph(graph);
  }
  absl::Status launch() override {
    const StreamContext context(library_.call, stream_);
    return library_.checked(kLaunch, library_.call.launch(exec, stream_));
  }

  Graph graph = nullptr;
  GraphExec exec = nullptr;

 private:
  Library library_;
  lathe_stream stream_;
};

class DriverCapture : public Capture {
 public:
  explicit DriverCapture(const Library& library) : library_(library) {}

  absl::Status begin(lathe_stream stream) override {
    const StreamContext context(library_.call, stream);
    return library_.checked(kBegin, library_.call.begin(stream, kGlobalMode));
  }
  absl::StatusOr<std::unique_ptr<CapturedGraph>> end(lathe_stream stream) override {
    const StreamContext context(library_.call, stream);
    auto captured = std::make_unique<DriverGraph>(library_, stream);
    absl::Status s = library_.checked(kEnd, library_.call.end(stream, &captured->graph));
    if (!s.ok()) return s;
    s = library_.checked(kInstantiate, library_.call.instantiate(&captured->exec, captured->graph, 0));
    if (!s.ok()) return s;
    return captured;
  }

 private:
  Library library_;
};

absl::StatusOr<Library> open_library(const Platform& platform) {
  void* handle = nullptr;
  const char* name = nullptr;
  for (const char* library : platform.libraries) {
    if (library == nullptr || handle != nullptr) break;
    name = library;
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
  if (handle == nullptr)
    return absl::UnimplementedError(absl::StrCat(platform.libraries[0], " is not loaded"));
  std::array<void*, kCalls> found = {};
  for (size_t i = 0; i < kCalls; ++i) {
    if (platform.functions[i] == nullptr) continue;
    found[i] = dlsym(handle, platform.functions[i]);
    if (found[i] == nullptr)
      return absl::UnimplementedError(absl::StrCat("this ", name, " has no ", platform.functions[i]));
  }
  Library library = {&platform, {}};
  std::memcpy(&library.call, found.data(), sizeof library.call);
  return library;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Capture>> open_capture(const std::string& device) {
  for (const Platform& platform : kPlatforms) {
    if (!absl::StartsWith(device, platform.prefix)) continue;
    auto library = open_library(platform);
    if (!library.ok()) return library.status();
    return std::make_unique<DriverCapture>(*library);
  }
  return absl::UnimplementedError(absl::StrCat(device, " has no stream capture"));
}

}  // namespace lathe::cli
