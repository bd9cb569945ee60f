// Modules, functions and the linker. A "cubin" of this driver is the PTX text after a header line.
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/gpu/emulator/driver/state.h"

using namespace lathe::emulator;

namespace {

constexpr char kCubinHeader[] = "// cubin of the PTX emulator for ";
constexpr int kOptionErrorLog = 5, kOptionErrorLogBytes = 6;
constexpr int kDefaultShared = 49152;

enum FunctionAttribute : int {
  kMaxThreads = 0,
  kStaticShared = 1,
  kConstBytes = 2,
  kLocalBytes = 3,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kCacheMode = 7,
  kMaxDynamicShared = 8,
  kCarveout = 9,
  kClusterMustBeSet = 10,
  kClusterWidth = 11,
  kClusterHeight = 12,
  kClusterDepth = 13,
  kNonPortableCluster = 14,
  kClusterScheduling = 15,
};

void write_log(unsigned count, const int* options, void** values, absl::string_view text) {
  char* buffer = nullptr;
  size_t bytes = 0;
  void** size = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == kOptionErrorLog) buffer = static_cast<char*>(values[i]);
    if (options[i] != kOptionErrorLogBytes) continue;
    bytes = reinterpret_cast<size_t>(values[i]);
    size = &values[i];
  }
  if (buffer == nullptr || bytes == 0) return;
  const size_t kept = std::min(bytes - 1, text.size());
  std::memcpy(buffer, text.data(), kept);
  buffer[kept] = '\0';
  if (size != nullptr) *size = reinterpret_cast<void*>(kept);
}

// Whether PTX for this target runs on the device. Architecture-specific code ("sm_90a") needs that architecture,
// family-specific code ("f") the same family, all other code an equal or newer architecture.
bool target_fits(const State& state, const std::string& target) {
  int number = 0;
  char suffix = 0;
  if (std::sscanf(target.c_str(), "sm_%d%c", &number, &suffix) < 1) return false;
  const int device = state.options.major * 10 + state.options.minor;
  if (suffix == 'a') return target == state.options.arch;
  if (suffix == 'f') return number / 10 == device / 10 && number <= device;
  return number <= device;
}

// Parses the module into `code`, or returns the result to answer and writes `log`.
int parse_code(const State& state, absl::string_view text, bool linked,
               std::unique_ptr<lathe::ptx::Module>* code, std::string* log) {
  auto parsed = lathe::ptx::Module::parse(text, linked);
  if (!parsed.ok()) {
    *log = std::string(parsed.status().message());
    return kInvalidPtx;
  }
  if (!target_fits(state, (*parsed)->target())) {
    *log = absl::StrCat("ptx for ", (*parsed)->target(), " does not run on ", state.options.arch);
    return kInvalidPtx;
  }
  *code = *std::move(parsed);
  return kSuccess;
}

int load(Call& call, Module** module, const void* image, unsigned count, const int* options, void** values) {
  if (module == nullptr || image == nullptr) return kInvalidValue;
  State& state = call.state();
  absl::string_view text(static_cast<const char*>(image),
                         strnlen(static_cast<const char*>(image), size_t{1} << 30));
  if (absl::StartsWith(text,
                       "\x7f"
                       "ELF") ||
      absl::StartsWith(text, "\x50\xed\x55\xba"))
    return kNoBinaryForGpu;
  const bool linked = absl::ConsumePrefix(&text, kCubinHeader);
  if (linked) {
    const absl::string_view arch = text.substr(0, text.find('\n'));
    if (arch != state.options.arch) return kNoBinaryForGpu;
    text.remove_prefix(arch.size());
  }
  std::unique_ptr<lathe::ptx::Module> code;
  std::string log;
  if (const int result = parse_code(state, text, linked, &code, &log); result != kSuccess) {
    write_log(count, options, values, log);
    return result;
  }
  auto* loaded = new Module;
  loaded->context = call.context();
  loaded->code = std::move(code);
  for (const lathe::ptx::Global& global : loaded->code->globals()) {
    call.device().memory.add(global.address, global.size, absl::StrCat("the variable ", global.name));
  }
  for (const auto& kernel : loaded->code->kernels()) {
    auto function = std::make_unique<Function>();
    function->module = loaded;
    function->kernel = kernel.get();
    const int fixed = static_cast<int>(kernel->static_shared - lathe::ptx::kSharedBase);
    function->dynamic_shared_limit = std::max(0, kDefaultShared - fixed);
    loaded->functions[kernel->name] = std::move(function);
  }
  call.context()->modules.insert(loaded);
  *module = loaded;
  return kSuccess;
}

