// A stub of libcublasLt.so.13 and, with LATHE_STUB_HIP, of libhipblaslt.so.1. It checks every call against the vendor's
// documentation and computes products in double precision on the memory of the emulated driver. A violation prints a
// line on stderr and returns the vendor's status: 7 for an invalid value, 15 for an unsupported one.
//
// LATHE_STUB_BLASLT=fail makes every product fail; =none finds no algorithm for any product; =several offers four
// algorithms to a caller that asks for as many: a right one, one that fails, one with wrong results and a slow right
// one; =slow_first offers two, the slow one first.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

#ifdef LATHE_STUB_HIP
#define ENTRY(name) extern "C" __attribute__((visibility("default"))) int hipblasLt##name
constexpr int kComputeF32 = 2, kComputeTf32 = 6, kComputeI32 = 9, kN = 111, kT = 112;
constexpr int kTransA = 0, kTransB = 1, kEpilogue = 2, kBias = 3, kBiasType = 4;
constexpr int kBatch = 0, kStride = 1, kWorkspace = 1, kReductions = -1, kAlignment = -1;
constexpr const char *kDriver = "libamdhip64.so.6", *kToHost = "hipMemcpyDtoHAsync",
                     *kToDevice = "hipMemcpyHtoDAsync", *kWait = "hipStreamSynchronize",
                     *kIsCapturing = "hipStreamIsCapturing", *kLaunchHost = "hipLaunchHostFunc";
#else
#define ENTRY(name) extern "C" __attribute__((visibility("default"))) int cublasLt##name
constexpr int kComputeF32 = 68, kComputeTf32 = 77, kComputeI32 = 72, kN = 0, kT = 1;
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBias = 8, kBiasType = 26;
constexpr int kBatch = 5, kStride = 6, kWorkspace = 1, kReductions = 3, kAlignment = 5;
constexpr const char *kDriver = "libcuda.so.1", *kToHost = "cuMemcpyDtoHAsync_v2",
                     *kToDevice = "cuMemcpyHtoDAsync_v2", *kWait = "cuStreamSynchronize",
                     *kIsCapturing = "cuStreamIsCapturing", *kLaunchHost = "cuLaunchHostFunc";
#endif
constexpr int kF32 = 0, kF16 = 2, kI8 = 3, kI32 = 10, kBF16 = 14, kE4M3 = 28;
constexpr size_t kResultBytes = 96;  // size of one result of the heuristics
constexpr int kInvalid = 7, kUnsupported = 15, kFailed = 13;
constexpr int kEpilogueDefault = 1, kEpilogueBias = 4;

int breach(const char* what) {
  std::fprintf(stderr, "blaslt: %s\n", what);
  return kInvalid;
}
#define ASK(condition)                           \
  do {                                           \
    if (!(condition)) return breach(#condition); \
  } while (false)

struct Desc {
  int compute = 0, scale = 0, trans_a = kN, trans_b = kN, epilogue = kEpilogueDefault, bias_type = -1;
  const void* bias = nullptr;
};
struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, stride = 0;
  int32_t batch = 1;
  bool operator==(const Layout& o) const {
    return type == o.type && rows == o.rows && columns == o.columns && leading == o.leading &&
           stride == o.stride && batch == o.batch;
  }
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256};  // the documented defaults
};
// How an algorithm behaves.
enum class Kind { kRight, kFails, kWrong, kSlow };
constexpr std::chrono::milliseconds kSlowness(20);

// The request that an algorithm was found for, kept under the algorithm's number.
struct Found {
  int compute, trans_a, trans_b, epilogue;
  Layout layouts[4];
  Preference preference;
  Kind kind = Kind::kRight;
};

std::mutex mutex;
std::set<void*> handles, descs, layouts, preferences;
std::map<uint64_t, Found> algorithms;

template <typename T>
int make(std::set<void*>* all, void** out, T value) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(out != nullptr);
  *out = new T(value);
  all->insert(*out);
  return 0;
}
template <typename T>
int drop(std::set<void*>* all, void* p) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(all->erase(p) == 1);
  delete static_cast<T*>(p);
  return 0;
}
template <typename T>
int set(T* field, const void* value, size_t bytes) {
  ASK(value != nullptr && bytes == sizeof(T));
  std::memcpy(field, value, bytes);
  return 0;
}

