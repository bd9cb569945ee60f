// Tests the emulated driver through dlopen and the C API, like a program that uses it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/emulator/driver/hooks.h"
#include "tests/gpu/emulator/driver/types.h"

namespace lathe::emulator {
namespace {

using ::testing::HasSubstr;

void* library() {
  static void* handle = [] {
    setenv("LATHE_EMULATOR_DEVICES", "2", 1);
    setenv("LATHE_EMULATOR_ARCH", "sm_90a", 1);
    return dlopen(LATHE_CUDA_EMULATOR, RTLD_NOW | RTLD_LOCAL);
  }();
  return handle;
}

// Calls an entry point by name.
template <typename... A>
int cu(const char* name, A... arguments) {
  auto* function = reinterpret_cast<int (*)(A...)>(dlsym(library(), name));
  if (function == nullptr) {
    ADD_FAILURE() << name << " is missing";
    return kUnknown;
  }
  return function(arguments...);
}
template <typename F>
F* hook(const char* name) {
  return reinterpret_cast<F*>(dlsym(library(), name));
}
void reset_hooks() { hook<decltype(emu_reset)>("emu_reset")(); }

constexpr char kPtx[] = R"(.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 scale = 3;
.visible .entry triple(.param .u64 out, .param .u32 n, .param .u32 add)
.maxntid 256, 1, 1
{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p1; .shared .align 4 .b8 s[64];
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; ld.param.u32 %r5, [add];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
  setp.ge.u32 %p1, %r2, %r1; @%p1 ret;
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r6, [%rd1]; ld.global.u32 %r7, [scale]; mad.lo.u32 %r6, %r6, %r7, %r5;
  st.global.u32 [%rd1], %r6;
  ret;
}
)";

class CudaEmulator : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(library(), nullptr) << dlerror();
    reset_hooks();
    ASSERT_EQ(cu("cuInit", 0u), kSuccess);
    ASSERT_EQ(cu("cuDevicePrimaryCtxRetain", &context_, 0), kSuccess);
    ASSERT_EQ(cu("cuCtxPushCurrent_v2", context_), kSuccess);
  }
  void TearDown() override {
    reset_hooks();
    EXPECT_EQ(cu("cuCtxPopCurrent_v2", static_cast<void**>(nullptr)), kSuccess);
    EXPECT_EQ(cu("cuDevicePrimaryCtxRelease_v2", 0), kSuccess);
  }
  void* function() {
    EXPECT_EQ(cu("cuModuleLoadData", &module_, kPtx), kSuccess);
    void* function = nullptr;
    EXPECT_EQ(cu("cuModuleGetFunction", &function, module_, "triple"), kSuccess);
    return function;
  }
  DevicePointer allocate(size_t bytes) {
    DevicePointer memory = 0;
    EXPECT_EQ(cu("cuMemAlloc_v2", &memory, bytes), kSuccess);
    return memory;
  }
  DevicePointer upload(const std::vector<uint32_t>& values) {
    const DevicePointer memory = allocate(values.size() * 4);
    EXPECT_EQ(cu("cuMemcpyHtoD_v2", memory, static_cast<const void*>(values.data()), values.size() * 4),
              kSuccess);
    return memory;
  }
  std::vector<uint32_t> download(DevicePointer memory, size_t count) {
    std::vector<uint32_t> values(count);
    EXPECT_EQ(cu("cuMemcpyDtoH_v2", static_cast<void*>(values.data()), memory, count * 4), kSuccess);
    return values;
  }
  int launch(void* function, unsigned blocks, DevicePointer memory, uint32_t n, uint32_t add,
             void* stream = nullptr) {
    void* parameters[] = {&memory, &n, &add};
    return cu("cuLaunchKernel", function, blocks, 1u, 1u, 32u, 1u, 1u, 0u, stream, parameters,
              static_cast<void**>(nullptr));
  }
  std::string last_fault() { return hook<decltype(emu_last_fault)>("emu_last_fault")(); }

  void *context_ = nullptr, *module_ = nullptr;
};

