#include "attention.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "ggml-impl.h"
#include "product.h"
#include "softmax.h"
#include "team.h"

namespace lathe_ggml {
namespace {

// Rows of a block: enough for fast products, few enough for scores and sums to stay in the L2 cache.
constexpr int64_t kMostRows = 256, kMostTokens = 64;
constexpr float kLog2e = 1.44269504f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The key of a product of attention: type, N, K and rows.
using Shape = std::tuple<lathe_dtype, int64_t, int64_t, int64_t>;
struct Expected {
  std::mutex mutex;
  std::map<Shape, lathe_matmul_desc> products;
  std::atomic<uint64_t> changes{0};
};
Expected& expected() {
  static Expected* all = new Expected;
  return *all;
}

float parameter(const ggml_tensor* node, int i) { return ggml_get_op_params_f32(node, i); }

bool has_whole_rows(const ggml_tensor* t) {
  const size_t size = ggml_type_size(t->type);
  return t->nb[0] == size && t->nb[1] % size == 0 && t->nb[1] >= size * t->ne[0];
}

char* matrix_at(const ggml_tensor* t, int64_t i2, int64_t i3) {
  return static_cast<char*>(t->data) + i2 * t->nb[2] + i3 * t->nb[3];
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Memory of one thread for the blocks that it works on. Grows and stays.
class Scratch {
 public:
  // Begins to hand out parts of `bytes` in all.
  void reset(size_t bytes) {
    next_ = 0;
    if (bytes <= size_) return;
    memory_.reset(static_cast<char*>(std::aligned_alloc(kLine, rounded(bytes))));
    size_ = bytes;
  }
  template <typename T>
  T* take(int64_t count) {
    char* const part = memory_.get() + next_;
    next_ += rounded(count * sizeof(T));
    return reinterpret_cast<T*>(part);
  }
  static size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

 private:
  static constexpr size_t kLine = 64;
  std::unique_ptr<char, Free> memory_;
  size_t size_ = 0, next_ = 0;
};

// One block of queries: the heads that share keys and values, and some tokens. Row h * tokens + t is head h, token t.
class Block {
 public:
  Block(const Attention& attention, lathe_device* device, int64_t index);
  lathe_status run();

 private:
  void place();
  void load_queries();
  void store();
  // `count` rows of keys or values from `first` on; in `copy` with zeros after them if they do not fill a block.
  void* rows_of(const ggml_tensor* matrices, int64_t first, int64_t count, char* copy) const;
  // Fills the mask of these keys, and sets whether it must be added. False: no key is visible.
  bool see(int64_t first, int64_t count);

  const Attention& attention_;
  lathe_device* const device_;
  const ggml_tensor *const q_, *const k_, *const v_, *const mask_, *const sinks_;
  int64_t plane_, kv_head_, first_token_, stored_token_, tokens_, rows_;
  SoftmaxRows softmax_;
  float *queries_ = nullptr, *mask_block_ = nullptr;
  char *keys_copy_ = nullptr, *values_copy_ = nullptr;
};

Block::Block(const Attention& attention, lathe_device* device, int64_t index)
    : attention_(attention),
      device_(device),
      q_(attention.node->src[0]),
      k_(attention.node->src[1]),
      v_(attention.node->src[2]),
      mask_(attention.node->src[3]),
      sinks_(attention.node->src[4]) {
  const int64_t matrix = index % (k_->ne[2] * q_->ne[3]);
  kv_head_ = matrix % k_->ne[2];
  plane_ = matrix / k_->ne[2];
  // Later tokens see more keys, so they come first.
  stored_token_ =
      (attention.blocks_per_head() - 1 - index / (k_->ne[2] * q_->ne[3])) * attention.block_tokens;
  first_token_ = std::min(stored_token_, attention.tokens() - attention.block_tokens);
  tokens_ = attention.block_tokens;
  rows_ = tokens_ * attention.group;
}

void Block::place() {
  static thread_local Scratch scratch;
  const int64_t width = k_->ne[0], value_width = v_->ne[0];
  const int64_t floats = rows_ * (width + kKeys + value_width + 2) + tokens_ * kKeys;
  const int64_t copies = kKeys * (width + value_width) * static_cast<int64_t>(sizeof(float));
  scratch.reset(floats * sizeof(float) + copies + 8 * Scratch::rounded(1));
  queries_ = scratch.take<float>(rows_ * width);
  mask_block_ = scratch.take<float>(tokens_ * kKeys);
  keys_copy_ = scratch.take<char>(kKeys * width * sizeof(float));
  values_copy_ = scratch.take<char>(kKeys * value_width * sizeof(float));
  softmax_.rows = rows_, softmax_.width = value_width;
  softmax_.scores = scratch.take<float>(rows_ * kKeys);
  softmax_.sums = scratch.take<float>(rows_ * value_width);
  softmax_.largest = scratch.take<float>(rows_);
  softmax_.weight_sum = scratch.take<float>(rows_);
  softmax_.mask_rows = tokens_;
}

void Block::load_queries() {
  const float scale = parameter(attention_.node, 0) * kLog2e;
  const int64_t width = q_->ne[0];
  float* row = queries_;
  for (int64_t h = 0; h < attention_.group; ++h) {
    const char* head = matrix_at(q_, kv_head_ * attention_.group + h, plane_);
    // A sink is a score without a value.
    const float sink = sinks_ != nullptr
                           ? static_cast<const float*>(sinks_->data)[kv_head_ * attention_.group + h] * kLog2e
                           : -kInfinity;
    for (int64_t t = 0; t < tokens_; ++t, row += width) {
      const auto* from = reinterpret_cast<const float*>(head + (first_token_ + t) * q_->nb[1]);
      for (int64_t i = 0; i < width; ++i) row[i] = from[i] * scale;
      softmax_.largest[h * tokens_ + t] = sink;
      softmax_.weight_sum[h * tokens_ + t] = sinks_ != nullptr ? 1.0f : 0.0f;
    }
  }
  std::fill_n(softmax_.sums, rows_ * softmax_.width, 0.0f);
}

void* Block::rows_of(const ggml_tensor* t, int64_t first, int64_t count, char* copy) const {
  char* const rows = matrix_at(t, kv_head_, plane_) + first * t->nb[1];
  if (count == kKeys) return rows;
  // The leading dimension stays, so only the first `count` rows are whole.
  const size_t bytes = ggml_row_size(t->type, t->ne[0]);
  std::memset(copy, 0, kKeys * bytes);
  for (int64_t i = 0; i < count; ++i) std::memcpy(copy + i * bytes, rows + i * t->nb[1], bytes);
  return copy;
}

bool Block::see(int64_t first, int64_t count) {
  softmax_.mask = nullptr;
  if (mask_ == nullptr && count == kKeys) return true;
  const char* const plane = mask_ == nullptr ? nullptr : matrix_at(mask_, 0, plane_ % mask_->ne[3]);
  bool visible = mask_ == nullptr, adds = count < kKeys;
  for (int64_t t = 0; t < tokens_; ++t) {
    float* const row = mask_block_ + t * kKeys;
    std::fill(row + count, row + kKeys, -kInfinity);
    if (plane == nullptr) {
      std::fill_n(row, count, 0.0f);
      continue;
    }
    const auto* from = reinterpret_cast<const uint16_t*>(plane + (first_token_ + t) * mask_->nb[1]) + first;
    const MaskKind kind = read_mask(from, count, kLog2e, row);
    visible = visible || kind != MaskKind::kHidesAll;
    adds = adds || kind != MaskKind::kNothing;
  }
  if (adds) softmax_.mask = mask_block_;
  return visible;
}

lathe_status Block::run() {
  place();
  load_queries();
  lathe_matmul_desc scores = attention_.scores, sums = attention_.sums;
  scores.a.data = queries_, scores.d.data = sums.a.data = softmax_.scores;
  sums.c.data = sums.d.data = softmax_.sums;
  for (int64_t first = 0; first < k_->ne[1]; first += kKeys) {
    const int64_t count = std::min(kKeys, k_->ne[1] - first);
    if (!see(first, count)) continue;
    scores.b.data = rows_of(k_, first, count, keys_copy_);
    sums.b.data = rows_of(v_, first, count, values_copy_);
    if (count < kKeys) scores.b.leading_dimension = sums.b.leading_dimension = 0;
    if (const lathe_status status = lathe_matmul(device_, nullptr, &scores); status != LATHE_OK)
      return status;
    take_weights(softmax_);
    if (const lathe_status status = lathe_matmul(device_, nullptr, &sums); status != LATHE_OK) return status;
  }
  store();
  return LATHE_OK;
}

void Block::store() {
  const ggml_tensor* const d = attention_.node;
  for (int64_t r = 0; r < rows_; ++r) {
    if (first_token_ + r % tokens_ < stored_token_) continue;  // the block before stores it
    const int64_t head = kv_head_ * attention_.group + r / tokens_, token = first_token_ + r % tokens_;
    const float sum = softmax_.weight_sum[r], factor = sum == 0 ? 0 : 1 / sum;
    const float* const from = softmax_.sums + r * softmax_.width;
    auto* const to = reinterpret_cast<float*>(matrix_at(d, token, plane_) + head * d->nb[1]);
    for (int64_t i = 0; i < softmax_.width; ++i) to[i] = from[i] * factor;
  }
}

lathe_matmul_desc product_of(ggml_type type, int64_t n, int64_t k, lathe_layout layout) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.n = n, desc.k = k;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = dtype_of(type);
  desc.b.layout = layout;
  return desc;
}

}  // namespace

const char* read_attention(const ggml_tensor* node, Attention* attention) {
  const ggml_tensor *q = node->src[0], *k = node->src[1], *v = node->src[2], *mask = node->src[3];
  if (q->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32) return "the queries are not f32";
  for (const ggml_tensor* t : {k, v}) {
    if (is_block_format(t->type) || dtype_of(t->type) == LATHE_DTYPE_NONE)
      return "keys or values of this type";
    if (!has_whole_rows(t)) return "rows of keys or values are not contiguous";
  }
  if (k->ne[2] != v->ne[2] || k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3])
    return "keys, values and queries have other batches";
  if (parameter(node, 1) != 0) return "a bias that depends on the position";
  if (parameter(node, 2) != 0) return "scores are capped";
  if (mask != nullptr && (mask->ne[2] != 1 || mask->type != GGML_TYPE_F16)) return "each head has a mask";
  if (q->nb[0] != sizeof(float)) return "rows of queries are not contiguous";
  Attention& a = *attention;
  a = Attention();
  a.node = node;
  a.group = q->ne[2] / k->ne[2];
  a.block_tokens = 1;
  const int64_t most = std::min({kMostTokens, kMostRows / a.group, q->ne[1]});
  while (2 * a.block_tokens <= most) a.block_tokens *= 2;
  a.scores = product_of(k->type, kKeys, k->ne[0], LATHE_COLUMN_MAJOR);
  a.scores.b.leading_dimension = static_cast<int64_t>(k->nb[1] / ggml_type_size(k->type));
  a.sums = product_of(v->type, v->ne[0], kKeys, LATHE_ROW_MAJOR);
  a.sums.b.leading_dimension = static_cast<int64_t>(v->nb[1] / ggml_type_size(v->type));
  a.sums.c.dtype = LATHE_F32;
  a.sums.epilogue.beta = 1;
  a.scores.m = a.sums.m = a.block_tokens * a.group;
  return nullptr;
}

