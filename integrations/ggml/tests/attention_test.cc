// FLASH_ATTN_EXT on Lathe: types, heads that share keys, masks, sinks and lengths that fill no block, on one thread and
// on three. Expected values are computed in double from the rounded operands.
//   attention_test <libggml-lathe.so>    (LATHE_TEST_SEED repeats a run)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

namespace {

struct Case {
  ggml_type type;
  int64_t width, value_width, heads, kv_heads, tokens, keys, batch;
  bool mask, sinks;
};

struct Operands {
  std::vector<float> q, k, v, mask, sinks;  // k, v and mask as their types round them
};

std::mt19937 random_bits;
std::vector<float> normal_floats(int64_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random_bits);
  return values;
}

// Sets the tensor to the values, and rounds these as its type does.
void set_rounded(ggml_tensor* t, std::vector<float>* values) {
  const auto count = static_cast<int64_t>(values->size());
  std::vector<char> bytes(ggml_nbytes(t));
  ggml_quantize_chunk(t->type, values->data(), bytes.data(), 0, count / t->ne[0], t->ne[0], nullptr);
  ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
  if (t->type != GGML_TYPE_F32) ggml_get_type_traits(t->type)->to_float(bytes.data(), values->data(), count);
}

// Later keys are hidden, as in a model; a few values are added to others.
std::vector<float> random_mask(const Case& c) {
  std::vector<float> mask = normal_floats(c.keys * c.tokens * c.batch);
  for (int64_t i = 0; i < static_cast<int64_t>(mask.size()); ++i) {
    const int64_t key = i % c.keys, token = i / c.keys % c.tokens;
    if (key > token + c.keys / 3) {
      mask[i] = -INFINITY;
    } else if (key % 3 != 0 || token < c.tokens / 2) {
      mask[i] = 0;
    }
  }
  return mask;
}

// One row of the result: what a head of a token reads.
std::vector<double> expected_row(const Case& c, const Operands& o, float scale, int64_t b, int64_t token,
                                 int64_t head) {
  const int64_t kv_head = head / (c.heads / c.kv_heads);
  const float* q = o.q.data() + ((b * c.heads + head) * c.tokens + token) * c.width;
  std::vector<double> weights(c.keys), row(c.value_width);
  double largest = c.sinks ? o.sinks[head] : -INFINITY, sum = 0;
  for (int64_t i = 0; i < c.keys; ++i) {
    const float* k = o.k.data() + ((b * c.kv_heads + kv_head) * c.keys + i) * c.width;
    double score = 0;
    for (int64_t l = 0; l < c.width; ++l) score += static_cast<double>(q[l]) * k[l];
    weights[i] = score * scale + (c.mask ? o.mask[(b * c.tokens + token) * c.keys + i] : 0);
    largest = std::max(largest, weights[i]);
  }
  if (c.sinks) sum = std::exp(o.sinks[head] - largest);
  for (int64_t i = 0; i < c.keys; ++i) {
    const double weight = std::exp(weights[i] - largest);
    sum += weight;
    const float* v = o.v.data() + ((b * c.kv_heads + kv_head) * c.keys + i) * c.value_width;
    for (int64_t l = 0; l < c.value_width; ++l) row[l] += weight * v[l];
  }
  for (double& x : row) x /= sum;
  return row;
}

