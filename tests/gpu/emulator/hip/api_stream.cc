// Streams, captures and graphs. A capture refuses the same calls as ROCm's HIP runtime (clr, rocm-6.3).
#include <utility>

#include "tests/gpu/emulator/hip/state.h"

using namespace lathe::emulator;
using namespace lathe::emulator::hip;

EMU_API hipStreamCreateWithFlags(Stream** stream, unsigned flags) {
  EMU_ENTER_ALIVE();
  if (stream == nullptr || flags > 1) return kInvalidValue;
  *stream = new Stream{current_device(), flags == 1, nullptr};
  state.streams.insert(*stream);
  return kSuccess;
}
EMU_API hipStreamDestroy(Stream* stream) {
  EMU_ENTER();
  if (state.streams.erase(stream) == 0) return kInvalidHandle;
  delete stream;
  return kSuccess;
}
EMU_API hipStreamSynchronize(void* stream) {
  EMU_ENTER_ALIVE();
  return state.is_stream(stream) ? state.refuse_wait(stream) : kContextIsDestroyed;
}
EMU_API hipStreamGetDevice(void* stream, int* device) {
  EMU_ENTER();
  if (!state.is_stream(stream)) return kContextIsDestroyed;
  *device = 0;
  return kSuccess;
}

// The null stream cannot capture. It would wait for all blocking streams, but a stream in capture cannot be waited for.
EMU_API hipStreamIsCapturing(void* stream, int* status) {
  EMU_ENTER();
  if (status == nullptr) return kInvalidValue;
  if (!state.is_stream(stream)) return kContextIsDestroyed;
  *status = kCaptureNone;
  if (const Stream* created = State::created(stream)) {
    if (created->capture != nullptr)
      *status = created->capture->invalidated ? kCaptureIsInvalid : kCaptureActive;
    return kSuccess;
  }
  for (const Stream* other : state.streams)
    if (other->capture != nullptr && !other->non_blocking) return kCaptureImplicit;
  return kSuccess;
}
EMU_API hipThreadExchangeStreamCaptureMode(int* mode) {
  if (mode == nullptr || *mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(*mode, capture_mode());
  return kSuccess;
}

EMU_API hipStreamBeginCapture(void* handle, int mode) {
  EMU_ENTER_ALIVE();
  if (!state.is_stream(handle)) return kContextIsDestroyed;
  Stream* stream = State::created(handle);
  if (stream == nullptr) return kCaptureUnsupported;
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
  if (stream->capture != nullptr) return kIllegalState;
  stream->capture = std::make_unique<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  return kSuccess;
}
EMU_API hipStreamEndCapture(void* handle, Graph** graph) {
  EMU_ENTER_ALIVE();
  if (graph == nullptr) return kInvalidValue;
  *graph = nullptr;
  if (!state.is_stream(handle)) return kContextIsDestroyed;
  Stream* stream = State::created(handle);
  if (stream == nullptr || stream->capture == nullptr) return kIllegalState;
  if (stream->capture->mode != kCaptureRelaxed && stream->capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  const std::unique_ptr<Capture> capture = std::move(stream->capture);
  if (capture->invalidated) return kCaptureInvalidated;
  *graph = new Graph(std::move(capture->graph));
  state.graphs.insert(*graph);
  return kSuccess;
}

EMU_API hipGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long flags) {
  EMU_ENTER_ALIVE();
  if (executable == nullptr || state.graphs.count(graph) == 0 || flags != 0) return kInvalidValue;
  *executable = new Graph(*graph);
  state.executables.insert(*executable);
  return kSuccess;
}
EMU_API hipGraphLaunch(Graph* executable, void* stream) {
  EMU_ENTER_ALIVE();
  if (state.executables.count(executable) == 0) return kInvalidValue;
  if (!state.is_stream(stream)) return kContextIsDestroyed;
  return state.enqueue(stream, [nodes = executable->nodes] {
    for (const Work& node : nodes)
      if (const int result = node(); result != kSuccess) return result;
    return static_cast<int>(kSuccess);
  });
}
EMU_API hipGraphExecDestroy(Graph* executable) {
  EMU_ENTER();
  if (state.executables.erase(executable) == 0) return kInvalidValue;
  delete executable;
  return kSuccess;
}
EMU_API hipGraphDestroy(Graph* graph) {
  EMU_ENTER();
  if (state.graphs.erase(graph) == 0) return kInvalidValue;
  delete graph;
  return kSuccess;
}
