#include "cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

#include "contest.h"

namespace lathe::bench {
namespace {

constexpr int kCaptureModeThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr int kAttributeUnits = 16;         // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
constexpr int kAttributeL2 = 38;            // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE

// Every thread keeps four loads of 16 bytes in flight. It combines what it reads into one value, which it
// stores only if it equals a constant, so that the loads are not removed.
constexpr char kReadPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry read_all(.param .u64 data, .param .u64 vectors, .param .u64 sink) {
  .reg .pred %p<3>;
  .reg .b32 %r<24>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [data];
  ld.param.u64 %rd2, [vectors];
  ld.param.u64 %rd3, [sink];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mad.wide.u32 %rd4, %r1, %r2, 0;
  cvt.u64.u32 %rd5, %r3;
  add.u64 %rd4, %rd4, %rd5;
  mul.wide.u32 %rd6, %r4, %r2;
  mov.u32 %r5, 0;
  shl.b64 %rd7, %rd6, 4;
LOOP:
  mul.lo.u64 %rd8, %rd6, 3;
  add.u64 %rd8, %rd8, %rd4;
  setp.ge.u64 %p1, %rd8, %rd2;
  @%p1 bra DONE;
  shl.b64 %rd9, %rd4, 4;
  add.u64 %rd9, %rd1, %rd9;
  ld.global.nc.v4.u32 {%r6, %r7, %r8, %r9}, [%rd9];
  add.u64 %rd9, %rd9, %rd7;
  ld.global.nc.v4.u32 {%r10, %r11, %r12, %r13}, [%rd9];
  add.u64 %rd9, %rd9, %rd7;
  ld.global.nc.v4.u32 {%r14, %r15, %r16, %r17}, [%rd9];
  add.u64 %rd9, %rd9, %rd7;
  ld.global.nc.v4.u32 {%r18, %r19, %r20, %r21}, [%rd9];
  xor.b32 %r6, %r6, %r7;
  xor.b32 %r8, %r8, %r9;
  xor.b32 %r10, %r10, %r11;
  xor.b32 %r12, %r12, %r13;
  xor.b32 %r14, %r14, %r15;
  xor.b32 %r16, %r16, %r17;
  xor.b32 %r18, %r18, %r19;
  xor.b32 %r20, %r20, %r21;
  xor.b32 %r6, %r6, %r8;
  xor.b32 %r10, %r10, %r12;
  xor.b32 %r14, %r14, %r16;
  xor.b32 %r18, %r18, %r20;
  xor.b32 %r6, %r6, %r10;
  xor.b32 %r14, %r14, %r18;
  xor.b32 %r6, %r6, %r14;
  add.u32 %r5, %r5, %r6;
  shl.b64 %rd10, %rd6, 2;
  add.u64 %rd4, %rd4, %rd10;
  bra LOOP;
DONE:
  setp.ne.u32 %p2, %r5, 305419896;
  @%p2 bra END;
  st.global.u32 [%rd3], %r5;
END:
  ret;
}
)";

}  // namespace

void* CudaDriver::entry(const char* function) const {
  void* found = dlsym(library_, function);
  if (found == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no function ") + function);
  return found;
}

template <typename... Arguments>
int CudaDriver::result_of(const char* function, Arguments... arguments) const {
  return reinterpret_cast<int (*)(Arguments...)>(entry(function))(arguments...);
}

template <typename... Arguments>
void CudaDriver::call(const char* function, Arguments... arguments) const {
  const int result = result_of(function, arguments...);
  if (result != 0) throw std::runtime_error(std::string(function) + " returned " + std::to_string(result));
}

CudaDriver::CudaDriver(int ordinal) : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
  if (library_ == nullptr) throw std::runtime_error(dlerror());
  call("cuInit", 0u);
  int device = 0;
  call("cuDeviceGet", &device, ordinal);
  void* context = nullptr;
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  char name[256] = {};
  call("cuDeviceGetName", name, int{sizeof name - 1}, device);
  name_ = name;
  int l2 = 0;
  call("cuDeviceGetAttribute", &l2, kAttributeL2, device);
  call("cuDeviceGetAttribute", &units_, kAttributeUnits, device);
  l2_bytes_ = l2;
}