bool is_module(Call& call, const Module* module) {
  for (const Context* context : call.state().contexts) {
    if (context->modules.count(const_cast<Module*>(module)) != 0) return true;
  }
  return false;
}

int threads_of(const lathe::ptx::Kernel& kernel) {
  const auto& dims = kernel.required_block[0] != 0 ? kernel.required_block : kernel.max_block;
  return dims[0] == 0 ? 1024 : static_cast<int>(dims[0] * dims[1] * dims[2]);
}

}  // namespace

EMU_API cuModuleLoadData(Module** module, const void* image) {
  EMU_CALL("cuModuleLoadData", kContext | Call::kUnsafe);
  return load(call, module, image, 0, nullptr, nullptr);
}

EMU_API cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
  EMU_CALL("cuModuleLoadDataEx", kContext | Call::kUnsafe);
  return load(call, module, image, count, options, values);
}

EMU_API cuModuleUnload(Module* module) {
  EMU_CALL("cuModuleUnload", kContext | Call::kUnsafe);
  if (!is_module(call, module)) return kInvalidHandle;
  call.state().unload(module);
  return kSuccess;
}

EMU_API cuModuleGetFunction(Function** function, Module* module, const char* name) {
  EMU_CALL("cuModuleGetFunction", kContext);
  if (function == nullptr || name == nullptr) return kInvalidValue;
  if (!is_module(call, module)) return kInvalidHandle;
  const auto it = module->functions.find(name);
  if (it == module->functions.end()) return kNotFound;
  *function = it->second.get();
  return kSuccess;
}

EMU_API cuModuleGetGlobal_v2(DevicePointer* address, size_t* bytes, Module* module, const char* name) {
  EMU_CALL("cuModuleGetGlobal_v2", kContext);
  if (name == nullptr) return kInvalidValue;
  if (!is_module(call, module)) return kInvalidHandle;
  const lathe::ptx::Global* global = module->code->find_global(name);
  if (global == nullptr) return kNotFound;
  if (address != nullptr) *address = global->address;
  if (bytes != nullptr) *bytes = global->size;
  return kSuccess;
}

EMU_API cuFuncLoad(Function* function) {
  EMU_CALL("cuFuncLoad", kContext | Call::kUnsafe);
  return function == nullptr ? kInvalidHandle : kSuccess;
}

EMU_API cuFuncSetAttribute(Function* function, int attribute, int value) {
  EMU_CALL("cuFuncSetAttribute", kContext);
  if (function == nullptr) return kInvalidHandle;
  if (attribute == kMaxDynamicShared) {
    const int fixed = static_cast<int>(function->kernel->static_shared - lathe::ptx::kSharedBase);
    int most = 0;
    if (value < 0 || cuDeviceGetAttribute(&most, kMaxSharedOptin, call.context()->device) != kSuccess ||
        value + fixed > most)
      return kInvalidValue;
    function->dynamic_shared_limit = value;
    return kSuccess;
  }
  if (attribute == kNonPortableCluster) {
    function->non_portable_cluster = value != 0;
    return kSuccess;
  }
  if (attribute == kCarveout || attribute == kClusterScheduling ||
      (attribute >= kClusterMustBeSet && attribute <= kClusterDepth)) {
    function->hints[attribute] = value;
    return kSuccess;
  }
  return kInvalidValue;
}

