#include "weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "engine.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "product.h"

namespace lathe_ggml {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

// Every weight of the process, for warm-ups.
struct Registry {
  std::mutex mutex;
  std::set<Weight*> weights;
  std::atomic<uint64_t> changes{0};
};
Registry& registry() {
  static Registry* all = new Registry;
  return *all;
}

struct Buffer {
  char* base = nullptr;
  std::vector<std::unique_ptr<Weight>> weights;
  ~Buffer() {
    {
      Registry& all = registry();
      const std::lock_guard<std::mutex> lock(all.mutex);
      for (const auto& weight : weights) all.weights.erase(weight.get());
    }
    std::free(base);
  }
};
Buffer& of(ggml_backend_buffer_t buffer) { return *static_cast<Buffer*>(buffer->context); }

// Only a leaf is a weight. The result of an operation is never packed.
bool may_be_packed(const ggml_tensor* t) {
  return t->op == GGML_OP_NONE && t->view_src == nullptr && ggml_is_contiguous(t) && t->ne[1] > 1 &&
         dtype_of(t->type) != LATHE_DTYPE_NONE;
}

// Stores the layout and bytes of one packed matrix. False: this tensor is not packed.
bool packed_layout(const ggml_tensor* t, uint32_t* layout, size_t* bytes) {
  if (!may_be_packed(t) || !packing_pays(t->type)) return false;
  Engine* engine = Engine::any();
  if (engine == nullptr) return false;
  const lathe_matmul_desc desc = weight_desc(t->type, t->ne[1], t->ne[0]);
  return lathe_packed_layout(engine->device(), &desc, layout, bytes) == LATHE_OK;
}

bool pack(Weight& weight, const char* from) {
  lathe_matmul_desc desc = weight_desc(weight.type, weight.n, weight.k);
  const size_t plain = ggml_row_size(weight.type, weight.k) * weight.n;
  for (int64_t i = 0; i < weight.matrices; ++i) {
    desc.b.data = const_cast<char*>(from) + i * plain;
    void* to = static_cast<char*>(weight.data) + i * weight.packed_matrix;
    if (lathe_pack_weights(Engine::any()->device(), &desc, weight.packed_layout, to, weight.packed_matrix) !=
        LATHE_OK) {
      GGML_ABORT("lathe: cannot pack the weight %s: %s\n", weight.name, lathe_last_error());
    }
  }
  weight.packed = true;
  return true;
}

void add_range(Weight& weight, size_t begin, size_t end) {
  auto& ranges = weight.ranges;
  ranges.emplace_back(begin, end);
  std::sort(ranges.begin(), ranges.end());
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= ranges[last].second) {
      ranges[last].second = std::max(ranges[last].second, ranges[i].second);
    } else {
      ranges[++last] = ranges[i];
    }
  }
  ranges.resize(last + 1);
}

// Packing needs the whole weight: pieces are gathered first.
void set_packed(Weight& weight, const void* data, size_t offset, size_t size) {
  const size_t plain = ggml_row_size(weight.type, weight.k) * weight.n * weight.matrices;
  if (offset == 0 && size == plain) {
    pack(weight, static_cast<const char*>(data));
    return;
  }
  if (weight.pieces.empty()) weight.pieces.resize(plain);
  std::memcpy(weight.pieces.data() + offset, data, size);
  add_range(weight, offset, offset + size);
  if (weight.ranges.size() != 1 || weight.ranges[0] != std::make_pair(size_t{0}, plain)) return;
  pack(weight, weight.pieces.data());
  std::vector<char>().swap(weight.pieces);
  weight.ranges.clear();
}

void free_buffer(ggml_backend_buffer_t buffer) { delete static_cast<Buffer*>(buffer->context); }
void* get_base(ggml_backend_buffer_t buffer) { return of(buffer).base; }

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t) {
  if (t->view_src != nullptr || !may_be_packed(t)) return GGML_STATUS_SUCCESS;
  auto weight = std::make_unique<Weight>();
  weight->type = t->type, weight->n = t->ne[1], weight->k = t->ne[0], weight->matrices = t->ne[2] * t->ne[3];
  weight->name = t->name, weight->data = t->data;
  if (!packed_layout(t, &weight->packed_layout, &weight->packed_matrix)) weight->packed_layout = 0;
  t->extra = weight.get();
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.weights.insert(weight.get());
  of(buffer).weights.push_back(std::move(weight));
  return GGML_STATUS_SUCCESS;
}

// Bytes from the start of the whole tensor.
size_t place(const ggml_tensor* t, size_t offset) {
  return (t->view_src != nullptr ? t->view_offs : 0) + offset;
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t, const void* data, size_t offset, size_t size) {
  Weight* weight = weight_of(t);
  const bool packs = weight != nullptr && weight->packed_layout != 0;
  if (packs && (weight->packed || buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS)) {
    set_packed(*weight, data, place(t, offset), size);
  } else {
    std::memcpy(static_cast<char*>(t->data) + offset, data, size);
  }
}

void memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor* t, uint8_t value, size_t offset, size_t size) {
  const std::vector<uint8_t> bytes(size, value);
  set_tensor(buffer, t, bytes.data(), offset, size);
}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor* t, void* data, size_t offset, size_t size) {
  if (const Weight* weight = packed_weight(t)) {
    GGML_ABORT(
        "lathe: the weight %s is packed and cannot be read back. Set LATHE_GGML_PACK=0 to keep weights as "
        "they are\n",
        weight->name);
  }
  std::memcpy(data, static_cast<const char*>(t->data) + offset, size);
}