TEST_F(CudaEmulator, TakesDevicesFromTheEnvironment) {
  int count = 0, value = 0, version = 0;
  ASSERT_EQ(cu("cuDeviceGetCount", &count), kSuccess);
  EXPECT_EQ(count, 2);
  ASSERT_EQ(cu("cuDriverGetVersion", &version), kSuccess);
  EXPECT_GE(version, 12000);
  for (const auto& [attribute, expected] :
       {std::pair{75, 9}, {76, 0}, {16, 132}, {97, 232448}, {82, 65536}, {38, 52428800}, {120, 1}}) {
    ASSERT_EQ(cu("cuDeviceGetAttribute", &value, attribute, 1), kSuccess);
    EXPECT_EQ(value, expected) << attribute;
  }
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 16, 2), kInvalidDevice);
  char name[64];
  ASSERT_EQ(cu("cuDeviceGetName", name, 64, 0), kSuccess);
  EXPECT_THAT(std::string(name), HasSubstr("sm_90a"));
  const char* text = nullptr;
  ASSERT_EQ(cu("cuGetErrorName", 716, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_MISALIGNED_ADDRESS");
  EXPECT_EQ(cu("cuGetErrorName", 4711, &text), kInvalidValue);
}

TEST_F(CudaEmulator, KeepsAContextStackPerThread) {
  void *current = nullptr, *second = nullptr;
  ASSERT_EQ(cu("cuCtxCreate_v2", &second, 0u, 1), kSuccess);
  int device = -1;
  ASSERT_EQ(cu("cuCtxGetDevice", &device), kSuccess);
  EXPECT_EQ(device, 1);
  std::thread([&] {
    ASSERT_EQ(cu("cuCtxGetCurrent", &current), kSuccess);
    EXPECT_EQ(current, nullptr);
    DevicePointer memory = 0;
    EXPECT_EQ(cu("cuMemAlloc_v2", &memory, size_t{16}), kInvalidContext);
  }).join();
  ASSERT_EQ(cu("cuCtxPopCurrent_v2", &current), kSuccess);
  EXPECT_EQ(current, second);
  ASSERT_EQ(cu("cuCtxGetCurrent", &current), kSuccess);
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cu("cuCtxDestroy_v2", second), kSuccess);
  EXPECT_EQ(cu("cuCtxPushCurrent_v2", second), kInvalidContext);
}

