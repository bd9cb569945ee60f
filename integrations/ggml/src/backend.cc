#include "backend.h"

#include <chrono>
#include <cstring>
#include <string_view>

#include "ggml-cpu.h"
#include "statistics.h"
#include "weights.h"

namespace lathe_ggml {
namespace {

ggml_guid guid = {0x6c, 0x61, 0x74, 0x68, 0x65, 0x2d, 0x67, 0x67,
                  0x6d, 0x6c, 0x2d, 0x30, 0x30, 0x30, 0x30, 0x31};

const char* name(ggml_backend_t) { return "Lathe"; }
void free_backend(ggml_backend_t backend) {
  delete &Backend::of(backend);
  delete backend;
}
ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph* graph) {
  return Backend::of(backend).compute(graph);
}

// A function of ggml's CPU backend that is not part of the backend interface.
template <typename Function>
Function cpu_function(const char* name) {
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu_device());
  return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(reg, name));
}

bool cpu_uses_openmp() {
  const auto features = cpu_function<ggml_backend_get_features_t>("ggml_backend_get_features");
  if (features == nullptr) return false;
  for (const ggml_backend_feature* f = features(ggml_backend_dev_backend_reg(cpu_device()));
       f->name != nullptr; ++f) {
    if (std::strcmp(f->name, "OPENMP") == 0) return true;
  }
  return false;
}

// How much faster Lathe's attention is on one thread (docs/ggml.md).
constexpr int64_t kAttentionGain = 3;

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

bool is_computed(const ggml_tensor* node) {
  return (node->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 && !ggml_op_is_empty(node->op);
}

// llama.cpp uses these operations only if they are on the CPU's device, like FLASH_ATTN_EXT in Backend::takes. The
// names are compared because older releases of ggml lack some of them.
bool is_left_to_cpu(ggml_op op) {
  static const std::vector<bool> left = [] {
    std::vector<bool> found(GGML_OP_COUNT);
    for (int i = 0; i < GGML_OP_COUNT; ++i) {
      const std::string_view name = ggml_op_name(static_cast<ggml_op>(i));
      found[i] = name == "GATED_DELTA_NET" || name == "LIGHTNING_INDEXER" || name.substr(0, 7) == "DSV4_HC";
    }
    return found;
  }();
  return left[op];
}

// Whether Lathe can read the tensor's bytes: ggml's CPU backend has buffers with an order of their own, too.
bool is_readable(const ggml_tensor* t) {
  const ggml_tensor* root = t->view_src != nullptr ? t->view_src : t;
  return root->buffer == nullptr || is_weight_buffer_type(root->buffer->buft) ||
         ggml_backend_buft_is_host(root->buffer->buft);
}

// The operations that multiply by src[0], which may be packed.
bool multiplies(const ggml_tensor* node) {
  return node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
}

// Reads the node without its kernel. Returns why Lathe cannot express it, else NULL and the most rows per matrix.
const char* read_rows(const ggml_tensor* node, int64_t* rows) {
  if (node->op == GGML_OP_MUL_MAT_ID) {
    lathe_grouped_matmul_desc desc;
    const char* why = read_grouped(node, &desc);
    *rows = desc.m;
    return why;
  }
  Product product;
  const char* why = read_product(node, &product);
  *rows = product.desc.m;
  return why;
}

// Whether an operation that does not multiply by it would read the packed data of `t`.
bool is_packed_for_others(const ggml_tensor* t) {
  const ggml_tensor* root = t->view_src != nullptr ? t->view_src : t;
  if (root->buffer == nullptr || !is_weight_buffer_type(root->buffer->buft)) return false;
  // While llama.cpp chooses buffers for weights, the tensor has an empty buffer and is not initialized.
  if (root->buffer->size == 0) return true;
  const Weight* weight = weight_of(t);
  return weight != nullptr && weight->packed_layout != 0;
}

}  // namespace

bool Backend::is(ggml_backend_t backend) { return backend->iface.free == free_backend; }

ggml_backend_dev_t cpu_device() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

bool takes(const ggml_tensor* op) {
  if (ggml_op_is_empty(op->op)) return true;
  const bool is_product = multiplies(op);
  for (int i = is_product ? 1 : 0; i < GGML_MAX_SRC; ++i) {
    if (op->src[i] != nullptr && is_packed_for_others(op->src[i])) {
      count_refusal(op, "the operation would read a packed weight");
      return false;
    }
  }
  if (is_product) {
    const bool packed = is_packed_for_others(op->src[0]);
    Weight* weight = weight_of(op->src[0]);
    int64_t rows = 0;
    const char* why = packed || weight != nullptr ? read_rows(op, &rows) : nullptr;
    // Weights that are stored as they are must be warmed up, too.
    if (why == nullptr && weight != nullptr) expect_rows(*weight, rows);
    if (packed) {
      count_refusal(op, why);
      return why == nullptr;
    }
  }
  Attention attention;
  if (op->op == GGML_OP_FLASH_ATTN_EXT && read_attention(op, &attention) == nullptr)
    expect_attention(attention);
  return !is_left_to_cpu(op->op) && ggml_backend_dev_supports_op(cpu_device(), op);
}