bool run_attention(const Attention& attention, lathe_device* device) {
  struct Shared {
    const Attention& attention;
    lathe_device* device;
    std::atomic<bool> failed{false};
  } shared{attention, device};
  Team::parallel_for(
      nullptr, attention.blocks(),
      [](void* context, int64_t index, int32_t) {
        auto& all = *static_cast<Shared*>(context);
        if (Block(all.attention, all.device, index).run() == LATHE_OK) return;
        if (!all.failed.exchange(true)) GGML_LOG_ERROR("lathe: %s\n", lathe_last_error());
      },
      &shared);
  return !shared.failed.load();
}

void expect_attention(const Attention& attention) {
  Expected& e = expected();
  const std::lock_guard<std::mutex> lock(e.mutex);
  // Later graphs may have fewer tokens: one in generation, some at the end of a prompt.
  for (const int64_t tokens :
       {attention.block_tokens, std::min(attention.block_tokens, int64_t{16}), int64_t{1}}) {
    for (lathe_matmul_desc desc : {attention.scores, attention.sums}) {
      desc.m = tokens * attention.group;
      if (e.products.emplace(Shape(desc.b.dtype, desc.n, desc.k, desc.m), desc).second)
        e.changes.fetch_add(1);
    }
  }
}

void visit_attention(const std::function<void(const lathe_matmul_desc&)>& visit) {
  Expected& e = expected();
  const std::lock_guard<std::mutex> lock(e.mutex);
  for (const auto& [shape, desc] : e.products) visit(desc);
}

uint64_t attention_changes() { return expected().changes.load(); }

}  // namespace lathe_ggml