TEST_F(CudaEmulator, LaunchesWithBothFormsOfParameters) {
  void* triple = function();
  const DevicePointer memory = upload({1, 2, 3, 4, 5});
  ASSERT_EQ(launch(triple, 1, memory, 4, 100), kSuccess);
  EXPECT_EQ(download(memory, 5), (std::vector<uint32_t>{103, 106, 109, 112, 5}));
  struct {
    DevicePointer out;
    uint32_t n, add;
  } buffer = {memory, 2, 1};
  size_t bytes = sizeof buffer;
  void* extra[] = {reinterpret_cast<void*>(1), &buffer, reinterpret_cast<void*>(2), &bytes, nullptr};
  LaunchConfiguration config = {{1, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr, 0};
  ASSERT_EQ(cu("cuLaunchKernelEx", &config, triple, static_cast<void**>(nullptr), extra), kSuccess);
  EXPECT_EQ(download(memory, 3), (std::vector<uint32_t>{310, 319, 109}));
  bytes = 8;  // too short for the kernel's parameters
  EXPECT_EQ(cu("cuLaunchKernelEx", &config, triple, static_cast<void**>(nullptr), extra), kInvalidValue);
  size_t offset = 0, size = 0;
  ASSERT_EQ(cu("cuFuncGetParamInfo", triple, size_t{2}, &offset, &size), kSuccess);
  EXPECT_EQ(offset, 12u);
  EXPECT_EQ(size, 4u);
  EXPECT_EQ(cu("cuFuncGetParamInfo", triple, size_t{3}, &offset, &size), kInvalidValue);
  int value = 0;
  ASSERT_EQ(cu("cuFuncGetAttribute", &value, 0, triple), kSuccess);
  EXPECT_EQ(value, 256);
  ASSERT_EQ(cu("cuFuncGetAttribute", &value, 1, triple), kSuccess);
  EXPECT_EQ(value, 64);
  EXPECT_EQ(cu("cuMemFree_v2", memory), kSuccess);
}

TEST_F(CudaEmulator, RefusesModulesThatCannotRun) {
  void* module = nullptr;
  char log[512] = "";
  int options[] = {5, 6};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const auto load = [&](const std::string& text) {
    return cu("cuModuleLoadDataEx", &module, text.c_str(), 2u, options, values);
  };
  std::string broken = kPtx;
  broken.replace(broken.find("mad.lo.u32 %r6"), 6, "frobni");
  EXPECT_EQ(load(broken), kInvalidPtx);
  EXPECT_THAT(std::string(log), HasSubstr("ptx line 12"));
  for (const char* target : {"sm_100", "sm_100a", "sm_80a"}) {
    std::string other = kPtx;
    other.replace(other.find("sm_80"), 5, target);
    EXPECT_EQ(load(other), kInvalidPtx) << target;
    EXPECT_THAT(std::string(log), HasSubstr(target));
  }
  EXPECT_EQ(load("\x7f"
                 "ELF and so on"),
            kNoBinaryForGpu);
  void* missing = nullptr;
  function();
  EXPECT_EQ(cu("cuModuleGetFunction", &missing, module_, "nobody"), kNotFound);
  EXPECT_EQ(cu("cuModuleUnload", module_), kSuccess);
  EXPECT_EQ(cu("cuModuleUnload", module_), kInvalidHandle);
}

TEST_F(CudaEmulator, LoadsTheOutputOfTheLinker) {
  void *link = nullptr, *image = nullptr, *module = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cu("cuLinkCreate_v2", 0u, static_cast<int*>(nullptr), static_cast<void**>(nullptr), &link),
            kSuccess);
  ASSERT_EQ(cu("cuLinkAddData_v2", link, 1, const_cast<char*>(kPtx), sizeof kPtx, "k", 0u,
               static_cast<int*>(nullptr), static_cast<void**>(nullptr)),
            kSuccess);
  ASSERT_EQ(cu("cuLinkComplete", link, &image, &bytes), kSuccess);
  const std::string cubin(static_cast<const char*>(image), bytes);
  EXPECT_EQ(cu("cuLinkDestroy", link), kSuccess);
  ASSERT_EQ(cu("cuModuleLoadData", &module, cubin.c_str()), kSuccess);
  DevicePointer address = 0;
  ASSERT_EQ(cu("cuModuleGetGlobal_v2", &address, &bytes, module, "scale"), kSuccess);
  EXPECT_EQ(download(address, 1), std::vector<uint32_t>{3});
}

TEST_F(CudaEmulator, FaultMakesLaterCallsFail) {
  void* triple = function();
  const DevicePointer memory = upload({1, 2, 3, 4});
  EXPECT_EQ(launch(triple, 1, memory, 5, 0), kSuccess);  // the launch is accepted, as on a device
  EXPECT_EQ(cu("cuCtxSynchronize"), kIllegalAddress);
  DevicePointer other = 0;
  EXPECT_EQ(cu("cuMemAlloc_v2", &other, size_t{16}), kIllegalAddress);
  EXPECT_EQ(launch(triple, 1, memory, 4, 0), kIllegalAddress);
  EXPECT_THAT(last_fault(), HasSubstr("kernel triple, block (0, 0, 0), thread (4, 0, 0)"));
  EXPECT_THAT(last_fault(), HasSubstr("0 bytes past the end of the allocation of 16 bytes"));
  // After release and retain, the primary context is a new one without the error.
  ASSERT_EQ(cu("cuDevicePrimaryCtxRelease_v2", 0), kSuccess);
  ASSERT_EQ(cu("cuDevicePrimaryCtxRetain", &context_, 0), kSuccess);
  EXPECT_EQ(cu("cuCtxSynchronize"), kSuccess);
}

TEST_F(CudaEmulator, ReportsMisalignedAddress) {
  void* triple = function();
  const DevicePointer memory = upload({1, 2, 3, 4});
  EXPECT_EQ(launch(triple, 1, memory + 2, 1, 0), kSuccess);
  EXPECT_EQ(cu("cuStreamSynchronize", static_cast<void*>(nullptr)), kMisalignedAddress);
  cu("cuDevicePrimaryCtxRelease_v2", 0);
  cu("cuDevicePrimaryCtxRetain", &context_, 0);
}

