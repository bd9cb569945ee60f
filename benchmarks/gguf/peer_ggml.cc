// ggml's CPU backend, as llama.cpp uses it: weights in plain memory, or in one of the backend's extra buffer types
// (CPU_REPACK, AMX), which convert them when they are loaded.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ggml_types.h"
#include "huge_memory.h"
#include "peer.h"

namespace lathe::bench {
namespace {

struct FreeBuffer {
  void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
};
struct FreeBackend {
  void operator()(ggml_backend* backend) const { ggml_backend_free(backend); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;
using Backend = std::unique_ptr<ggml_backend, FreeBackend>;

Context make_context(size_t tensors) {
  return Context(
      ggml_init({tensors * ggml_tensor_overhead() + tensors * ggml_graph_overhead_custom(4, false), nullptr,
                 /*no_alloc=*/true}));
}

Buffer wrap(void* data, size_t bytes) { return Buffer(ggml_backend_cpu_buffer_from_ptr(data, bytes)); }

// The extra buffer type of that name; null if this processor or build has none.
ggml_backend_buffer_type_t extra_buffer_type(const char* name) {
  ggml_backend_reg_t reg = ggml_backend_cpu_reg();
  auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts"));
  if (get == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = get(ggml_backend_reg_dev_get(reg, 0)); type && *type; ++type)
    if (std::strcmp(ggml_backend_buft_name(*type), name) == 0) return *type;
  return nullptr;
}

#if defined(__x86_64__)
// ggml configures the AMX tiles of a thread once (ggml_tile_config_init in amx/mmq.cpp), and does not expect that
// another library changes them. Lathe's kernels release the tiles; the next ggml call would be an illegal instruction.
__attribute__((target("amx-tile"))) void restore_tiles() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 32, 32, 64, 64, 64, 64};
    uint8_t rows[16] = {8, 8, 16, 16, 16, 16, 16, 16};
  } config;
  // GCC 12 takes the intrinsic to read 8 bytes only.
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}
#else
void restore_tiles() {}
#endif

// Whether the backend multiplies by the weight in a buffer of that type. As llama.cpp asks, with an empty buffer. The
// weight has the shape of `like`; one with three dimensions belongs to experts.
bool is_supported(ggml_backend_buffer_type_t type, const ggml_tensor* like) {
  const Context context = make_context(5);
  const Buffer empty(ggml_backend_buft_alloc_buffer(type, 0));
  ggml_tensor* weight = ggml_new_tensor(context.get(), like->type, ggml_n_dims(like), like->ne);
  weight->buffer = empty.get();
  ggml_tensor* product = nullptr;
  if (ggml_n_dims(like) == 3) {
    ggml_tensor* input = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, like->ne[0], 1, 512);
    product = ggml_mul_mat_id(context.get(), weight, input,
                              ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, 1, 512));
  } else {
    product = ggml_mul_mat(context.get(), weight,
                           ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, like->ne[0], 512));
  }
  return ggml_backend_dev_supports_op(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0), product);
}

// Memory of that type for the tensor.
Buffer allocate(ggml_backend_buffer_type_t type, ggml_tensor* tensor) {
  const size_t bytes = ggml_backend_buft_get_alloc_size(type, tensor);
  Buffer buffer(ggml_backend_buft_alloc_buffer(type, bytes));
  use_huge_pages(ggml_backend_buffer_get_base(buffer.get()), bytes);
  ggml_backend_tensor_alloc(buffer.get(), tensor, ggml_backend_buffer_get_base(buffer.get()));
  return buffer;
}

bool is_amx(ggml_backend_buffer_type_t type) { return std::strcmp(ggml_backend_buft_name(type), "AMX") == 0; }

