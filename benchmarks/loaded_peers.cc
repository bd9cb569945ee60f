// Peers that are loaded at run time from a shared object named by a flag: MKL, and a oneDNN newer than the
// system's. The declarations that are needed of their C interfaces are below.
#include <dlfcn.h>

#include <cstdio>

#include "peers.h"

namespace lathe::bench {
namespace {

// RTLD_DEEPBIND: the library prefers its own symbols to those of the same name in this program.
class SharedObject {
 public:
  explicit SharedObject(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) {
    if (handle_ == nullptr) std::fprintf(stderr, "cannot load the peer %s: %s\n", path.c_str(), dlerror());
  }
  template <typename Function>
  bool find(const char* name, Function* function) {
    if (handle_ == nullptr) return false;
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (*function == nullptr) std::fprintf(stderr, "cannot use the peer: %s\n", dlerror());
    return *function != nullptr;
  }

 private:
  void* handle_;  // never closed: the library may have started threads
};

class Mkl final : public Peer {
 public:
  bool load(const std::string& path) {
    SharedObject library(path);
    int (*set_layer)(int) = nullptr;
    void (*version)(char*, int) = nullptr;
    if (!library.find("MKL_Set_Threading_Layer", &set_layer) ||
        !library.find("cblas_sgemm_batch_strided", &gemm_) ||
        !library.find("MKL_Set_Num_Threads", &set_threads_) ||
        !library.find("MKL_Get_Version_String", &version))
      return false;
    constexpr int kGnuThreads =
        3;  // MKL_THREADING_GNU of mkl_service.h: this process already uses GNU OpenMP
    set_layer(kGnuThreads);
    char text[256] = {};
    version(text, sizeof(text) - 1);
    std::printf("peer: %s\n", text);
    return true;
  }
  std::string name() const override { return "MKL"; }
  void set_threads(int threads) override { set_threads_(threads); }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    if (g.element != Element::kF32) return nullptr;
    return [g, gemm = gemm_](const void* a, const void* b, void* d) {
      const auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
      gemm(kRowMajor, kNoTrans, g.trans_b ? kTrans : kNoTrans, m, n, k, 1.0f, static_cast<const float*>(a), k,
           m * k, static_cast<const float*>(b), g.trans_b ? k : n, n * k, 0.0f, static_cast<float*>(d), n,
           m * n, static_cast<int>(g.batch));
    };
  }

 private:
  static constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // CBLAS
  void (*gemm_)(int, int, int, int, int, int, float, const float*, int, int, const float*, int, int, float,
                float*, int, int, int) = nullptr;
  void (*set_threads_)(int) = nullptr;
};

// oneDNN 3's C interface (oneapi/dnnl/dnnl.h and dnnl_types.h). Objects are opaque pointers; functions return
// 0 on success.
struct Dnnl {
  struct Version {
    int major, minor, patch;
    const char* hash;
    unsigned cpu_runtime, gpu_runtime;
  };
  struct Argument {
    int index;
    void* memory;
  };
  static constexpr int kSource = 1, kWeights = 33, kDestination = 17, kCpu = 1;
  const Version* (*version)();
  int (*engine_create)(void**, int kind, size_t index);
  int (*stream_create)(void**, void* engine, unsigned flags);
  int (*stream_wait)(void*);
  int (*desc_create)(void**, int dims, const int64_t* sizes, int type, const int64_t* strides);
  int (*matmul_create)(void**, void* engine, void* source, void* weights, void* bias, void* destination,
                       void* attr);
  int (*primitive_create)(void**, void* description);
  int (*memory_create)(void**, void* desc, void* engine, void* data);
  int (*memory_set)(void*, void* data);
  int (*execute)(void* primitive, void* stream, int count, const Argument*);

  bool load(SharedObject library) {
    return library.find("dnnl_version", &version) && library.find("dnnl_engine_create", &engine_create) &&
           library.find("dnnl_stream_create", &stream_create) &&
           library.find("dnnl_stream_wait", &stream_wait) &&
           library.find("dnnl_memory_desc_create_with_strides", &desc_create) &&
           library.find("dnnl_matmul_primitive_desc_create", &matmul_create) &&
           library.find("dnnl_primitive_create", &primitive_create) &&
           library.find("dnnl_memory_create", &memory_create) &&
           library.find("dnnl_memory_set_data_handle", &memory_set) &&
           library.find("dnnl_primitive_execute", &execute);
  }
};

class LoadedOneDnn final : public Peer {
 public:
  bool load(const std::string& path) {
    if (!dnnl_.load(SharedObject(path))) return false;
    const Dnnl::Version& v = *dnnl_.version();
    name_ = "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor);
    std::printf("peer: %s.%d, %s\n", name_.c_str(), v.patch, v.hash);
    return dnnl_.engine_create(&engine_, Dnnl::kCpu, 0) == 0 &&
           dnnl_.stream_create(&stream_, engine_, 1) == 0;
  }
  std::string name() const override { return name_; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    if (activations_of(g.element) != g.element) return nullptr;
    constexpr int kF16 = 1, kBf16 = 2, kF32 = 3, kS32 = 4, kS8 = 5;  // dnnl_data_type_t
    constexpr int kTypes[] = {kF32, kF16, kBf16, kS8};               // indexed by Element
    const int in = kTypes[static_cast<int>(g.element)], out = in == kS8 ? kS32 : kF32;
    void *description = nullptr, *primitive = nullptr, *memory[3] = {};
    void* descs[] = {matrices(g, g.m, g.k, false, in), matrices(g, g.k, g.n, g.trans_b, in),
                     matrices(g, g.m, g.n, false, out)};
    if (dnnl_.matmul_create(&description, engine_, descs[0], descs[1], nullptr, descs[2], nullptr) != 0 ||
        dnnl_.primitive_create(&primitive, description) != 0)
      return nullptr;
    for (int i = 0; i < 3; ++i)
      if (dnnl_.memory_create(&memory[i], descs[i], engine_, nullptr) != 0) return nullptr;
    return [this, primitive, x = memory[0], y = memory[1], z = memory[2]](const void* a, const void* b,
                                                                          void* d) {
      dnnl_.memory_set(x, const_cast<void*>(a));
      dnnl_.memory_set(y, const_cast<void*>(b));
      dnnl_.memory_set(z, d);
      const Dnnl::Argument arguments[] = {{Dnnl::kSource, x}, {Dnnl::kWeights, y}, {Dnnl::kDestination, z}};
      dnnl_.execute(primitive, stream_, 3, arguments);
      dnnl_.stream_wait(stream_);
    };
  }

 private:
  void* matrices(const Gemm& g, int64_t rows, int64_t columns, bool transposed, int type) const {
    const int64_t sizes[] = {g.batch, rows, columns};
    const int64_t strides[] = {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
    const int skipped = g.batch == 1;
    void* desc = nullptr;
    dnnl_.desc_create(&desc, 3 - skipped, sizes + skipped, type, strides + skipped);
    return desc;
  }

  Dnnl dnnl_ = {};
  std::string name_;
  void *engine_ = nullptr, *stream_ = nullptr;
};

template <typename Library>
std::unique_ptr<Peer> load(const std::string& path) {
  auto peer = std::make_unique<Library>();
  return peer->load(path) ? std::move(peer) : nullptr;
}

}  // namespace

std::unique_ptr<Peer> load_mkl(const std::string& path) { return load<Mkl>(path); }
std::unique_ptr<Peer> load_onednn(const std::string& path) { return load<LoadedOneDnn>(path); }

}  // namespace lathe::bench