TEST_F(CudaEmulator, HostCannotAccessDeviceMemory) {
  const DevicePointer memory = upload({7, 8});
  EXPECT_EQ(memory % 256, 0u);
  EXPECT_DEATH(std::printf("%u", *reinterpret_cast<volatile uint32_t*>(memory)), "");
  std::vector<uint32_t> host(4);
  EXPECT_EQ(cu("cuMemcpyDtoH_v2", static_cast<void*>(host.data()), memory, size_t{12}), kInvalidValue);
  EXPECT_EQ(cu("cuMemsetD32_v2", memory, 5u, size_t{3}), kInvalidValue);
  EXPECT_EQ(cu("cuMemsetD8_v2", memory + 1, static_cast<unsigned char>(0xab), size_t{2}), kSuccess);
  EXPECT_EQ(download(memory, 2), (std::vector<uint32_t>{0x00abab07, 8}));
  const DevicePointer fresh = allocate(8);
  EXPECT_EQ(download(fresh, 2), (std::vector<uint32_t>{~0u, ~0u}));  // NaN until it is written
  EXPECT_EQ(cu("cuMemFree_v2", memory + 4), kInvalidValue);
  EXPECT_EQ(cu("cuMemFree_v2", memory), kSuccess);
  EXPECT_EQ(cu("cuMemFree_v2", memory), kInvalidValue);
  EXPECT_EQ(cu("cuMemAlloc_v2", &host, size_t{1} << 60), kOutOfMemory);
}

TEST_F(CudaEmulator, AnswersPointerAttributes) {
  const DevicePointer memory = allocate(64);
  void* pinned = nullptr;
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t{64}, 0u), kSuccess);
  int local = 0;
  unsigned type = 9;
  int ordinal = 9;
  DevicePointer device_pointer = 9;
  int attributes[] = {2, 9, 3};
  void* values[] = {&type, &ordinal, &device_pointer};
  ASSERT_EQ(cu("cuPointerGetAttributes", 3u, attributes, values, memory + 8), kSuccess);
  EXPECT_EQ(type, 2u);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(device_pointer, memory + 8);
  ASSERT_EQ(cu("cuPointerGetAttributes", 3u, attributes, values, reinterpret_cast<DevicePointer>(pinned)),
            kSuccess);
  EXPECT_EQ(type, 1u);
  ASSERT_EQ(cu("cuPointerGetAttributes", 3u, attributes, values, reinterpret_cast<DevicePointer>(&local)),
            kSuccess);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(device_pointer, 0u);
  EXPECT_EQ(
      cu("cuPointerGetAttribute", static_cast<void*>(&type), 2, reinterpret_cast<DevicePointer>(&local)),
      kInvalidValue);
  // Kernels access pinned memory at its host address.
  auto* words = static_cast<uint32_t*>(pinned);
  words[0] = 5;
  ASSERT_EQ(launch(function(), 1, reinterpret_cast<DevicePointer>(pinned), 1, 0), kSuccess);
  EXPECT_EQ(words[0], 15u);
  EXPECT_EQ(cu("cuMemFreeHost", pinned), kSuccess);
}

TEST_F(CudaEmulator, CapturesRecordAndReplay) {
  void *triple = function(), *stream = nullptr, *graph = nullptr, *executable = nullptr;
  const DevicePointer memory = upload({1, 1});
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u), kSuccess);
  ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, 0), kSuccess);
  int status = 0;
  ASSERT_EQ(cu("cuStreamIsCapturing", stream, &status), kSuccess);
  EXPECT_EQ(status, kCaptureActive);
  ASSERT_EQ(launch(triple, 1, memory, 2, 0, stream), kSuccess);
  ASSERT_EQ(cu("cuMemsetD32Async", memory + 4, 9u, size_t{1}, stream), kSuccess);
  ASSERT_EQ(cu("cuStreamEndCapture", stream, &graph), kSuccess);
  EXPECT_EQ(download(memory, 2), (std::vector<uint32_t>{1, 1}));  // nothing has run yet
  ASSERT_EQ(cu("cuGraphInstantiateWithFlags", &executable, graph, 0ull), kSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cu("cuGraphLaunch", executable, stream), kSuccess);
  EXPECT_EQ(download(memory, 2), (std::vector<uint32_t>{9, 9}));
  EXPECT_EQ(cu("cuGraphExecDestroy", executable), kSuccess);
  EXPECT_EQ(cu("cuGraphDestroy", graph), kSuccess);
  EXPECT_EQ(cu("cuStreamDestroy_v2", stream), kSuccess);
}