EMU_API cuFuncGetAttribute(int* value, int attribute, Function* function) {
  EMU_CALL("cuFuncGetAttribute", kContext);
  if (value == nullptr) return kInvalidValue;
  if (function == nullptr) return kInvalidHandle;
  const lathe::ptx::Kernel& kernel = *function->kernel;
  const int capability = call.state().options.major * 10 + call.state().options.minor;
  switch (attribute) {
    case kMaxThreads: *value = threads_of(kernel); return kSuccess;
    case kStaticShared:
      *value = static_cast<int>(kernel.static_shared - lathe::ptx::kSharedBase);
      return kSuccess;
    case kLocalBytes: *value = static_cast<int>(kernel.local_bytes); return kSuccess;
    // The emulator allocates no registers, so it answers as many as the launch bounds allow.
    case kRegisters:
      *value = std::min(255, 65536 / std::max(threads_of(kernel), 256) / 8 * 8);
      return kSuccess;
    case kPtxVersion:
    case kBinaryVersion: *value = capability; return kSuccess;
    case kMaxDynamicShared: *value = function->dynamic_shared_limit; return kSuccess;
    case kClusterMustBeSet: *value = 0; return kSuccess;
    case kClusterWidth:
    case kClusterHeight:
    case kClusterDepth:
      *value = static_cast<int>(kernel.cluster[static_cast<size_t>(attribute - kClusterWidth)]);
      return kSuccess;
    case kNonPortableCluster: *value = function->non_portable_cluster; return kSuccess;
    case kConstBytes:
    case kCacheMode:
    case kCarveout:
    case kClusterScheduling: *value = function->hints[attribute]; return kSuccess;
    default: return kInvalidValue;
  }
}

EMU_API cuFuncGetParamInfo(Function* function, size_t index, size_t* offset, size_t* bytes) {
  EMU_CALL("cuFuncGetParamInfo", kContext);
  if (function == nullptr) return kInvalidHandle;
  if (offset == nullptr || index >= function->kernel->parameters.size()) return kInvalidValue;
  *offset = function->kernel->parameters[index].offset;
  if (bytes != nullptr) *bytes = function->kernel->parameters[index].size;
  return kSuccess;
}

namespace {

struct Link {
  std::string ptx, image;
  unsigned count = 0;
  std::vector<int> options;
  void** values = nullptr;
};

}  // namespace

EMU_API cuLinkCreate_v2(unsigned count, int* options, void** values, Link** link) {
  EMU_CALL("cuLinkCreate_v2", kContext | Call::kUnsafe);
  if (link == nullptr) return kInvalidValue;
  *link = new Link{"", "", count, std::vector<int>(options, options + count), values};
  return kSuccess;
}

EMU_API cuLinkAddData_v2(Link* link, int type, void* data, size_t bytes, const char*, unsigned, int*,
                         void**) {
  EMU_CALL("cuLinkAddData_v2", kContext | Call::kUnsafe);
  if (link == nullptr || data == nullptr) return kInvalidValue;
  if (type != 1) return kNotSupported;  // CU_JIT_INPUT_PTX
  if (!link->ptx.empty()) return kNotSupported;
  const absl::string_view text(static_cast<const char*>(data),
                               strnlen(static_cast<const char*>(data), bytes));
  std::unique_ptr<lathe::ptx::Module> code;
  std::string log;
  if (const int result = parse_code(call.state(), text, /*linked=*/true, &code, &log); result != kSuccess) {
    write_log(link->count, link->options.data(), link->values, log);
    return result;
  }
  link->ptx = std::string(text);
  return kSuccess;
}

EMU_API cuLinkComplete(Link* link, void** image, size_t* bytes) {
  EMU_CALL("cuLinkComplete", kContext | Call::kUnsafe);
  if (link == nullptr || image == nullptr) return kInvalidValue;
  if (link->ptx.empty()) return kInvalidImage;
  link->image = absl::StrCat(kCubinHeader, call.state().options.arch, "\n", link->ptx);
  *image = link->image.data();
  if (bytes != nullptr) *bytes = link->image.size() + 1;
  return kSuccess;
}

EMU_API cuLinkDestroy(Link* link) {
  EMU_CALL("cuLinkDestroy", kInitialised);
  delete link;
  return kSuccess;
}
