// Streams, events, captures and graphs.
#include <algorithm>
#include <chrono>

#include "tests/gpu/emulator/driver/state.h"

using namespace lathe::emulator;

namespace {

double now_milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void end(State& state, const std::shared_ptr<Capture>& capture) {
  state.captures.erase(std::remove(state.captures.begin(), state.captures.end(), capture),
                       state.captures.end());
  for (Context* context : state.contexts) {
    for (Stream* stream : context->streams) {
      if (stream->capture == capture) stream->capture = nullptr;
    }
  }
}

}  // namespace

EMU_API cuStreamCreate(Stream** stream, unsigned flags) {
  EMU_CALL("cuStreamCreate", kContext);
  if (stream == nullptr || flags > 1) return kInvalidValue;
  auto* created = new Stream;
  created->context = call.context();
  created->non_blocking = flags == 1;
  call.context()->streams.insert(created);
  *stream = created;
  return kSuccess;
}

EMU_API cuStreamDestroy_v2(void* handle) {
  EMU_CALL("cuStreamDestroy_v2", kInitialised);
  State& state = call.state();
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return kInvalidHandle;
  Stream* stream = state.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr && stream->capture->origin == stream)
    end(state, std::shared_ptr<Capture>(stream->capture));
  stream->context->streams.erase(stream);
  delete stream;
  return kSuccess;
}

EMU_API cuStreamSynchronize(void* handle) {
  EMU_CALL("cuStreamSynchronize", kContext);
  Stream* stream = call.state().stream(handle);
  return stream == nullptr ? kInvalidHandle : call.state().check_wait(stream);
}

EMU_API cuStreamQuery(void* handle) {
  EMU_CALL("cuStreamQuery", kContext);
  Stream* stream = call.state().stream(handle);
  return stream == nullptr ? kInvalidHandle : call.state().check_wait(stream);
}

EMU_API cuStreamGetCtx(void* handle, Context** context) {
  EMU_CALL("cuStreamGetCtx", kInitialised);
  if (context == nullptr) return kInvalidValue;
  if (reinterpret_cast<uintptr_t>(handle) <= 2 && call.state().current() == nullptr) return kInvalidContext;
  const Stream* stream = call.state().stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  *context = stream->context;
  return kSuccess;
}

EMU_API cuStreamIsCapturing(void* handle, int* status) {
  EMU_CALL("cuStreamIsCapturing", kContext);
  State& state = call.state();
  if (status == nullptr) return kInvalidValue;
  Stream* stream = state.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  *status = kCaptureNone;
  if (stream->capture != nullptr) *status = stream->capture->invalidated ? kCaptureIsInvalid : kCaptureActive;
  if (stream != &stream->context->legacy) return kSuccess;
  for (const auto& capture : state.captures) {
    if (capture->origin->context == stream->context && !capture->origin->non_blocking)
      return kCaptureImplicit;
  }
  return kSuccess;
}

EMU_API cuStreamGetCaptureInfo_v2(void* handle, int* status, unsigned long long* id, void** graph,
                                  const void** dependencies, size_t* count) {
  EMU_CALL("cuStreamGetCaptureInfo_v2", kContext);
  if (const int result = cuStreamIsCapturing(handle, status); result != kSuccess) return result;
  if (graph != nullptr || dependencies != nullptr) return kNotSupported;
  if (count != nullptr) *count = 0;
  if (id != nullptr && *status != kCaptureNone) *id = call.state().stream(handle)->capture->id;
  return kSuccess;
}
EMU_API cuStreamGetCaptureInfo(void* handle, int* status, unsigned long long* id) {
  EMU_CALL("cuStreamGetCaptureInfo", kContext);
  return cuStreamGetCaptureInfo_v2(handle, status, id, nullptr, nullptr, nullptr);
}

EMU_API cuStreamBeginCapture_v2(void* handle, int mode) {
  EMU_CALL("cuStreamBeginCapture_v2", kContext);
  State& state = call.state();
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
  Stream* stream = state.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream == &stream->context->legacy) return kCaptureUnsupported;
  if (stream->capture != nullptr) return kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = state.next_capture++;
  stream->capture = capture;
  state.captures.push_back(capture);
  return kSuccess;
}

EMU_API cuStreamEndCapture(void* handle, Graph** graph) {
  EMU_CALL("cuStreamEndCapture", kContext);
  State& state = call.state();
  if (graph == nullptr) return kInvalidValue;
  *graph = nullptr;
  Stream* stream = state.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return kIllegalState;
  if (capture->origin != stream) return kCaptureUnmatched;
  if (capture->mode != kCaptureRelaxed && capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  end(state, capture);
  if (capture->origin == &stream->context->per_thread) stream->capture = nullptr;
  if (capture->invalidated) return kCaptureInvalidated;
  if (!capture->unjoined.empty()) return kCaptureUnjoined;
  *graph = new Graph{std::move(capture->nodes)};
  state.graphs.insert(*graph);
  return kSuccess;
}

EMU_API cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  EMU_CALL("cuLaunchHostFunc", kContext);
  Stream* stream = call.state().stream(handle);
  if (function == nullptr) return kInvalidValue;
  if (stream == nullptr) return kInvalidHandle;
  return call.state().enqueue(stream, [function, argument] {
    function(argument);
    return static_cast<int>(kSuccess);
  });
}