template <typename T>
T as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

size_t size_of(int type) { return type == kI8 || type == kE4M3 ? 1 : type == kF16 || type == kBF16 ? 2 : 4; }
bool is_way(const char* way) {
  const char* text = std::getenv("LATHE_STUB_BLASLT");
  return text != nullptr && std::string(text) == way;
}

// The algorithms for a product, in the order in which the heuristics return them.
std::vector<Kind> kinds() {
  if (is_way("several")) return {Kind::kRight, Kind::kFails, Kind::kWrong, Kind::kSlow};
  if (is_way("slow_first")) return {Kind::kSlow, Kind::kRight};
  return {Kind::kRight};
}

// Checks the types by the documented table, and that the layouts fit each other and the operation.
int check(const Desc& d, const Layout (&l)[4]) {
  const bool bytes = d.compute == kComputeI32;
  const bool eights = l[0].type == kE4M3;
  const bool floats =
      (eights && (l[3].type == kF32 || l[3].type == kF16 || l[3].type == kBF16)) ||
      (l[0].type == kF32 && l[3].type == kF32) ||
      ((l[0].type == kF16 || l[0].type == kBF16) && (l[3].type == kF32 || l[3].type == l[0].type));
  ASK(l[0].type == l[1].type && l[2].type == l[3].type);
  ASK(bytes ? l[0].type == kI8 && l[3].type == kI32 && d.scale == kI32 : floats && d.scale == kF32);
  ASK(d.compute != kComputeTf32 || l[0].type == kF32);
  const uint64_t m = d.trans_a == kT ? l[0].columns : l[0].rows,
                 k = d.trans_a == kT ? l[0].rows : l[0].columns;
  const uint64_t n = d.trans_b == kT ? l[1].rows : l[1].columns;
  ASK((d.trans_b == kT ? l[1].columns : l[1].rows) == k);
  for (const Layout& out : {l[2], l[3]}) ASK(out.rows == m && out.columns == n);
  for (const Layout& one : l) {
    ASK(one.rows > 0 && one.columns > 0 && one.leading >= static_cast<int64_t>(one.rows));
    ASK(one.batch == l[3].batch && one.batch >= 1 && one.stride >= 0);
  }
  if (bytes) ASK(d.trans_a == kT && d.trans_b == kN && m % 4 == 0 && k % 4 == 0);
  if (bytes) ASK(l[0].leading % 4 == 0 && l[1].leading % 4 == 0);
  // fp8 needs a transposed A and rows that are multiples of 16 bytes.
  if (eights)
    ASK(d.compute == kComputeF32 && d.trans_a == kT && d.trans_b == kN && m % 16 == 0 && k % 16 == 0);
  ASK(d.epilogue == kEpilogueDefault || d.epilogue == kEpilogueBias);
  if (d.epilogue == kEpilogueBias) ASK(d.bias_type == l[3].type);
  return 0;
}

double to_double(const uint8_t* at, int type) {
  if (type == kI8) return static_cast<int8_t>(*at);
  if (type == kI32) {
    int32_t v;
    std::memcpy(&v, at, 4);
    return v;
  }
  if (type == kE4M3) {
    const int exponent = *at >> 3 & 15, fraction = *at & 7;
    if ((*at & 0x7f) == 0x7f) return NAN;
    const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return *at & 0x80 ? -size : size;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(type));
  if (type == kBF16) bits <<= 16;
  if (type == kF16) {
    _Float16 half;
    std::memcpy(&half, at, 2);
    return static_cast<double>(half);
  }
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
void from_double(double v, int type, uint8_t* at) {
  if (type == kI32) {
    const auto i = static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(v)));
    std::memcpy(at, &i, 4);
  } else if (type == kF16) {
    const auto half = static_cast<_Float16>(v);
    std::memcpy(at, &half, 2);
  } else {
    const auto f = static_cast<float>(v);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    if (type == kF32) {
      std::memcpy(at, &f, 4);
    } else {
      bits = std::isnan(f) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
      std::memcpy(at, &bits, 2);
    }
  }
}