TEST_F(CudaEmulator, UnsafeCallsInvalidateACapture) {
  void *stream = nullptr, *graph = nullptr, *module = nullptr;
  DevicePointer memory = 0;
  ASSERT_EQ(cu("cuStreamCreate", &stream, 1u), kSuccess);
  const auto begin = [&](int mode) { ASSERT_EQ(cu("cuStreamBeginCapture_v2", stream, mode), kSuccess); };
  const auto ended = [&] { return cu("cuStreamEndCapture", stream, &graph); };
  begin(0);
  EXPECT_EQ(cu("cuMemAlloc_v2", &memory, size_t{16}), kCaptureUnsupported);
  EXPECT_EQ(cu("cuMemsetD8Async", memory, static_cast<unsigned char>(0), size_t{1}, stream),
            kCaptureInvalidated);
  EXPECT_EQ(ended(), kCaptureInvalidated);
  begin(0);
  EXPECT_EQ(cu("cuModuleLoadData", &module, kPtx), kCaptureUnsupported);
  EXPECT_EQ(ended(), kCaptureInvalidated);
  // A call of another thread disturbs a global capture, unless that thread's mode is relaxed.
  begin(0);
  std::thread([&] {
    cu("cuCtxPushCurrent_v2", context_);
    int mode = 2;
    EXPECT_EQ(cu("cuThreadExchangeStreamCaptureMode", &mode), kSuccess);
    EXPECT_EQ(mode, 0);
    EXPECT_EQ(cu("cuModuleLoadData", &module, kPtx), kSuccess);
  }).join();
  EXPECT_EQ(ended(), kSuccess);
  begin(0);
  std::thread([&] {
    cu("cuCtxPushCurrent_v2", context_);
    EXPECT_EQ(cu("cuModuleLoadData", &module, kPtx), kCaptureUnsupported);
  }).join();
  EXPECT_EQ(ended(), kCaptureInvalidated);
  begin(1);  // thread-local: calls of other threads do no harm
  std::thread([&] {
    cu("cuCtxPushCurrent_v2", context_);
    EXPECT_EQ(cu("cuModuleLoadData", &module, kPtx), kSuccess);
  }).join();
  EXPECT_EQ(ended(), kSuccess);
  begin(2);
  EXPECT_EQ(cu("cuMemAlloc_v2", &memory, size_t{16}), kSuccess);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), kCaptureUnsupported);
  EXPECT_EQ(ended(), kCaptureInvalidated);
  EXPECT_EQ(ended(), kIllegalState);
}

TEST_F(CudaEmulator, CapturesForkAndJoin) {
  void *first = nullptr, *second = nullptr, *fork = nullptr, *join = nullptr, *graph = nullptr;
  const DevicePointer memory = upload({1, 1});
  for (void** stream : {&first, &second}) ASSERT_EQ(cu("cuStreamCreate", stream, 1u), kSuccess);
  for (void** event : {&fork, &join}) ASSERT_EQ(cu("cuEventCreate", event, 2u), kSuccess);
  for (const bool joined : {true, false}) {
    ASSERT_EQ(cu("cuStreamBeginCapture_v2", first, 0), kSuccess);
    ASSERT_EQ(cu("cuEventRecord", fork, first), kSuccess);
    ASSERT_EQ(cu("cuStreamWaitEvent", second, fork, 0u), kSuccess);
    ASSERT_EQ(cu("cuMemsetD32Async", memory, 9u, size_t{1}, second), kSuccess);
    ASSERT_EQ(cu("cuEventRecord", join, second), kSuccess);
    if (joined) ASSERT_EQ(cu("cuStreamWaitEvent", first, join, 0u), kSuccess);
    EXPECT_EQ(cu("cuEventQuery", join), kCapturedEvent);
    EXPECT_EQ(cu("cuStreamEndCapture", first, &graph), kCaptureInvalidated);  // the query invalidated it
  }
  for (const bool joined : {true, false}) {
    ASSERT_EQ(cu("cuStreamBeginCapture_v2", first, 0), kSuccess);
    cu("cuEventRecord", fork, first);
    cu("cuStreamWaitEvent", second, fork, 0u);
    cu("cuMemsetD32Async", memory, 9u, size_t{1}, second);
    cu("cuEventRecord", join, second);
    if (joined) cu("cuStreamWaitEvent", first, join, 0u);
    EXPECT_EQ(cu("cuStreamEndCapture", first, &graph), joined ? kSuccess : kCaptureUnjoined);
  }
}

