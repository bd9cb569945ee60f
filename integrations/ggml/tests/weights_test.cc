// Products with weights in Lathe's buffers: every type and several shapes, data that comes in pieces, parts of weights,
// and what must be refused. Expected values are computed in double from the dequantized weight.
//   weights_test <libggml-lathe.so>
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

int failures = 0;
void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

struct FreeContext {
  void operator()(ggml_context* c) const { ggml_free(c); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;
Context make_context() { return Context(ggml_init({size_t{1} << 20, nullptr, true})); }

std::mt19937 random_bits(7);
std::vector<float> random_floats(size_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random_bits);
  return values;
}

std::vector<char> quantized(ggml_type type, const std::vector<float>& values, int64_t k) {
  const int64_t rows = static_cast<int64_t>(values.size()) / k;
  std::vector<char> bytes(ggml_row_size(type, k) * rows);
  ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, k, nullptr);
  return bytes;
}

// The weight's rows, widened to float.
std::vector<float> dequantized(ggml_type type, const std::vector<char>& bytes, int64_t count) {
  std::vector<float> values(count);
  if (type == GGML_TYPE_F32) {
    std::copy_n(reinterpret_cast<const float*>(bytes.data()), count, values.data());
  } else {
    ggml_get_type_traits(type)->to_float(bytes.data(), values.data(), count);
  }
  return values;
}

// Normalized mean squared error of y[m][n] = x[m] . w[n].
double error_of(const std::vector<float>& y, const float* w, const float* x, int64_t m, int64_t n,
                int64_t k) {
  double wrong = 0, all = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += static_cast<double>(x[i * k + l]) * w[j * k + l];
      wrong += (sum - y[i * n + j]) * (sum - y[i * n + j]);
      all += sum * sum;
    }
  }
  return wrong / all;
}

// A weight in a Lathe buffer that is marked as weights, as llama.cpp does.
struct Weights {
  Context context = make_context();
  ggml_backend_buffer_t buffer = nullptr;
  ggml_tensor* tensor = nullptr;
  Weights(ggml_backend_dev_t device, ggml_type type, int64_t k, int64_t n, int64_t matrices = 1) {
    tensor = ggml_new_tensor_3d(context.get(), type, k, n, matrices);
    ggml_set_name(tensor, "the weight");
    buffer = ggml_backend_alloc_ctx_tensors_from_buft(context.get(), ggml_backend_dev_buffer_type(device));
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  }
  ~Weights() { ggml_backend_buffer_free(buffer); }
};

struct Lathe {
  ggml_backend_dev_t device;
  ggml_backend_t backend;

  // w may be a view. False: the backend failed.
  bool multiply(ggml_tensor* w, const std::vector<float>& x, int64_t m, std::vector<float>* y) const {
    const Context context = make_context();
    ggml_tensor* activations = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, w->ne[0], m, w->ne[2]);
    ggml_tensor* result = ggml_mul_mat(context.get(), w, activations);
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, result);
    check(ggml_backend_supports_op(backend, result), "a product with the weight is taken");
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context.get(), backend);
    ggml_backend_tensor_set(activations, x.data(), 0, x.size() * sizeof(float));
    const bool ok = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
    y->resize(ggml_nelements(result));
    ggml_backend_tensor_get(result, y->data(), 0, y->size() * sizeof(float));
    ggml_backend_buffer_free(buffer);
    return ok;
  }
};

std::string name_of(ggml_type type, int64_t m, int64_t n, int64_t k) {
  return std::string(ggml_type_name(type)) + " m=" + std::to_string(m) + " n=" + std::to_string(n) +
         " k=" + std::to_string(k);
}

void multiplies_every_type(const Lathe& lathe) {
  const ggml_type types[] = {GGML_TYPE_F32,    GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0,
                             GGML_TYPE_Q8_0,   GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                             GGML_TYPE_Q4_K,   GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL,
                             GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4};
  for (const ggml_type type : types) {
    for (const int64_t n : {1, 2, 17, 48}) {
      const int64_t k = 512;
      const Weights weights(lathe.device, type, k, n);
      const std::vector<char> bytes = quantized(type, random_floats(k * n), k);
      ggml_backend_tensor_set(weights.tensor, bytes.data(), 0, bytes.size());
      const std::vector<float> w = dequantized(type, bytes, k * n);
      for (const int64_t m : {1, 3, 16, 70}) {
        const std::vector<float> x = random_floats(k * m);
        std::vector<float> y;
        check(lathe.multiply(weights.tensor, x, m, &y), "computes " + name_of(type, m, n, k));
        check(error_of(y, w.data(), x.data(), m, n, k) < 5e-4, "is exact enough: " + name_of(type, m, n, k));
      }
    }
  }
}