// The largest error, or infinity if the backend fails.
double error_of(const Case& c, ggml_backend_t backend) {
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> context(
      ggml_init({size_t{1} << 20, nullptr, true}), ggml_free);
  ggml_context* const all = context.get();
  ggml_tensor* q = ggml_new_tensor_4d(all, GGML_TYPE_F32, c.width, c.tokens, c.heads, c.batch);
  ggml_tensor* k = ggml_new_tensor_4d(all, c.type, c.width, c.keys, c.kv_heads, c.batch);
  ggml_tensor* v = ggml_new_tensor_4d(all, c.type, c.value_width, c.keys, c.kv_heads, c.batch);
  ggml_tensor* mask = c.mask ? ggml_new_tensor_4d(all, GGML_TYPE_F16, c.keys, c.tokens, 1, c.batch) : nullptr;
  ggml_tensor* sinks = c.sinks ? ggml_new_tensor_1d(all, GGML_TYPE_F32, c.heads) : nullptr;
  const float scale = 1 / std::sqrt(static_cast<float>(c.width));
  ggml_tensor* result = ggml_flash_attn_ext(all, q, k, v, mask, scale, 0, 0);
  if (c.sinks) ggml_flash_attn_ext_add_sinks(result, sinks);
  ggml_cgraph* graph = ggml_new_graph(all);
  ggml_build_forward_expand(graph, result);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(all, backend);
  Operands o{normal_floats(ggml_nelements(q)), normal_floats(ggml_nelements(k)),
             normal_floats(ggml_nelements(v)), c.mask ? random_mask(c) : std::vector<float>(),
             normal_floats(c.heads)};
  set_rounded(q, &o.q), set_rounded(k, &o.k), set_rounded(v, &o.v);
  if (c.mask) set_rounded(mask, &o.mask);
  if (c.sinks) set_rounded(sinks, &o.sinks);
  double worst = INFINITY;
  if (ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS) {
    std::vector<float> y(ggml_nelements(result));
    ggml_backend_tensor_get(result, y.data(), 0, y.size() * sizeof(float));
    worst = 0;
    for (int64_t i = 0; i < c.batch * c.tokens * c.heads; ++i) {
      const std::vector<double> row =
          expected_row(c, o, scale, i / (c.tokens * c.heads), i / c.heads % c.tokens, i % c.heads);
      for (int64_t l = 0; l < c.value_width; ++l) {
        const double error = std::abs(y[i * c.value_width + l] - row[l]);
        worst = error <= worst ? worst : error;  // NaN counts
      }
    }
  }
  ggml_backend_buffer_free(buffer);
  return worst;
}

int64_t between(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_bits);
}

Case random_case(int i) {
  const ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16};
  const int64_t kv_heads = between(1, 3), width = 16 * between(1, 6);
  return {types[i % 3],
          width,
          i % 2 == 0 ? width : 16 * between(1, 6),
          kv_heads * between(1, 5),
          kv_heads,
          i % 3 == 0 ? between(1, 20) : between(16, 150),
          between(1, 400),
          between(1, 2),
          i % 4 != 0,
          i % 5 == 0};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: attention_test LIBRARY\n"), 2;
  const char* given = std::getenv("LATHE_TEST_SEED");
  const bool is_given = given != nullptr && *given != 0;
  const unsigned seed = is_given ? static_cast<unsigned>(std::atol(given)) : std::random_device()();
  random_bits.seed(seed);
  ggml_backend_load_all();
  if (ggml_backend_dev_by_name("Lathe") == nullptr) ggml_backend_load(arguments[1]);
  ggml_backend_dev_t device = ggml_backend_dev_by_name("Lathe");
  if (device == nullptr) return std::fprintf(stderr, "the backend was not loaded\n"), 1;
  ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
  const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  int failures = 0;
  for (int i = 0; i < 24; ++i) {
    const Case c = random_case(i);
    set_threads(backend, i % 3 == 1 ? 3 : 1);
    const double error = error_of(c, backend);
    if (error < 1e-5) continue;
    ++failures;
    std::printf("FAILED: %s, width %d and %d, %d heads on %d, %d tokens, %d keys, batch %d: error %g\n",
                ggml_type_name(c.type), static_cast<int>(c.width), static_cast<int>(c.value_width),
                static_cast<int>(c.heads), static_cast<int>(c.kv_heads), static_cast<int>(c.tokens),
                static_cast<int>(c.keys), static_cast<int>(c.batch), error);
  }
  ggml_backend_free(backend);
  std::printf(failures == 0 ? "all passed (seed %u)\n" : "failed (seed %u)\n", seed);
  return failures == 0 ? 0 : 1;
}