class Product final : public GgufProduct {
 public:
  Product(const std::vector<ggml_tensor*>& weights, bool uses_tiles, int64_t m, int threads, float* a,
          float* d)
      : context_(make_context(3 * weights.size() + 2)),
        backend_(ggml_backend_cpu_init()),
        uses_tiles_(uses_tiles) {
    const int64_t k = weights[0]->ne[0], n = weights[0]->ne[1];
    ggml_backend_cpu_set_n_threads(backend_.get(), threads);
    a_ = wrap(a, static_cast<size_t>(m * k) * sizeof(float));
    d_ = wrap(d, static_cast<size_t>(m * n) * sizeof(float));
    ggml_tensor* input = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, k, m);
    ggml_backend_tensor_alloc(a_.get(), input, a);
    for (ggml_tensor* weight : weights) {
      ggml_tensor* output = ggml_mul_mat(context_.get(), weight, input);
      ggml_backend_tensor_alloc(d_.get(), output, d);
      graphs_.push_back(ggml_new_graph_custom(context_.get(), 4, false));
      ggml_build_forward_expand(graphs_.back(), output);
    }
  }
  void run(size_t copy) override {
    if (uses_tiles_) restore_tiles();
    ggml_backend_graph_compute(backend_.get(), graphs_[copy]);
  }

 private:
  Context context_;
  Backend backend_;
  bool uses_tiles_;
  Buffer a_, d_;
  std::vector<ggml_cgraph*> graphs_;
};

class Loaded final : public GgufLoaded {
 public:
  explicit Loaded(const GgufWeight& weight)
      : context_(make_context(weight.copies.size() + 2)), type_(type_of(weight.format)) {
    for (size_t i = 0; i < weight.copies.size(); ++i)
      tensors_.push_back(ggml_new_tensor_2d(context_.get(), type_, weight.k, weight.n));
  }

  void use_plain(const GgufWeight& weight) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      buffers_.push_back(wrap(weight.copies[i], ggml_nbytes(tensors_[i])));
      ggml_backend_tensor_alloc(buffers_.back().get(), tensors_[i], weight.copies[i]);
    }
  }

  // Converts one copy; the others take the same bytes. False: the buffer type does not support the product.
  bool convert(ggml_backend_buffer_type_t type, const GgufWeight& weight) {
    if (type == nullptr || !is_supported(type, tensors_[0])) return false;
    uses_tiles_ = is_amx(type);
    for (ggml_tensor* tensor : tensors_) {
      buffers_.push_back(allocate(type, tensor));
      if (tensor == tensors_[0])
        ggml_backend_tensor_set(tensor, weight.copies[0], 0, ggml_nbytes(tensor));
      else
        std::memcpy(tensor->data, tensors_[0]->data, ggml_backend_buffer_get_size(buffers_[0].get()));
    }
    return true;
  }

  std::unique_ptr<GgufProduct> prepare(int64_t m, int threads, float* a, float* d) override {
    return std::make_unique<Product>(tensors_, uses_tiles_, m, threads, a, d);
  }

 private:
  Context context_;
  ggml_type type_;
  bool uses_tiles_ = false;
  std::vector<Buffer> buffers_;
  std::vector<ggml_tensor*> tensors_;
};

class ExpertsOfGgml final : public ExpertsProduct {
 public:
  ExpertsOfGgml(ggml_tensor* weight, bool uses_tiles, const ExpertsCalls& calls)
      : context_(make_context(3 * calls.routings.size() + 2)),
        backend_(ggml_backend_cpu_init()),
        uses_tiles_(uses_tiles) {
    ggml_backend_cpu_set_n_threads(backend_.get(), calls.threads);
    const int64_t k = weight->ne[0], rows_of_token = calls.shares_a ? 1 : calls.used;
    ggml_tensor* input = ggml_new_tensor_3d(context_.get(), GGML_TYPE_F32, k, rows_of_token, calls.m);
    place(input, calls.a);
    for (int32_t* routing : calls.routings) {
      ggml_tensor* experts = ggml_new_tensor_2d(context_.get(), GGML_TYPE_I32, calls.used, calls.m);
      place(experts, routing);
      ggml_tensor* output = ggml_mul_mat_id(context_.get(), weight, input, experts);
      place(output, calls.d);
      graphs_.push_back(ggml_new_graph_custom(context_.get(), 4, false));
      ggml_build_forward_expand(graphs_.back(), output);
    }
  }
  void run(size_t routing) override {
    if (uses_tiles_) restore_tiles();
    ggml_backend_graph_compute(backend_.get(), graphs_[routing]);
  }