ggml_backend_t Backend::create(const ggml_backend_device& device) {
  auto backend = std::unique_ptr<Backend>(new Backend);
  if (!backend->open()) return nullptr;
  backend->device_ = device;
  backend->device_.context = backend.get();
  ggml_backend_i iface = {};
  iface.get_name = name, iface.free = free_backend, iface.graph_compute = compute_graph;
  ggml_backend_dev_t own_device = &backend->device_;
  return new ggml_backend{&guid, iface, own_device, backend.release()};
}

bool Backend::takes(const ggml_tensor* op) {
  if (op->op == GGML_OP_FLASH_ATTN_EXT && !takes_attention_.load()) {
    int64_t before = -1;
    const int64_t rows = op->src[0]->ne[1];
    if (first_rows_.compare_exchange_strong(before, rows) || before == rows) return false;
    takes_attention_.store(true);
  }
  return lathe_ggml::takes(op);
}

bool Backend::open() {
  cpu_ = ggml_backend_dev_init(cpu_device(), nullptr);
  if (cpu_ == nullptr) return false;
  set_threads(GGML_DEFAULT_N_THREADS);
  return engine_ != nullptr;
}

Backend::~Backend() {
  if (cpu_ != nullptr) ggml_backend_free(cpu_);
  if (pool_ != nullptr) cpu_function<decltype(&ggml_threadpool_free)>("ggml_threadpool_free")(pool_);
}

void Backend::set_threads(int threads) {
  if (threads == threads_) return;
  threads_ = threads;
  engine_ = Engine::of(threads);
  cpu_function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads")(cpu_, threads);
  if (!cpu_uses_openmp()) use_own_threads();
}

// Without OpenMP and without a pool, ggml's CPU backend would start threads for every graph.
void Backend::use_own_threads() {
  const auto make = cpu_function<decltype(&ggml_threadpool_new)>("ggml_threadpool_new");
  const auto set =
      cpu_function<decltype(&ggml_backend_cpu_set_threadpool)>("ggml_backend_cpu_set_threadpool");
  const auto free = cpu_function<decltype(&ggml_threadpool_free)>("ggml_threadpool_free");
  if (make == nullptr || set == nullptr || free == nullptr) return;
  ggml_threadpool_params params = ggml_threadpool_params_default(threads_);
  ggml_threadpool_t made = make(&params);
  set(cpu_, made);
  if (pool_ != nullptr) free(pool_);
  pool_ = made;
}

void Backend::set_abort_callback(ggml_abort_callback callback, void* data) {
  cpu_function<ggml_backend_set_abort_callback_t>("ggml_backend_set_abort_callback")(cpu_, callback, data);
}

bool Backend::is_translated(const ggml_cgraph& graph) const {
  return graph.uid != 0 && graph.uid == graph_ && engine_ == for_engine_ &&
         engine_->changes() == engine_changes_;
}

ggml_status Backend::compute(ggml_cgraph* graph) {
  if (engine_ == nullptr) return GGML_STATUS_FAILED;
  takes_attention_.store(true);
  engine_->warm_up();
  if (!is_translated(*graph) && !translate(*graph)) return GGML_STATUS_FAILED;
  team_.begin_graph();
  failed_.store(false);
  next_stamp_ = 0;
  last_time_ = is_verbose() ? now() : 0;
  ggml_cgraph translated = *graph;
  translated.nodes = nodes_.data();
  translated.n_nodes = static_cast<int>(nodes_.size());
  const ggml_status status = ggml_backend_graph_compute(cpu_, &translated);
  return failed_.load() ? GGML_STATUS_FAILED : status;
}

bool Backend::translate(const ggml_cgraph& graph) {
  graph_ = 0;
  engine_changes_ = engine_->changes();
  calls_.clear();
  custom_.clear();
  nodes_.clear();
  stamps_.clear();
  for (int i = 0; i < graph.n_nodes; ++i) {
    ggml_tensor* node = graph.nodes[i];
    const bool computed = is_computed(node);
    const bool by_lathe = computed && add_call(node);
    if (!by_lathe) {
      if (computed && multiplies(node) && is_packed_for_others(node->src[0])) {
        GGML_LOG_ERROR("lathe: cannot multiply by the weight %s: %s\n", node->src[0]->name,
                       is_incomplete(node->src[0]) ? "its data is not complete" : lathe_last_error());
        return false;
      }
      nodes_.push_back(node);
    }
    // ggml computes a norm and the product after it in one piece if nothing is between them.
    const bool fused =
        i + 1 < graph.n_nodes && node->op == GGML_OP_RMS_NORM && graph.nodes[i + 1]->op == GGML_OP_MUL;
    if (is_verbose() && computed && !fused) add_stamp(node, by_lathe);
  }
  graph_ = graph.uid;
  for_engine_ = engine_;
  return true;
}