// The memory of the emulated driver, copied to and from the host in the stream.
class Memory {
 public:
  explicit Memory(void* stream) : stream_(stream) {
    void* driver = dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) return;
    to_host_ = reinterpret_cast<decltype(to_host_)>(dlsym(driver, kToHost));
    to_device_ = reinterpret_cast<decltype(to_device_)>(dlsym(driver, kToDevice));
    wait_ = reinterpret_cast<decltype(wait_)>(dlsym(driver, kWait));
  }
  bool fetch(const void* from, size_t bytes, std::vector<uint8_t>* out) const {
    out->resize(bytes);
    return to_host_ != nullptr &&
           to_host_(out->data(), reinterpret_cast<uint64_t>(from), bytes, stream_) == 0 &&
           wait_(stream_) == 0;
  }
  bool store(void* to, const uint8_t* from, size_t bytes) const {
    return to_device_(reinterpret_cast<uint64_t>(to), from, bytes, stream_) == 0 && wait_(stream_) == 0;
  }

 private:
  void* stream_;
  int (*to_host_)(void*, uint64_t, size_t, void*) = nullptr;
  int (*to_device_)(uint64_t, const void*, size_t, void*) = nullptr;
  int (*wait_)(void*) = nullptr;
};

// One matrix of a batch, on the host.
struct Matrix {
  Layout l;
  std::vector<uint8_t> bytes;
  bool fetch(const Memory& memory, const void* from, int64_t index) {
    const auto size = static_cast<int64_t>(size_of(l.type));
    const auto span = (static_cast<int64_t>(l.columns) - 1) * l.leading + static_cast<int64_t>(l.rows);
    return memory.fetch(static_cast<const char*>(from) + index * l.stride * size,
                        static_cast<size_t>(span * size), &bytes);
  }
  double at(uint64_t row, uint64_t column) const {
    return to_double(bytes.data() + (column * static_cast<uint64_t>(l.leading) + row) * size_of(l.type),
                     l.type);
  }
};

int multiply(const Memory& memory, const Desc& d, const Layout* l, double alpha, double beta, const void* a,
             const void* b, const void* c, void* out) {
  const uint64_t k = d.trans_a == kT ? l[0].rows : l[0].columns;
  Matrix ma{l[0], {}}, mb{l[1], {}}, mc{l[2], {}};
  std::vector<uint8_t> bias;
  if (d.epilogue == kEpilogueBias && !memory.fetch(d.bias, l[3].rows * size_of(l[3].type), &bias))
    return kFailed;
  for (int64_t i = 0; i < l[3].batch; ++i) {
    if (!ma.fetch(memory, a, i) || !mb.fetch(memory, b, i)) return kFailed;
    if (beta != 0 && !mc.fetch(memory, c, i)) return kFailed;
    std::vector<uint8_t> column(l[3].rows * size_of(l[3].type));
    for (uint64_t n = 0; n < l[3].columns; ++n) {
      for (uint64_t m = 0; m < l[3].rows; ++m) {
        double sum = 0;
        for (uint64_t x = 0; x < k; ++x)
          sum +=
              (d.trans_a == kT ? ma.at(x, m) : ma.at(m, x)) * (d.trans_b == kT ? mb.at(n, x) : mb.at(x, n));
        double value = alpha * sum;
        if (beta != 0) value += beta * mc.at(m, n);
        if (!bias.empty()) value += to_double(bias.data() + m * size_of(l[3].type), l[3].type);
        from_double(value, l[3].type, column.data() + m * size_of(l[3].type));
      }
      const auto at = (i * l[3].stride + static_cast<int64_t>(n) * l[3].leading) *
                      static_cast<int64_t>(size_of(l[3].type));
      if (!memory.store(static_cast<char*>(out) + at, column.data(), column.size())) return kFailed;
    }
  }
  return 0;
}

struct Places {
  const void *a, *b, *c;
  void* out;
};

int run(const Desc& product, const Layout* all, double by, double plus, const Places& at, void* workspace,
        void* stream) {
  // A real library keeps data in the workspace between its kernels. Writes a mark, to detect that another call
  // overwrites it.
  static std::atomic<uint64_t> calls{0};
  const uint64_t call = ++calls;
  const Memory memory(stream);
  std::vector<uint8_t> left;
  if (!memory.store(workspace, reinterpret_cast<const uint8_t*>(&call), sizeof call)) return kFailed;
  if (int status = multiply(memory, product, all, by, plus, at.a, at.b, at.c, at.out); status != 0)
    return status;
  if (!memory.fetch(workspace, sizeof call, &left)) return kFailed;
  ASK(as<uint64_t>(left.data()) == call);
  return 0;
}