 private:
  void place(ggml_tensor* tensor, void* data) {
    buffers_.push_back(wrap(data, ggml_nbytes(tensor)));
    ggml_backend_tensor_alloc(buffers_.back().get(), tensor, data);
  }

  Context context_;
  Backend backend_;
  bool uses_tiles_;
  std::vector<Buffer> buffers_;
  std::vector<ggml_cgraph*> graphs_;
};

class LoadedExperts final : public ExpertsLoaded {
 public:
  // A null type: the memory of `weight`.
  LoadedExperts(ggml_backend_buffer_type_t type, const ExpertsWeight& weight)
      : context_(make_context(2)),
        tensor_(
            ggml_new_tensor_3d(context_.get(), type_of(weight.format), weight.k, weight.n, weight.groups)),
        uses_tiles_(type != nullptr && is_amx(type)) {
    if (type == nullptr) {
      buffer_ = wrap(weight.data, ggml_nbytes(tensor_));
      ggml_backend_tensor_alloc(buffer_.get(), tensor_, weight.data);
      return;
    }
    if (!is_supported(type, tensor_)) return;
    buffer_ = allocate(type, tensor_);
    ggml_backend_tensor_set(tensor_, weight.data, 0, ggml_nbytes(tensor_));
  }
  bool is_loaded() const { return buffer_ != nullptr; }
  std::unique_ptr<ExpertsProduct> prepare(const ExpertsCalls& calls) override {
    return std::make_unique<ExpertsOfGgml>(tensor_, uses_tiles_, calls);
  }

 private:
  Context context_;
  ggml_tensor* tensor_;
  bool uses_tiles_;
  Buffer buffer_;
};

void log(ggml_log_level level, const char* text, void*) {
  if (level >= GGML_LOG_LEVEL_WARN && level != GGML_LOG_LEVEL_CONT) std::fputs(text, stderr);
}

class Ggml final : public GgufPeer {
 public:
  Ggml() {
    ggml_log_set(log, nullptr);
    ggml_cpu_init();
  }
  std::string name() const override { return "ggml"; }
  std::vector<std::string> settings() const override { return {"plain", "repack", "amx"}; }
  size_t bytes(const std::string& format, int64_t elements) const override {
    const ggml_type type = type_of(format);
    return type == GGML_TYPE_COUNT ? 0 : ggml_row_size(type, elements);
  }
  void quantise(const std::string& format, const float* from, int64_t rows, int64_t k, void* to) override {
    ggml_quantize_chunk(type_of(format), from, to, 0, rows, k, nullptr);
  }
  void dequantise(const std::string& format, const void* from, int64_t elements, float* to) override {
    if (format == "f32")
      std::memcpy(to, from, static_cast<size_t>(elements) * sizeof(float));
    else
      ggml_get_type_traits(type_of(format))->to_float(from, to, elements);
  }
  std::unique_ptr<GgufLoaded> load(const std::string& setting, const GgufWeight& weight) override {
    auto loaded = std::make_unique<Loaded>(weight);
    if (setting == "plain") {
      loaded->use_plain(weight);
      return loaded;
    }
    return loaded->convert(buffer_type(setting), weight) ? std::move(loaded) : nullptr;
  }
  std::unique_ptr<ExpertsLoaded> load_experts(const std::string& setting,
                                              const ExpertsWeight& weight) override {
    ggml_backend_buffer_type_t type = setting == "plain" ? nullptr : buffer_type(setting);
    if (type == nullptr && setting != "plain") return nullptr;
    auto loaded = std::make_unique<LoadedExperts>(type, weight);
    return loaded->is_loaded() ? std::move(loaded) : nullptr;
  }

 private:
  static ggml_backend_buffer_type_t buffer_type(const std::string& setting) {
    return extra_buffer_type(setting == "amx" ? "AMX" : "CPU_REPACK");
  }
};

}  // namespace
}  // namespace lathe::bench

extern "C" lathe::bench::GgufPeer* lathe_gguf_peer() {
  static lathe::bench::Ggml peer;
  return &peer;
}