TEST_F(CudaEmulator, RefusesInvalidTensorMaps) {
  struct Request {
    int type = 6;
    uint32_t rank = 2;
    uint64_t address = 4096;
    uint64_t extents[5] = {100, 50}, strides[4] = {208};
    uint32_t box[5] = {64, 32}, steps[5] = {1, 1, 1, 1, 1};
    int interleave = 0, swizzle = 3, promotion = 0, fill = 0;
  };
  alignas(64) uint8_t map[128];
  const auto encode = [&](const Request& r) {
    return cu("cuTensorMapEncodeTiled", static_cast<void*>(map), r.type, r.rank,
              reinterpret_cast<void*>(r.address), r.extents, r.strides, r.box, r.steps, r.interleave,
              r.swizzle, r.promotion, r.fill);
  };
  EXPECT_EQ(encode(Request()), kSuccess);
  const auto with = [](auto change) {
    Request request;
    change(request);
    return request;
  };
  EXPECT_EQ(encode(with([](Request& r) { r.address = 4104; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.strides[0] = 200; })), kInvalidValue);  // not a multiple of 16
  EXPECT_EQ(encode(with([](Request& r) { r.strides[0] = uint64_t{1} << 40; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.box[1] = 257; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.box[0] = 0; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.box[0] = 72; })),
            kInvalidValue);  // 144 bytes under a swizzle of 128
  EXPECT_EQ(encode(with([](Request& r) { r.box[0] = 20, r.swizzle = 0; })), kInvalidValue);  // 40 bytes
  EXPECT_EQ(encode(with([](Request& r) { r.box[0] = 256, r.swizzle = 0; })), kSuccess);
  EXPECT_EQ(encode(with([](Request& r) { r.extents[0] = 0; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.steps[0] = 9; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.rank = 6; })), kInvalidValue);
  EXPECT_EQ(encode(with([](Request& r) { r.type = 0, r.fill = 1; })), kInvalidValue);
}

TEST_F(CudaEmulator, HooksFailAndRecord) {
  hook<decltype(emu_fail_next)>("emu_fail_next")("cuMemAlloc_v2", kOutOfMemory, 1);
  DevicePointer memory = 0;
  EXPECT_EQ(cu("cuMemAlloc_v2", &memory, size_t{16}), kSuccess);
  DevicePointer other = 0;
  EXPECT_EQ(cu("cuMemAlloc_v2", &other, size_t{16}), kOutOfMemory);
  EXPECT_EQ(cu("cuMemAlloc_v2", &other, size_t{16}), kSuccess);
  EXPECT_EQ(hook<decltype(emu_call_count)>("emu_call_count")("cuMemAlloc_v2"), 3u);
  void* triple = function();
  hook<decltype(emu_record)>("emu_record")(1);
  LaunchAttribute attribute = {};
  attribute.id = kAttributeClusterDimension;
  attribute.cluster[0] = attribute.cluster[1] = attribute.cluster[2] = 1;
  LaunchAttribute programmatic = {};
  programmatic.id = kAttributeProgrammaticStreamSerialization;
  programmatic.value = 1;
  LaunchAttribute attributes[] = {attribute, programmatic};
  LaunchConfiguration config = {{3, 2, 1}, {32, 1, 1}, 128, nullptr, attributes, 2};
  uint32_t n = 0, add = 77;
  void* parameters[] = {&memory, &n, &add};
  ASSERT_EQ(cu("cuLaunchKernelEx", &config, triple, parameters, static_cast<void**>(nullptr)), kSuccess);
  ASSERT_EQ(hook<decltype(emu_launch_count)>("emu_launch_count")(), 1u);
  EmuLaunch launch;
  ASSERT_EQ(hook<decltype(emu_get_launch)>("emu_get_launch")(0, &launch), 1);
  EXPECT_STREQ(launch.kernel, "triple");
  EXPECT_EQ(launch.grid[0], 3u);
  EXPECT_EQ(launch.grid[1], 2u);
  EXPECT_EQ(launch.dynamic_shared, 128u);
  EXPECT_EQ(launch.programmatic, 1);
  EXPECT_EQ(launch.cluster[0], 1u);
  ASSERT_EQ(launch.parameter_bytes, 16u);
  EXPECT_EQ(std::memcmp(launch.parameters, &memory, 8), 0);
  EXPECT_EQ(launch.parameters[12], 77);
  EXPECT_GE(launch.instructions, 6u * 32);
  EXPECT_EQ(hook<decltype(emu_schedule)>("emu_schedule")(5, "sometimes"), 0);
  EXPECT_EQ(hook<decltype(emu_schedule)>("emu_schedule")(5, "late"), 1);
}