// Runs the work now, or in each replay of the graph if the stream is being captured. There a host node stands for the
// kernel; the emulated driver allows it to copy.
int in_stream(void* stream, const std::function<int()>& work) {
  void* driver = dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return kFailed;
  auto* is_capturing = reinterpret_cast<int (*)(void*, int*)>(dlsym(driver, kIsCapturing));
  auto* launch = reinterpret_cast<int (*)(void*, void (*)(void*), void*)>(dlsym(driver, kLaunchHost));
  int captured = 0;
  if (is_capturing == nullptr || is_capturing(stream, &captured) != 0 || captured == 0) return work();
  if (launch == nullptr) return kFailed;
  static std::vector<std::unique_ptr<std::function<int()>>> nodes;  // kept as long as any graph may live
  const std::lock_guard<std::mutex> lock(mutex);
  nodes.push_back(std::make_unique<std::function<int()>>(work));
  const auto call = [](void* node) {
    if ((*static_cast<std::function<int()>*>(node))() != 0) breach("a captured product failed");
  };
  return launch(stream, call, nodes.back().get()) == 0 ? 0 : kFailed;
}

}  // namespace

#ifndef LATHE_STUB_HIP
extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130200; }
#endif

ENTRY(Create)(void** handle) { return make(&handles, handle, 0); }
ENTRY(Destroy)(void* handle) { return drop<int>(&handles, handle); }
ENTRY(MatmulDescCreate)(void** out, int compute, int scale) {
  ASK(compute == kComputeF32 || compute == kComputeTf32 || compute == kComputeI32);
  Desc d;
  d.compute = compute;
  d.scale = scale;
  return make(&descs, out, d);
}
ENTRY(MatmulDescDestroy)(void* desc) { return drop<Desc>(&descs, desc); }
ENTRY(MatmulDescSetAttribute)(void* desc, int attribute, const void* value, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(descs.count(desc) == 1);
  auto* d = static_cast<Desc*>(desc);
  switch (attribute) {
    case kTransA: return set(&d->trans_a, value, bytes);
    case kTransB: return set(&d->trans_b, value, bytes);
    case kEpilogue: return set(&d->epilogue, value, bytes);
    case kBias: return set(&d->bias, value, bytes);
    case kBiasType: return set(&d->bias_type, value, bytes);
    default: return breach("unknown attribute of a product");
  }
}
ENTRY(MatrixLayoutCreate)(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  Layout l;
  l.type = type;
  l.rows = rows;
  l.columns = columns;
  l.leading = leading;
  return make(&layouts, out, l);
}
ENTRY(MatrixLayoutDestroy)(void* layout) { return drop<Layout>(&layouts, layout); }
ENTRY(MatrixLayoutSetAttribute)(void* layout, int attribute, const void* value, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(layouts.count(layout) == 1);
  auto* l = static_cast<Layout*>(layout);
  if (attribute == kBatch) return set(&l->batch, value, bytes);
  if (attribute == kStride) return set(&l->stride, value, bytes);
  return breach("unknown attribute of a layout");
}
ENTRY(MatmulPreferenceCreate)(void** out) { return make(&preferences, out, Preference()); }
ENTRY(MatmulPreferenceDestroy)(void* preference) { return drop<Preference>(&preferences, preference); }
ENTRY(MatmulPreferenceSetAttribute)(void* preference, int attribute, const void* value, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(preferences.count(preference) == 1);
  auto* p = static_cast<Preference*>(preference);
  if (attribute == kWorkspace) return set(&p->workspace, value, bytes);
  if (attribute == kReductions && kReductions >= 0) return set(&p->reductions, value, bytes);
  if (kAlignment >= 0 && attribute >= kAlignment && attribute < kAlignment + 4)
    return set(&p->alignment[attribute - kAlignment], value, bytes);
  return breach("unknown attribute of a preference");
}

