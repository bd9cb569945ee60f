#include "cli/cuda_capture.h"

#include <dlfcn.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace lathe::cli {
namespace {

using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using CudaContext = struct CUctx_st*;

struct Functions {
  int (*stream_get_context)(lathe_stream, CudaContext*);
  int (*push_context)(CudaContext);
  int (*pop_context)(CudaContext*);
  int (*begin)(lathe_stream, int mode);
  int (*end)(lathe_stream, Graph*);
  int (*instantiate)(GraphExec*, Graph, unsigned long long flags);
  int (*launch)(GraphExec, lathe_stream);
  int (*destroy_exec)(GraphExec);
  int (*destroy_graph)(Graph);
};
constexpr int kGlobalMode = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

absl::Status checked(const char* call, int result) {
  if (result == 0) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(call, " failed with CUresult ", result));
}

// The stream's context, current for as long as this lives.
class StreamContext {
 public:
  StreamContext(const Functions& functions, lathe_stream stream) : functions_(functions) {
    CudaContext context = nullptr;
    pushed_ = functions.stream_get_context(stream, &context) == 0 && functions.push_context(context) == 0;
  }
  ~StreamContext() {
    CudaContext popped = nullptr;
    if (pushed_) functions_.pop_context(&popped);
  }
  StreamContext(const StreamContext&) = delete;
  StreamContext& operator=(const StreamContext&) = delete;

 private:
  const Functions& functions_;
  bool pushed_ = false;
};

class CudaGraph : public CapturedGraph {
 public:
  CudaGraph(const Functions& functions, lathe_stream stream) : functions_(functions), stream_(stream) {}
  ~CudaGraph() override {
    const StreamContext context(functions_, stream_);
    if (exec != nullptr) functions_.destroy_exec(exec);
    if (graph != nullptr) functions_.destroy_graph(graph);
  }
  absl::Status launch() override {
    const StreamContext context(functions_, stream_);
    return checked("cuGraphLaunch", functions_.launch(exec, stream_));
  }

  Graph graph = nullptr;
  GraphExec exec = nullptr;

 private:
  Functions functions_;
  lathe_stream stream_;
};

class CudaCapture : public Capture {
 public:
  explicit CudaCapture(const Functions& functions) : functions_(functions) {}

  absl::Status begin(lathe_stream stream) override {
    const StreamContext context(functions_, stream);
    return checked("cuStreamBeginCapture", functions_.begin(stream, kGlobalMode));
  }
  absl::StatusOr<std::unique_ptr<CapturedGraph>> end(lathe_stream stream) override {
    const StreamContext context(functions_, stream);
    auto captured = std::make_unique<CudaGraph>(functions_, stream);
    absl::Status s = checked("cuStreamEndCapture", functions_.end(stream, &captured->graph));
    if (!s.ok()) return s;
    s = checked("cuGraphInstantiateWithFlags", functions_.instantiate(&captured->exec, captured->graph, 0));
    if (!s.ok()) return s;
    return captured;
  }

 private:
  Functions functions_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Capture>> open_cuda_capture() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnimplementedError("there is no libcuda.so.1 to capture with");
  Functions f{};
  const auto find = [&](const char* name, auto* out) {
    *out = reinterpret_cast<std::remove_pointer_t<decltype(out)>>(dlsym(library, name));
    return *out != nullptr ? "" : name;
  };
  for (const char* missing :
       {find("cuStreamGetCtx", &f.stream_get_context), find("cuCtxPushCurrent_v2", &f.push_context),
        find("cuCtxPopCurrent_v2", &f.pop_context), find("cuStreamBeginCapture_v2", &f.begin),
        find("cuStreamEndCapture", &f.end), find("cuGraphInstantiateWithFlags", &f.instantiate),
        find("cuGraphLaunch", &f.launch), find("cuGraphExecDestroy", &f.destroy_exec),
        find("cuGraphDestroy", &f.destroy_graph)}) {
    if (*missing != '\0') {
      return absl::UnimplementedError(absl::StrCat("this libcuda.so.1 has no ", missing));
    }
  }
  return std::make_unique<CudaCapture>(f);
}

}  // namespace lathe::cli
