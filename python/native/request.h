// Descriptors from Python arguments.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "array.h"
#include "scales.h"

namespace lathe_python {

// A weight that stands for `b`: packed, or in the blocks of a GGUF file. Keeps the memory alive.
struct Weight {
  int64_t n = 0, k = 0, batch = 1;
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  const char* data = nullptr;
  size_t bytes = 0;
  bool batched = false;  // has a batch dimension, even of size 1
};
struct PackedWeight : Weight {
  PackedWeight() = default;
  PackedWeight(const PackedWeight&) = delete;
  ~PackedWeight();
  nb::object owner;  // of the memory; none: this object mapped it
  uint32_t layout = 0;
  int64_t batch_stride = 0;
  lathe_dtype a_dtype = LATHE_DTYPE_NONE;
  lathe_math math = LATHE_MATH_STRICT;
};
struct QuantisedWeight : Weight {
  QuantisedWeight(nb::object buffer, const std::string& dtype, nb::tuple shape);
  ~QuantisedWeight() { PyBuffer_Release(&view); }
  QuantisedWeight(const QuantisedWeight&) = delete;
  std::string dtype_text;  // also of dtypes that Lathe cannot multiply
  nb::object buffer;
  Py_buffer view{};
  nb::tuple shape;
};

// What an argument `b` says about a product.
struct WeightForm {
  int64_t n = 0, k = 0, batch = 1;
  int ndim = 2;  // 1: a vector of K elements; 3: with a batch
  lathe_math math = LATHE_MATH_STRICT;
};
// The memory of `b`, which must live as long as its operand is used.
struct WeightMemory {
  Array array;
  std::optional<ScalesInUse> scales;
};
// Reads `b`, an array or a weight, into `operand`. `scale`: None, or its lathe.Scales. `grouped`: the matrices of a
// batch have global scales of their own.
WeightForm read_weight(Target& target, lathe_operand& operand, WeightMemory& memory, nb::handle b,
                       nb::handle scale = {}, bool grouped = false);

// The keyword arguments that the products share; None takes the default.
struct ProductArguments {
  nb::handle a, b, out, bias, activation, residual;
  double alpha = 1.0, beta = 0.0;
  nb::handle math, determinism;
  // A request that only describes: no result is made, and out may be missing although beta is not 0.
  bool describe_only = false;
  nb::handle a_scale = {}, b_scale = {};
};

// A matmul's descriptor and what its pointers need. `result` is out or a new array.
struct MatmulRequest {
  explicit MatmulRequest(const ProductArguments& arguments);
  Target target;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  nb::object result;

 private:
  void read_out(const ProductArguments& arguments);
  void read_epilogue(const ProductArguments& arguments);
  Array a_, out_, bias_, residual_;
  WeightMemory b_;
  std::optional<ScalesInUse> a_scales_;
  int result_ndim_ = 0;
  // Dimensions of D with those that NumPy's rule leaves out, and where one is missing.
  int full_ndim_ = 2, inserted_at_ = 0;
  int64_t result_shape_[3] = {};
};

// x @ weight.T + bias for a layer of PyTorch: all dimensions of x but the last are rows.
struct LinearRequest {
  // `weight`: an array (N, K), a PackedWeight or a QuantisedWeight.
  LinearRequest(nb::handle x, nb::handle weight, nb::handle bias, nb::handle out, nb::handle math);
  Target target;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;

 private:
  Array x_, bias_, out_;
  WeightMemory weight_;
};

struct MatmulArgmaxRequest {
  MatmulArgmaxRequest(const ProductArguments& arguments, nb::handle logits_dtype, bool want_values);
  Target target;
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  nb::object indices, values;

 private:
  Array a_, bias_, indices_, values_;
  WeightMemory b_;
};

struct ArgmaxRequest {
  ArgmaxRequest(nb::handle x, bool want_values, bool describe_only = false);
  Target target;
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  nb::object indices, values;

 private:
  Array x_, indices_, values_;
};

// The keyword arguments of a grouped product.
struct GroupedArguments {
  nb::handle a, b, routing, grouping, router_weights, gate, gate_layout, bias, activation;
  double alpha = 1.0;
  nb::handle math, determinism, a_scale, b_scale;
};
struct GroupedMatmulRequest {
  explicit GroupedMatmulRequest(const GroupedArguments& arguments);
  Target target;
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  nb::object result;

 private:
  void read_routing(const GroupedArguments& arguments);
  void read_a(nb::handle a, const Scales* scales);
  void make_result(nb::handle like);
  Array a_, routing_, weights_, bias_, out_;
  WeightMemory b_;
  std::optional<ScalesInUse> a_scales_;
};

lathe_math math_of(nb::handle name);
const char* math_name(lathe_math math);
lathe_dtype dtype_argument(nb::handle dtype, lathe_dtype otherwise);

}  // namespace lathe_python