void takes_data_in_pieces(const Lathe& lathe) {
  const int64_t k = 256, n = 48, m = 5;
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0}) {
    const Weights weights(lathe.device, type, k, n);
    const std::vector<char> bytes = quantized(type, random_floats(k * n), k);
    const size_t third = bytes.size() / 3, size = bytes.size();
    for (const auto& [begin, end] :
         {std::pair{third, 2 * third}, std::pair{2 * third - 4, size}, std::pair{size_t{0}, third}}) {
      ggml_backend_tensor_set(weights.tensor, bytes.data() + begin, begin, end - begin);
    }
    const std::vector<float> x = random_floats(k * m);
    std::vector<float> y;
    check(lathe.multiply(weights.tensor, x, m, &y), "computes with data that came in pieces");
    check(error_of(y, dequantized(type, bytes, k * n).data(), x.data(), m, n, k) < 5e-4,
          std::string("is exact with data that came in pieces: ") + ggml_type_name(type));
  }
}

void multiplies_parts(const Lathe& lathe) {
  const int64_t k = 128, n = 32, m = 4, matrices = 3;
  const Weights weights(lathe.device, GGML_TYPE_F32, k, n, matrices);
  const std::vector<float> w = random_floats(k * n * matrices);
  ggml_backend_tensor_set(weights.tensor, w.data(), 0, w.size() * sizeof(float));
  const std::vector<float> x = random_floats(k * m * matrices);
  std::vector<float> y;
  check(lathe.multiply(weights.tensor, x, m, &y), "computes with three matrices");
  for (int64_t i = 0; i < matrices; ++i) {
    const std::vector<float> part(y.begin() + i * m * n, y.begin() + (i + 1) * m * n);
    check(error_of(part, w.data() + i * k * n, x.data() + i * k * m, m, n, k) < 1e-9,
          "each of three matrices is right");
  }
  const Context context = make_context();
  ggml_tensor* second =
      ggml_view_2d(context.get(), weights.tensor, k, n, weights.tensor->nb[1], weights.tensor->nb[2]);
  ggml_backend_view_init(second);
  const std::vector<float> rows(x.begin(), x.begin() + k * m);
  check(lathe.multiply(second, rows, m, &y), "computes with a view of one matrix");
  check(error_of(y, w.data() + k * n, rows.data(), m, n, k) < 1e-9, "a view of one matrix is right");
}

void refuses_to_read_packed_data(const Lathe& lathe) {
  const Weights weights(lathe.device, GGML_TYPE_F32, 128, 32);
  const std::vector<float> w = random_floats(128 * 32);
  ggml_backend_tensor_set(weights.tensor, w.data(), 0, w.size() * sizeof(float));
  const Context context = make_context();
  ggml_tensor* rows = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, 3);
  ggml_tensor* other = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 128, 32);
  check(!ggml_backend_supports_op(lathe.backend, ggml_get_rows(context.get(), weights.tensor, rows)),
        "refuses get_rows");
  check(!ggml_backend_supports_op(lathe.backend, ggml_mul_mat(context.get(), other, weights.tensor)),
        "refuses a packed weight as activations");
  ggml_tensor* half = ggml_view_2d(context.get(), weights.tensor, 128, 16, weights.tensor->nb[1], 0);
  ggml_backend_view_init(half);
  check(!ggml_backend_supports_op(lathe.backend, ggml_mul_mat(context.get(), half, other)),
        "refuses half of a packed weight");
}

void fails_without_all_data(const Lathe& lathe) {
  const Weights weights(lathe.device, GGML_TYPE_F32, 128, 32);
  const std::vector<float> w = random_floats(128 * 32), x = random_floats(128);
  ggml_backend_tensor_set(weights.tensor, w.data(), 0, 128 * sizeof(float));
  std::vector<float> y;
  check(!lathe.multiply(weights.tensor, x, 1, &y), "fails if a part of the weight is missing");
}

void keeps_other_tensors(const Lathe& lathe) {
  const Weights bias(lathe.device, GGML_TYPE_F32, 100, 1);
  const std::vector<float> values = random_floats(100);
  ggml_backend_tensor_set(bias.tensor, values.data(), 0, 400);
  std::vector<float> back(100);
  ggml_backend_tensor_get(bias.tensor, back.data(), 0, 400);
  check(values == back, "reads a vector back");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return std::fprintf(stderr, "usage: weights_test <libggml-lathe.so>\n"), 2;
  setenv("LATHE_GGML_PACK", "1", 1);  // so that every type is packed, not only block formats
  ggml_backend_load_all();
  if (ggml_backend_dev_by_name("Lathe") == nullptr) ggml_backend_load(arguments[1]);
  Lathe lathe{};
  lathe.device = ggml_backend_dev_by_name("Lathe");
  if (lathe.device == nullptr) return std::fprintf(stderr, "the backend was not loaded\n"), 1;
  lathe.backend = ggml_backend_dev_init(lathe.device, nullptr);
  multiplies_every_type(lathe);
  takes_data_in_pieces(lathe);
  multiplies_parts(lathe);
  refuses_to_read_packed_data(lathe);
  fails_without_all_data(lathe);
  keeps_other_tensors(lathe);
  ggml_backend_free(lathe.backend);
  std::printf(failures == 0 ? "all passed\n" : "%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