ENTRY(MatmulAlgoGetHeuristic)
(void* handle, void* desc, void* a, void* b, void* c, void* out, void* preference, int wanted, void* results,
 int* count) {
  const std::lock_guard<std::mutex> lock(mutex);
  ASK(handles.count(handle) && descs.count(desc) && preferences.count(preference));
  ASK(wanted >= 1 && results != nullptr && count != nullptr);
  for (void* l : {a, b, c, out}) ASK(layouts.count(l) == 1);
  const auto& d = *static_cast<Desc*>(desc);
  Found found = {d.compute,
                 d.trans_a,
                 d.trans_b,
                 d.epilogue,
                 {*static_cast<Layout*>(a), *static_cast<Layout*>(b), *static_cast<Layout*>(c),
                  *static_cast<Layout*>(out)},
                 *static_cast<Preference*>(preference)};
  *count = 0;
  if (int status = check(d, found.layouts); status != 0) return status;
  if (is_way("none")) return kUnsupported;
#ifndef LATHE_STUB_HIP
  // A product that is summed in f32 must exclude reductions that round between splits.
  ASK(found.preference.reductions == 2);
  // The leading dimensions must have the promised alignment.
  for (int i = 0; i < 4; ++i)
    ASK(found.layouts[i].leading * size_of(found.layouts[i].type) % found.preference.alignment[i] == 0);
#endif
  const uint64_t workspace = 4096;
  ASK(found.preference.workspace >= workspace);
  for (const Kind kind : kinds()) {
    if (*count == wanted) break;
    const uint64_t number = 1000 + algorithms.size();
    found.kind = kind;
    algorithms[number] = found;
    // The result starts with the algorithm; in cuBLASLt the workspace size and the state follow at byte 64.
    char* result = static_cast<char*>(results) + *count * kResultBytes;
    std::memset(result, 0, kResultBytes);
    std::memcpy(result, &number, sizeof number);
#ifndef LATHE_STUB_HIP
    std::memcpy(result + 64, &workspace, sizeof workspace);
#endif
    ++*count;
  }
  return 0;
}

ENTRY(Matmul)
(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
 const void* beta, const void* c, void* c_layout, void* out, void* d_layout, const void* algorithm,
 void* workspace, size_t workspace_bytes, void* stream) {
  std::unique_lock<std::mutex> lock(mutex);
  ASK(handles.count(handle) && descs.count(desc) && alpha != nullptr && beta != nullptr &&
      algorithm != nullptr);
  for (void* l : {a_layout, b_layout, c_layout, d_layout}) ASK(layouts.count(l) == 1);
  for (const void* p : {a, b, c, static_cast<const void*>(out)}) ASK(p != nullptr);
  const auto& d = *static_cast<Desc*>(desc);
  const Layout all[4] = {*static_cast<Layout*>(a_layout), *static_cast<Layout*>(b_layout),
                         *static_cast<Layout*>(c_layout), *static_cast<Layout*>(d_layout)};
  if (int status = check(d, all); status != 0) return status;
  uint64_t number = 0;
  std::memcpy(&number, algorithm, sizeof number);
  const auto found = algorithms.find(number);
  ASK(found != algorithms.end());
  const Found& f = found->second;
  ASK(f.compute == d.compute && f.trans_a == d.trans_a && f.trans_b == d.trans_b && f.epilogue == d.epilogue);
  for (int i = 0; i < 4; ++i) ASK(f.layouts[i] == all[i]);
  ASK(workspace != nullptr && workspace_bytes >= 4096 && reinterpret_cast<uintptr_t>(workspace) % 16 == 0);
#ifndef LATHE_STUB_HIP
  const void* pointers[] = {a, b, c, out};
  for (int i = 0; i < 4; ++i) ASK(reinterpret_cast<uintptr_t>(pointers[i]) % f.preference.alignment[i] == 0);
#endif
  if (d.epilogue == kEpilogueBias) ASK(d.bias != nullptr);
  if (is_way("fail")) return kFailed;
  double by = 0, plus = 0;
  if (d.compute == kComputeI32) {
    by = as<int32_t>(alpha);
    plus = as<int32_t>(beta);
  } else {
    by = as<float>(alpha);
    plus = as<float>(beta);
  }
  if (f.kind == Kind::kFails) return kFailed;
  if (f.kind == Kind::kWrong) by += 1;
  const auto work = [=, kind = f.kind, product = d,
                     sides = std::array<Layout, 4>{all[0], all[1], all[2], all[3]}] {
    if (kind == Kind::kSlow) std::this_thread::sleep_for(kSlowness);
    return run(product, sides.data(), by, plus, {a, b, c, out}, workspace, stream);
  };
  lock.unlock();
  return in_stream(stream, work);
}