void clear(ggml_backend_buffer_t buffer, uint8_t value) { std::memset(of(buffer).base, value, buffer->size); }

const char* type_name(ggml_backend_buffer_type_t) { return "Lathe"; }
size_t alignment(ggml_backend_buffer_type_t) { return kAlignment; }

size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor* t) {
  uint32_t layout;
  size_t bytes;
  if (!packed_layout(t, &layout, &bytes)) return ggml_nbytes(t);
  return std::max(ggml_nbytes(t), bytes * static_cast<size_t>(t->ne[2] * t->ne[3]));
}

// Bytes that can be allocated without swapping out other processes' data; SIZE_MAX if the system does not say.
size_t available_memory() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "r"), std::fclose);
  if (file == nullptr) return SIZE_MAX;
  char line[128];
  unsigned long long kilobytes;
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
      return static_cast<size_t>(kilobytes) << 10;
  }
  return SIZE_MAX;
}

double gibibytes(size_t bytes) { return static_cast<double>(bytes) / (size_t{1} << 30); }

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
  // The system would grant more than it has, and kill the process later.
  if (const size_t available = available_memory(); size > available) {
    GGML_LOG_ERROR(
        "lathe: weights of %.1f GiB do not fit into the available memory of %.1f GiB. Use a smaller model, "
        "or do "
        "not load this backend: llama.cpp alone maps the weights from the file\n",
        gibibytes(size), gibibytes(available));
    return nullptr;
  }
  auto context = std::make_unique<Buffer>();
  const size_t aligned_to = size >= kHugePage ? kHugePage : kAlignment;
  const size_t bytes = std::max<size_t>((size + aligned_to - 1) / aligned_to * aligned_to, aligned_to);
  context->base = static_cast<char*>(std::aligned_alloc(aligned_to, bytes));
  if (context->base == nullptr) {
    GGML_LOG_ERROR("lathe: no memory for a buffer of %zu bytes\n", size);
    return nullptr;
  }
  if (aligned_to == kHugePage) madvise(context->base, bytes, MADV_HUGEPAGE);
  ggml_backend_buffer_i iface = {};
  iface.free_buffer = free_buffer, iface.get_base = get_base, iface.init_tensor = init_tensor;
  iface.memset_tensor = memset_tensor, iface.set_tensor = set_tensor, iface.get_tensor = get_tensor;
  iface.clear = clear;
  return ggml_backend_buffer_init(buft, iface, context.release(), size);
}

}  // namespace

ggml_backend_buffer_type_t weight_buffer_type(ggml_backend_dev_t device) {
  static ggml_backend_buffer_type type = [&] {
    ggml_backend_buffer_type t = {};
    t.iface.get_name = type_name, t.iface.alloc_buffer = alloc_buffer, t.iface.get_alignment = alignment;
    t.iface.get_alloc_size = alloc_size;
    t.device = device;
    return t;
  }();
  return &type;
}

bool is_weight_buffer_type(ggml_backend_buffer_type_t buft) {
  return buft->iface.alloc_buffer == alloc_buffer;
}

bool is_weight(const ggml_tensor* t) {
  const ggml_backend_buffer_t buffer = t->view_src != nullptr ? t->view_src->buffer : t->buffer;
  return buffer != nullptr && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

Weight* weight_of(const ggml_tensor* t) {
  const ggml_tensor* root = t->view_src != nullptr ? t->view_src : t;
  if (root->buffer == nullptr || !is_weight_buffer_type(root->buffer->buft)) return nullptr;
  return static_cast<Weight*>(root->extra);
}

Weight* packed_weight(const ggml_tensor* t) {
  Weight* weight = weight_of(t);
  return weight != nullptr && weight->packed ? weight : nullptr;
}

const char* place_packed(const Weight& weight, const ggml_tensor* t, lathe_operand* b,
                         int64_t* matrix_bytes) {
  const size_t row = ggml_row_size(weight.type, weight.k), plain = row * static_cast<size_t>(weight.n);
  const bool whole = t->type == weight.type && t->ne[0] == weight.k && t->ne[1] == weight.n &&
                     t->nb[1] == row && (t->ne[2] == 1 || t->nb[2] == plain) &&
                     (t->ne[3] == 1 || t->nb[3] == plain * static_cast<size_t>(t->ne[2])) &&
                     place(t, 0) % plain == 0;
  if (!whole) return "a part of a packed weight";
  b->dtype = dtype_of(t->type);
  b->layout = LATHE_COLUMN_MAJOR;
  b->data = static_cast<char*>(weight.data) + place(t, 0) / plain * weight.packed_matrix;
  b->packed_layout = weight.packed_layout;
  *matrix_bytes = static_cast<int64_t>(weight.packed_matrix);
  return nullptr;
}

bool is_incomplete(const ggml_tensor* t) {
  const Weight* weight = weight_of(t);
  return weight != nullptr && !weight->ranges.empty();
}

void visit_weights(const std::function<void(Weight&)>& visit) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (Weight* weight : all.weights) {
    if (weight->m_max.load() > 0) visit(*weight);
  }
}

uint64_t weight_changes() { return registry().changes.load(); }

void expect_rows(Weight& weight, int64_t m) {
  int64_t before = weight.m_max.load();
  while (m > before && !weight.m_max.compare_exchange_weak(before, m)) {
  }
  if (m > before) registry().changes.fetch_add(1);
}

}  // namespace lathe_ggml