EMU_API cuThreadExchangeStreamCaptureMode(int* mode) {
  EMU_CALL("cuThreadExchangeStreamCaptureMode", kInitialised);
  if (mode == nullptr || *mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(*mode, thread_capture_mode());
  return kSuccess;
}

EMU_API cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
  EMU_CALL("cuGraphInstantiateWithFlags", kContext | Call::kUnsafe);
  State& state = call.state();
  if (executable == nullptr || state.graphs.count(graph) == 0) return kInvalidValue;
  *executable = new Graph(*graph);
  state.executables.insert(*executable);
  return kSuccess;
}

EMU_API cuGraphLaunch(Graph* executable, void* handle) {
  EMU_CALL("cuGraphLaunch", kContext);
  State& state = call.state();
  if (state.executables.count(executable) == 0) return kInvalidValue;
  Stream* stream = state.stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  return state.enqueue(stream, [nodes = executable->nodes] {
    for (const auto& node : nodes) {
      if (const int result = node(); result != kSuccess) return result;
    }
    return static_cast<int>(kSuccess);
  });
}

EMU_API cuGraphExecDestroy(Graph* executable) {
  EMU_CALL("cuGraphExecDestroy", kInitialised);
  if (call.state().executables.erase(executable) == 0) return kInvalidValue;
  delete executable;
  return kSuccess;
}
EMU_API cuGraphDestroy(Graph* graph) {
  EMU_CALL("cuGraphDestroy", kInitialised);
  if (call.state().graphs.erase(graph) == 0) return kInvalidValue;
  delete graph;
  return kSuccess;
}
EMU_API cuGraphGetNodes(Graph* graph, void** nodes, size_t* count) {
  EMU_CALL("cuGraphGetNodes", kInitialised);
  if (call.state().graphs.count(graph) == 0 || count == nullptr) return kInvalidValue;
  if (nodes != nullptr) return kNotSupported;
  *count = graph->nodes.size();
  return kSuccess;
}

EMU_API cuEventCreate(Event** event, unsigned flags) {
  EMU_CALL("cuEventCreate", kContext);
  if (event == nullptr) return kInvalidValue;
  auto* created = new Event;
  created->context = call.context();
  created->timed = (flags & 2) == 0;  // CU_EVENT_DISABLE_TIMING
  call.state().events.insert(created);
  *event = created;
  return kSuccess;
}
EMU_API cuEventDestroy_v2(Event* event) {
  EMU_CALL("cuEventDestroy_v2", kInitialised);
  if (call.state().events.erase(event) == 0) return kInvalidHandle;
  delete event;
  return kSuccess;
}

EMU_API cuEventRecord(Event* event, void* handle) {
  EMU_CALL("cuEventRecord", kContext);
  State& state = call.state();
  Stream* stream = state.stream(handle);
  if (stream == nullptr || state.events.count(event) == 0) return kInvalidHandle;
  if (event->context != stream->context) return kInvalidHandle;
  if (stream->capture != nullptr && stream->capture->invalidated) return kCaptureInvalidated;
  event->recorded = true;
  event->stream = stream;
  event->capture = stream->capture;
  event->milliseconds = now_milliseconds();
  return kSuccess;
}

// Waiting for an event of a capture adds the stream to that capture. The origin of the capture must later wait for
// the streams that were added.
EMU_API cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  EMU_CALL("cuStreamWaitEvent", kContext);
  State& state = call.state();
  Stream* stream = state.stream(handle);
  if (stream == nullptr || state.events.count(event) == 0) return kInvalidHandle;
  const std::shared_ptr<Capture> capture = event->capture.lock();
  if (capture == nullptr) {
    if (stream->capture == nullptr || !event->recorded) return kSuccess;
    stream->capture->invalidated = true;
    return kCaptureIsolation;
  }
  if (capture->invalidated) return kCaptureInvalidated;
  if (stream->capture == capture) {
    if (stream == capture->origin) capture->unjoined.erase(event->stream);
    return kSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalidated = capture->invalidated = true;
    return kCaptureMerge;
  }
  stream->capture = capture;
  capture->unjoined.insert(stream);
  return kSuccess;
}

EMU_API cuEventSynchronize(Event* event) {
  EMU_CALL("cuEventSynchronize", kContext);
  if (call.state().events.count(event) == 0) return kInvalidHandle;
  if (const auto capture = event->capture.lock()) {
    capture->invalidated = true;
    return kCapturedEvent;
  }
  return kSuccess;
}
EMU_API cuEventQuery(Event* event) {
  EMU_CALL("cuEventQuery", kContext);
  if (call.state().events.count(event) == 0) return kInvalidHandle;
  if (const auto capture = event->capture.lock()) {
    capture->invalidated = true;
    return kCapturedEvent;
  }
  return kSuccess;
}
EMU_API cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  EMU_CALL("cuEventElapsedTime", kContext);
  State& state = call.state();
  if (milliseconds == nullptr) return kInvalidValue;
  if (state.events.count(from) == 0 || state.events.count(to) == 0) return kInvalidHandle;
  if (!from->timed || !to->timed || !from->recorded || !to->recorded) return kInvalidHandle;
  if (!from->capture.expired() || !to->capture.expired()) return kCapturedEvent;
  *milliseconds = static_cast<float>(to->milliseconds - from->milliseconds);
  return kSuccess;
}
