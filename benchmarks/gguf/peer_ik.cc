// ik_llama.cpp's ggml: weights in plain memory, or repacked in place at load time (its option -rtr).
#include <ggml.h>

#include <cstring>

#include "ggml_types.h"
#include "huge_memory.h"
#include "peer.h"

// In src/iqk/iqk_quantize.h, which is no public header. Changes the tensor's type if it has rows to interleave.
extern "C" void iqk_repack_tensor(ggml_tensor* tensor);

namespace lathe::bench {
namespace {

using Context = std::unique_ptr<ggml_context, FreeContext>;

Context make_context(size_t tensors) {
  return Context(
      ggml_init({tensors * ggml_tensor_overhead() + tensors * ggml_graph_overhead_custom(4, false), nullptr,
                 /*no_alloc=*/true}));
}

class Product final : public GgufProduct {
 public:
  Product(const std::vector<ggml_tensor*>& weights, int64_t m, int threads, float* a, float* d)
      : context_(make_context(3 * weights.size() + 2)) {
    ggml_tensor* input = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, weights[0]->ne[0], m);
    input->data = a;
    for (ggml_tensor* weight : weights) {
      ggml_tensor* output = ggml_mul_mat(context_.get(), weight, input);
      output->data = d;
      graphs_.push_back(ggml_new_graph_custom(context_.get(), 4, false));
      ggml_build_forward_expand(graphs_.back(), output);
    }
    plan_ = ggml_graph_plan(graphs_[0], threads);
    work_.resize(plan_.work_size);
    plan_.work_data = work_.data();
  }
  void run(size_t copy) override { ggml_graph_compute(graphs_[copy], &plan_); }

 private:
  Context context_;
  std::vector<ggml_cgraph*> graphs_;
  ggml_cplan plan_ = {};
  std::vector<uint8_t> work_;
};

class Loaded final : public GgufLoaded {
 public:
  explicit Loaded(const GgufWeight& weight) : context_(make_context(weight.copies.size() + 1)) {
    for (void* copy : weight.copies) {
      tensors_.push_back(ggml_new_tensor_2d(context_.get(), type_of(weight.format), weight.k, weight.n));
      tensors_.back()->data = copy;
    }
  }

  // Repacks one copy; the others take the same bytes. False: the library does not repack the format.
  bool repack(const GgufWeight& weight) {
    const ggml_type before = tensors_[0]->type;
    const size_t bytes = ggml_nbytes(tensors_[0]);
    for (ggml_tensor* tensor : tensors_) {
      memory_.push_back(allocate_huge(bytes));
      std::memcpy(memory_.back().get(), tensor == tensors_[0] ? weight.copies[0] : memory_[0].get(), bytes);
      tensor->data = memory_.back().get();
      if (tensor == tensors_[0]) iqk_repack_tensor(tensor);
      if (tensors_[0]->type == before) return false;
      tensor->type = tensors_[0]->type;
    }
    return true;
  }

  std::unique_ptr<GgufProduct> prepare(int64_t m, int threads, float* a, float* d) override {
    return std::make_unique<Product>(tensors_, m, threads, a, d);
  }

 private:
  Context context_;
  std::vector<HugeMemory> memory_;
  std::vector<ggml_tensor*> tensors_;
};

class IkLlama final : public GgufPeer {
 public:
  std::string name() const override { return "ik"; }
  std::vector<std::string> settings() const override { return {"plain", "repacked"}; }
  size_t bytes(const std::string& format, int64_t elements) const override {
    const ggml_type type = type_of(format);
    return type == GGML_TYPE_COUNT ? 0 : ggml_row_size(type, elements);
  }
  void quantise(const std::string& format, const float* from, int64_t rows, int64_t k, void* to) override {
    ggml_quantize_chunk(type_of(format), from, to, 0, rows, k, nullptr);
  }
  void dequantise(const std::string& format, const void* from, int64_t elements, float* to) override {
    ggml_internal_get_type_traits(type_of(format)).to_float(from, to, elements);
  }
  std::unique_ptr<GgufLoaded> load(const std::string& setting, const GgufWeight& weight) override {
    auto loaded = std::make_unique<Loaded>(weight);
    return setting == "plain" || loaded->repack(weight) ? std::move(loaded) : nullptr;
  }
};

}  // namespace
}  // namespace lathe::bench

extern "C" lathe::bench::GgufPeer* lathe_gguf_peer() {
  static lathe::bench::IkLlama peer;
  return &peer;
}