// False: ggml computes the node.
bool Backend::add_call(ggml_tensor* node) {
  Call call{this, static_cast<int64_t>(calls_.size()) + 1, {}};
  const char* why = nullptr;
  if (node->op == GGML_OP_MUL_MAT) {
    Product product;
    why = is_readable(node->src[0]) && is_readable(node->src[1])
              ? read_product(node, &product)
              : "an operand is in a buffer of ggml's own order";
    if (why == nullptr && is_incomplete(node->src[0])) return false;
    if (why == nullptr && !engine_->prepare(product)) why = "its kernel is not ready yet";
    call.request = product;
  } else if (node->op == GGML_OP_MUL_MAT_ID) {
    lathe_grouped_matmul_desc desc;
    why = is_readable(node->src[0]) && is_readable(node->src[1])
              ? read_grouped(node, &desc)
              : "an operand is in a buffer of ggml's own order";
    if (why == nullptr && is_incomplete(node->src[0])) return false;
    if (why == nullptr) engine_->prepare(node, &desc);
    call.request = desc;
  } else if (node->op == GGML_OP_ARGMAX) {
    lathe_argmax_desc desc;
    why = read_argmax(node, &desc);
    if (why == nullptr && !engine_->prepare(desc)) why = "its kernel is not ready yet";
    call.request = desc;
  } else if (node->op == GGML_OP_FLASH_ATTN_EXT) {
    Attention attention;
    why = read_attention(node, &attention);
    // ggml divides the keys among threads, Lathe only blocks of queries.
    if (why == nullptr && attention.blocks() * kAttentionGain < threads_) why = "fewer blocks than threads";
    if (why == nullptr && !engine_->prepare(attention)) why = "its kernels are not ready yet";
    call.request = attention;
  } else {
    return false;
  }
  count_refusal(node, why);
  if (why != nullptr) return false;
  calls_.push_back(call);
  replace(node, run_call, &calls_.back());
  return true;
}

void Backend::replace(ggml_tensor* node, ggml_custom_op_t function, void* user) {
  custom_.push_back(*node);
  ggml_tensor& copy = custom_.back();
  copy.op = GGML_OP_CUSTOM;
  const ggml_custom_op_params params{function, GGML_N_TASKS_MAX, user};
  static_assert(sizeof(params) <= sizeof(copy.op_params), "the parameters of a custom operation fit");
  std::memcpy(copy.op_params, &params, sizeof(params));
  nodes_.push_back(&copy);
}

void Backend::run_call(ggml_tensor*, int thread, int threads, void* user) {
  Call& call = *static_cast<Call*>(user);
  Backend& backend = *call.backend;
  if (thread != 0) {
    backend.team_.help(call.number, thread);
    return;
  }
  backend.team_.lead(call.number, threads, [&] {
    lathe_device* const device = backend.engine_->device();
    if (const auto* attention = std::get_if<Attention>(&call.request)) {
      if (!run_attention(*attention, device)) backend.failed_.store(true);
      return;
    }
    lathe_status status = LATHE_OK;
    if (const auto* product = std::get_if<Product>(&call.request))
      status = run_product(
          *product, [device](const lathe_matmul_desc& desc) { return lathe_matmul(device, nullptr, &desc); });
    else if (const auto* grouped = std::get_if<lathe_grouped_matmul_desc>(&call.request))
      status = lathe_grouped_matmul(device, nullptr, grouped);
    else
      status = lathe_argmax(device, nullptr, &std::get<lathe_argmax_desc>(call.request));
    if (status == LATHE_OK) return;
    if (!backend.failed_.exchange(true)) GGML_LOG_ERROR("lathe: %s\n", lathe_last_error());
  });
}

void Backend::add_stamp(const ggml_tensor* node, bool by_lathe) {
  stamps_.push_back({node, by_lathe});
  ggml_tensor stamp = *node;
  for (ggml_tensor*& source : stamp.src) source = nullptr;
  replace(&stamp, take_time, this);
}

void Backend::take_time(ggml_tensor*, int thread, int, void* user) {
  if (thread != 0) return;
  Backend& backend = *static_cast<Backend*>(user);
  const int64_t time = now();
  const Stamp& stamp = backend.stamps_[backend.next_stamp_++];
  count_time(stamp.node, stamp.by_lathe, time - backend.last_time_);
  backend.last_time_ = now();
}

}  // namespace lathe_ggml