CudaDriver::Graph::Graph(const CudaDriver& driver, void* stream, const std::function<void()>& work)
    : driver_(driver), stream_(stream) {
  driver_.call("cuStreamBeginCapture_v2", stream, kCaptureModeThreadLocal);
  try {
    work();
    driver_.call("cuStreamEndCapture", stream, &graph_);
    driver_.call("cuGraphInstantiateWithFlags", &executable_, graph_, 0ull);
  } catch (...) {
    // End the capture of the stream. This call fails if the capture has already ended.
    void* half = nullptr;
    driver_.result_of("cuStreamEndCapture", stream, &half);
    for (void* graph : {half, graph_})
      if (graph != nullptr) driver_.result_of("cuGraphDestroy", graph);
    throw;
  }
}

CudaDriver::Graph::~Graph() {
  driver_.result_of("cuGraphExecDestroy", executable_);
  driver_.result_of("cuGraphDestroy", graph_);
}

void CudaDriver::Graph::replay() const {
  driver_.call("cuGraphLaunch", executable_, stream_);
  driver_.synchronize(stream_);
}

void* CudaDriver::load_kernel(const std::string& code, const char* name) const {
  void *module = nullptr, *kernel = nullptr;
  call("cuModuleLoadData", &module, static_cast<const void*>(code.c_str()));
  call("cuModuleGetFunction", &kernel, module, name);
  return kernel;
}

void CudaDriver::launch(void* kernel, unsigned groups, unsigned threads, void* stream, const void* parameters,
                        size_t bytes) const {
  // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
  void* extra[] = {reinterpret_cast<void*>(1), const_cast<void*>(parameters), reinterpret_cast<void*>(2),
                   &bytes, nullptr};
  void** none = nullptr;
  call("cuLaunchKernel", kernel, groups, 1u, 1u, threads, 1u, 1u, 0u, stream, none,
       static_cast<void**>(extra));
}

void CudaDriver::synchronize(void* stream) const { call("cuStreamSynchronize", stream); }

bool CudaDriver::is_alive(void* stream) const { return result_of("cuStreamSynchronize", stream) == 0; }

void CudaDriver::fill(void* data, uint32_t value, size_t words, void* stream) const {
  call("cuMemsetD32Async", data, value, words, stream);
}

void CudaDriver::copy_on_device(void* to, const void* from, size_t bytes, void* stream) const {
  call("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

double measure_read_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* sink) {
  void* kernel = driver.load_kernel(kReadPtx, "read_all");
  constexpr int kSweeps = 4, kTrials = 10;
  constexpr unsigned kThreads = 512, kLoads = 4;
  double best = 0;
  for (unsigned groups_per_unit : {2u, 4u, 8u}) {
    const unsigned groups = static_cast<unsigned>(std::min<uint64_t>(
        groups_per_unit * static_cast<unsigned>(driver.units()), bytes / 16 / kThreads / kLoads));
    const uint64_t step = uint64_t{groups} * kThreads * kLoads, vectors = bytes / 16 / step * step;
    const struct {
      const void* data;
      uint64_t vectors;
      const void* sink;
    } parameters = {data, vectors, sink};
    const CudaDriver::Graph graph(driver, stream, [&] {
      for (int i = 0; i < kSweeps; ++i) {
        driver.launch(kernel, groups, kThreads, stream, &parameters, sizeof parameters);
      }
    });
    graph.replay();
    for (int i = 0; i < kTrials; ++i) {
      const double start = now_seconds();
      graph.replay();
      best = std::max(best, kSweeps * 16.0 * static_cast<double>(vectors) / (now_seconds() - start));
    }
  }
  return best;
}

double measure_copy_bandwidth(const CudaDriver& driver, void* stream, const void* data, size_t bytes,
                              void* to, size_t copied) {
  constexpr int kTrials = 10;
  const size_t parts = bytes / copied;
  double best = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double start = now_seconds();
    for (size_t i = 0; i < parts; ++i)
      driver.copy_on_device(to, static_cast<const char*>(data) + i * copied, copied, stream);
    driver.synchronize(stream);
    const double moved = 2.0 * static_cast<double>(parts * copied);
    if (trial > 0) best = std::max(best, moved / (now_seconds() - start));
  }
  return best;
}

}  // namespace lathe::bench