TEST_F(CudaEmulator, RefusesInvalidLaunches) {
  void* triple = function();
  const auto run = [&](LaunchConfiguration config) {
    DevicePointer memory = 0;
    uint32_t n = 0, add = 0;
    void* parameters[] = {&memory, &n, &add};
    return cu("cuLaunchKernelEx", &config, triple, parameters, static_cast<void**>(nullptr));
  };
  EXPECT_EQ(run({{1, 1, 1}, {512, 1, 1}, 0, nullptr, nullptr, 0}), kLaunchOutOfResources);  // .maxntid 256
  EXPECT_EQ(run({{0, 1, 1}, {32, 1, 1}, 0, nullptr, nullptr, 0}), kInvalidValue);
  EXPECT_EQ(run({{1, 65536, 1}, {32, 1, 1}, 0, nullptr, nullptr, 0}), kInvalidValue);
  EXPECT_EQ(run({{1, 1, 1}, {32, 1, 1}, 100000, nullptr, nullptr, 0}), kInvalidValue);
  ASSERT_EQ(cu("cuFuncSetAttribute", triple, 8, 100000), kSuccess);
  EXPECT_EQ(run({{1, 1, 1}, {32, 1, 1}, 100000, nullptr, nullptr, 0}), kSuccess);
  EXPECT_EQ(cu("cuFuncSetAttribute", triple, 8, 232448), kInvalidValue);  // beside 64 static bytes
  LaunchAttribute attribute = {};
  attribute.id = kAttributeClusterDimension;
  attribute.cluster[0] = 16;
  attribute.cluster[1] = attribute.cluster[2] = 1;
  EXPECT_EQ(run({{16, 1, 1}, {32, 1, 1}, 0, nullptr, &attribute, 1}), kInvalidClusterSize);
  ASSERT_EQ(cu("cuFuncSetAttribute", triple, 14, 1), kSuccess);
  EXPECT_EQ(run({{16, 1, 1}, {32, 1, 1}, 0, nullptr, &attribute, 1}), kSuccess);
  EXPECT_EQ(run({{15, 1, 1}, {32, 1, 1}, 0, nullptr, &attribute, 1}), kInvalidValue);
  EXPECT_EQ(run({{1, 1, 1}, {32, 1, 1}, 0, &attribute, nullptr, 0}), kInvalidHandle);  // no such stream
  int blocks = 0;
  ASSERT_EQ(cu("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks, triple, 256, size_t{100000}),
            kSuccess);
  EXPECT_EQ(blocks, 2);
}

TEST_F(CudaEmulator, FindsSymbolsByName) {
  void* found = nullptr;
  int status = 9;
  ASSERT_EQ(cu("cuGetProcAddress_v2", "cuMemAlloc", &found, 12000, uint64_t{0}, &status), kSuccess);
  EXPECT_EQ(found, dlsym(library(), "cuMemAlloc_v2"));
  EXPECT_EQ(cu("cuGetProcAddress_v2", "cuNothing", &found, 12000, uint64_t{0}, &status), kNotFound);
}

}  // namespace
}  // namespace lathe::emulator
