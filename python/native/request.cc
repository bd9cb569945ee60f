#include "request.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace lathe_python {
namespace {

struct Named {
  const char* name;
  int value;
};
const Named kActivations[] = {{"none", LATHE_ACTIVATION_NONE},
                              {"relu", LATHE_ACTIVATION_RELU},
                              {"gelu", LATHE_ACTIVATION_GELU},
                              {"gelu_tanh", LATHE_ACTIVATION_GELU_TANH},
                              {"silu", LATHE_ACTIVATION_SILU},
                              {"silu_clamped", LATHE_ACTIVATION_SILU_CLAMPED},
                              {"clamp_plus_one", LATHE_ACTIVATION_CLAMP_PLUS_ONE}};
const Named kMath[] = {{"strict", LATHE_MATH_STRICT},
                       {"tf32", LATHE_MATH_TF32},
                       {"int8", LATHE_MATH_INT8},
                       {"bf16", LATHE_MATH_BF16}};
const Named kDeterminism[] = {{"fast", LATHE_DETERMINISM_FAST},
                              {"run_to_run", LATHE_DETERMINISM_RUN_TO_RUN},
                              {"batch_invariant", LATHE_DETERMINISM_BATCH_INVARIANT}};

template <size_t kCount>
int value_of(const Named (&names)[kCount], nb::handle name, const char* argument) {
  if (name.is_none()) return 0;
  const char* text = PyUnicode_Check(name.ptr()) ? PyUnicode_AsUTF8AndSize(name.ptr(), nullptr) : nullptr;
  if (text == nullptr) PyErr_Clear();
  std::string known;
  for (const Named& one : names) {
    if (text != nullptr && std::strcmp(text, one.name) == 0) return one.value;
    known += std::string(known.empty() ? "" : ", ") + "'" + one.name + "'";
  }
  value_error(std::string(argument) + " is " + nb::cast<std::string>(nb::repr(name)) +
              ", but must be None or one of " + known);
}

// A new array on the target's device: of the library of `like` (PyTorch), on the CPU of NumPy unless `like` can make one.
nb::object new_array(const Target& target, nb::handle like, int ndim, const int64_t* shape,
                     lathe_dtype dtype) {
  if (!target.on_gpu() && (PyObject_CheckBuffer(like.ptr()) || !nb::hasattr(like, "new_empty")))
    return new_numpy(ndim, shape, dtype);
  nb::list sizes;
  for (int i = 0; i < ndim; ++i) sizes.append(shape[i]);
  return nb::module_::import_("lathe._results").attr("empty_like")(like, nb::tuple(sizes), dtype_name(dtype));
}

// A number for each row of argmax: of NumPy on the CPU, on a GPU of the library of `like`.
nb::object new_row_array(const Target& target, nb::handle like, int64_t rows, lathe_dtype dtype) {
  return target.on_gpu() ? new_array(target, like, 1, &rows, dtype) : new_numpy(1, &rows, dtype);
}

// The dtype of a new result.
lathe_dtype result_dtype(lathe_dtype a) {
  switch (a) {
    case LATHE_I8: return LATHE_I32;
    case LATHE_F8_E4M3:
    case LATHE_F8_E5M2:
    case LATHE_F4_E2M1: return LATHE_F32;
    default: return a;
  }
}

bool is_sum_dtype(lathe_dtype dtype) {
  return dtype == LATHE_F32 || dtype == LATHE_F16 || dtype == LATHE_BF16;
}

}  // namespace

WeightForm read_weight(Target& target, lathe_operand& operand, WeightMemory& memory, nb::handle b,
                       nb::handle scale, bool grouped) {
  WeightForm form;
  const Scales* const scales = scales_of(scale, "b_scale");
  const bool plain = PyObject_CheckBuffer(b.ptr());
  if (scales != nullptr && !plain && (nb::isinstance<PackedWeight>(b) || nb::isinstance<QuantisedWeight>(b)))
    value_error("b_scale is for an array b; a packed or quantised weight has its scales already");
  if (!plain && nb::isinstance<PackedWeight>(b)) {
    const auto& packed = *nb::inst_ptr<PackedWeight>(b);
    target.join(b, "b", Place());
    form = {packed.n, packed.k, packed.batch, packed.batched ? 3 : 2, packed.math};
    operand.packed_layout = packed.layout;
    operand.batch_stride = packed.batch_stride;
    operand.layout = LATHE_COLUMN_MAJOR;
    operand.dtype = packed.dtype;
    operand.data = const_cast<char*>(packed.data);
    return form;
  }
  if (!plain && nb::isinstance<QuantisedWeight>(b)) {
    const auto& weight = *nb::inst_ptr<QuantisedWeight>(b);
    if (weight.dtype == LATHE_DTYPE_NONE)
      value_error("b has dtype " + weight.dtype_text +
                  ", which Lathe cannot multiply. docs/quantised-weights.md "
                  "lists the block formats");
    if (weight.k == 0) value_error("b has fewer than two dimensions");
    target.join(b, "b", Place());
    form = {weight.n, weight.k, weight.batch, weight.batched ? 3 : 2, LATHE_MATH_STRICT};
    operand.layout = LATHE_COLUMN_MAJOR;
    operand.batch_stride = weight.batch > 1 ? weight.n * weight.k : 0;
    operand.dtype = weight.dtype;
    operand.data = const_cast<char*>(weight.data);
    return form;
  }
  Array& array = memory.array;
  scales != nullptr ? array.read_bytes(target, b, "b") : array.read(target, b, "b");
  form.ndim = array.ndim;
  if (array.ndim == 1) array.insert_dimension(1);
  set_operand(operand, array, "b", true);
  form.n = array.shape[array.ndim - 1];
  form.k = array.shape[array.ndim - 2];
  form.batch = array.ndim == 3 ? array.shape[0] : 1;
  if (scales == nullptr) return form;
  ScalesInUse::Place place;
  place.is_b = true;
  place.lines = form.n;
  place.matrices = form.batch;
  place.globals = grouped ? form.batch : 1;
  form.k = memory.scales.emplace().attach(target, *scales, array, place, &operand);
  return form;
}

namespace {

std::string number(int64_t value) { return std::to_string(value); }

void read_bias(Target& target, Array& array, nb::handle bias, int64_t n, const void*& data,
               lathe_dtype& dtype) {
  array.read(target, bias, "bias");
  if (array.ndim != 1 || array.shape[0] != n)
    value_error("bias is " + array.describe() + ", but must have one dimension of N = " + number(n) +
                " elements");
  if (n > 1 && array.stride[0] != 1)
    value_error("bias is not contiguous. Pass numpy.ascontiguousarray(bias)");
  data = array.data;
  dtype = array.dtype;
}

void check_k(int64_t k_of_a, int64_t k_of_b) {
  if (k_of_a != k_of_b)
    value_error("a has K = " + number(k_of_a) + " columns, but b has K = " + number(k_of_b) +
                " rows. A weight of shape (N, K) is passed as weight.T");
}

}  // namespace

lathe_math math_of(nb::handle name) { return static_cast<lathe_math>(value_of(kMath, name, "math")); }

const char* math_name(lathe_math math) {
  for (const Named& one : kMath)
    if (one.value == math) return one.name;
  return "unknown";
}

lathe_dtype dtype_argument(nb::handle dtype, lathe_dtype otherwise) {
  if (dtype.is_none()) return otherwise;
  const std::string name =
      nb::cast<std::string>(nb::module_::import_("lathe._results").attr("dtype_name")(dtype));
  const lathe_dtype found = dtype_of_name(name);
  if (found == LATHE_DTYPE_NONE) value_error("Lathe has no dtype '" + name + "'");
  return found;
}

MatmulRequest::MatmulRequest(const ProductArguments& arguments) : target(arguments.describe_only) {
  const Scales* const a_scales = scales_of(arguments.a_scale, "a_scale");
  a_scales != nullptr ? a_.read_bytes(target, arguments.a, "a") : a_.read(target, arguments.a, "a");
  const int a_ndim = a_.ndim;
  if (a_.ndim == 1) a_.insert_dimension(0);
  set_operand(desc.a, a_, "a");
  const WeightForm b = read_weight(target, desc.b, b_, arguments.b, arguments.b_scale);
  desc.m = a_.shape[a_.ndim - 2];
  desc.n = b.n;
  desc.k = b.k;
  int64_t k_of_a = a_.shape[a_.ndim - 1];
  if (a_scales != nullptr) {
    ScalesInUse::Place place;
    place.lines = desc.m;
    place.matrices = a_.ndim == 3 ? a_.shape[0] : 1;
    k_of_a = a_scales_.emplace().attach(target, *a_scales, a_, place, &desc.a);
  }
  check_k(k_of_a, b.k);
  const int64_t a_batch = a_.ndim == 3 ? a_.shape[0] : 1;
  if (a_batch != b.batch && a_batch != 1 && b.batch != 1)
    value_error("a is a batch of " + number(a_batch) + " and b one of " + number(b.batch));
  desc.batch = a_batch == 1 ? b.batch : a_batch;
  desc.math = arguments.math.is_none() ? b.math : math_of(arguments.math);
  if (!arguments.determinism.is_none())
    desc.determinism =
        static_cast<lathe_determinism>(value_of(kDeterminism, arguments.determinism, "determinism"));
  // NumPy's rule: a vector's dimension is missing in the result.
  if (a_ndim == 3 || b.ndim == 3) result_shape_[result_ndim_++] = desc.batch;
  if (a_ndim > 1) result_shape_[result_ndim_++] = desc.m;
  if (b.ndim > 1) result_shape_[result_ndim_++] = desc.n;
  full_ndim_ = a_ndim == 3 || b.ndim == 3 ? 3 : 2;
  inserted_at_ = a_ndim == 1 ? full_ndim_ - 2 : full_ndim_ - 1;
  read_out(arguments);
  read_epilogue(arguments);
}

void MatmulRequest::read_out(const ProductArguments& arguments) {
  if (arguments.out.is_none()) {
    if (arguments.beta != 0 && !arguments.describe_only)
      value_error("beta needs out, whose elements it multiplies");
    desc.d.dtype = result_dtype(desc.a.dtype);
    if (arguments.describe_only) {
      desc.d.batch_stride = desc.m * desc.n;
      if (arguments.beta != 0) desc.c = desc.d;
      return;
    }
    result = new_array(target, arguments.a, result_ndim_, result_shape_, desc.d.dtype);
  } else {
    result = nb::borrow(arguments.out);
  }
  if (result_ndim_ == 0) {
    // A product of two vectors: an array without dimensions, of one element.
    out_.read(target, result.attr("reshape")(1), "out", true);
    out_.insert_dimension(0);
  } else {
    out_.read(target, result, "out", true);
    bool same = out_.ndim == result_ndim_;
    for (int i = 0; same && i < result_ndim_; ++i) same = out_.shape[i] == result_shape_[i];
    if (!same) {
      value_error("out is " + out_.describe() + ", but the result has M = " + number(desc.m) +
                  ", N = " + number(desc.n) + ", batch = " + number(desc.batch) + " and " +
                  number(result_ndim_) + " dimensions");
    }
  }
  while (out_.ndim < full_ndim_) out_.insert_dimension(inserted_at_);
  set_operand(desc.d, out_, "out", false, true);
  if (arguments.beta != 0) desc.c = desc.d;
}

void MatmulRequest::read_epilogue(const ProductArguments& arguments) {
  lathe_epilogue& epilogue = desc.epilogue;
  epilogue.alpha = static_cast<float>(arguments.alpha);
  epilogue.beta = static_cast<float>(arguments.beta);
  if (!arguments.activation.is_none())
    epilogue.activation =
        static_cast<lathe_activation>(value_of(kActivations, arguments.activation, "activation"));
  if (!arguments.bias.is_none())
    read_bias(target, bias_, arguments.bias, desc.n, epilogue.bias, epilogue.bias_dtype);
  if (arguments.residual.is_none()) return;
  if (result_ndim_ == 0) value_error("a product of two vectors takes no residual");
  residual_.read(target, arguments.residual, "residual");
  bool same = residual_.ndim == result_ndim_;
  for (int i = 0; same && i < result_ndim_; ++i) same = residual_.shape[i] == result_shape_[i];
  if (!same)
    value_error("residual is " + residual_.describe() + ", but must have the shape of the result, with M = " +
                number(desc.m) + " and N = " + number(desc.n));
  while (residual_.ndim < full_ndim_) residual_.insert_dimension(inserted_at_);
  set_operand(epilogue.residual, residual_, "residual", false, true);
}

LinearRequest::LinearRequest(nb::handle x, nb::handle weight, nb::handle bias, nb::handle out,
                             nb::handle math) {
  x_.read(target, x, "x", false, true);
  set_operand(desc.a, x_, "x");
  WeightForm form;
  if (nb::isinstance<PackedWeight>(weight) || nb::isinstance<QuantisedWeight>(weight)) {
    form = read_weight(target, desc.b, weight_, weight);
  } else {
    Array& array = weight_.array;
    array.read(target, weight, "weight");
    if (array.ndim != 2)
      value_error("weight is " + array.describe() + ", but must have two dimensions: (N, K)");
    std::swap(array.shape[0], array.shape[1]);
    std::swap(array.stride[0], array.stride[1]);
    set_operand(desc.b, array, "weight.T");
    form.k = array.shape[0];
    form.n = array.shape[1];
  }
  desc.m = x_.shape[0];
  desc.n = form.n;
  desc.k = form.k;
  if (x_.shape[1] != form.k)
    value_error("x has K = " + number(x_.shape[1]) + " columns, but the weight has K = " + number(form.k));
  desc.math = math.is_none() ? form.math : math_of(math);
  out_.read(target, out, "out", true, true);
  if (out_.shape[0] != desc.m || out_.shape[1] != desc.n)
    value_error("out is " + out_.describe() + ", but the result has M = " + number(desc.m) +
                " and N = " + number(desc.n));
  set_operand(desc.d, out_, "out", false, true);
  if (!bias.is_none()) read_bias(target, bias_, bias, desc.n, desc.epilogue.bias, desc.epilogue.bias_dtype);
}

MatmulArgmaxRequest::MatmulArgmaxRequest(const ProductArguments& arguments, nb::handle logits_dtype,
                                         bool want_values)
    : target(arguments.describe_only) {
  a_.read(target, arguments.a, "a");
  if (a_.ndim > 2)
    value_error("a is " + a_.describe() + ", but matmul_argmax takes no batch: reshape it to (M, K)");
  const bool vector = a_.ndim == 1;
  if (a_.ndim == 1) a_.insert_dimension(0);
  set_operand(desc.a, a_, "a");
  const WeightForm b = read_weight(target, desc.b, b_, arguments.b);
  if (b.ndim != 2) value_error("b must have two dimensions: (K, N)");
  desc.m = a_.shape[0];
  desc.n = b.n;
  desc.k = b.k;
  check_k(a_.shape[1], b.k);
  desc.math = arguments.math.is_none() ? b.math : math_of(arguments.math);
  desc.determinism =
      static_cast<lathe_determinism>(value_of(kDeterminism, arguments.determinism, "determinism"));
  desc.logits_dtype = dtype_argument(logits_dtype, is_sum_dtype(desc.a.dtype) ? desc.a.dtype : LATHE_F32);
  if (!arguments.bias.is_none()) read_bias(target, bias_, arguments.bias, desc.n, desc.bias, desc.bias_dtype);
  if (arguments.describe_only) return;
  indices = new_row_array(target, arguments.a, desc.m, LATHE_I64);
  indices_.read(target, indices, "the result", true);
  desc.indices = indices_.data;
  if (want_values) {
    values = new_row_array(target, arguments.a, desc.m, LATHE_F32);
    values_.read(target, values, "the result", true);
    desc.values = static_cast<float*>(values_.data);
  }
  if (!vector) return;
  indices = indices.attr("reshape")(nb::make_tuple());
  if (want_values) values = values.attr("reshape")(nb::make_tuple());
}

ArgmaxRequest::ArgmaxRequest(nb::handle x, bool want_values, bool describe_only) : target(describe_only) {
  x_.read(target, x, "x");
  if (x_.ndim > 2)
    value_error("x is " + x_.describe() + ", but argmax takes one or two dimensions: reshape it");
  const bool vector = x_.ndim == 1;
  if (x_.ndim == 1) x_.insert_dimension(0);
  set_operand(desc.x, x_, "x", false, true);
  desc.rows = x_.shape[0];
  desc.n = x_.shape[1];
  if (describe_only) return;
  indices = new_row_array(target, x, desc.rows, LATHE_I64);
  indices_.read(target, indices, "the result", true);
  desc.indices = indices_.data;
  if (want_values) {
    values = new_row_array(target, x, desc.rows, LATHE_F32);
    values_.read(target, values, "the result", true);
    desc.values = static_cast<float*>(values_.data);
  }
  if (!vector) return;
  indices = indices.attr("reshape")(nb::make_tuple());
  if (want_values) values = values.attr("reshape")(nb::make_tuple());
}

namespace {

const Named kGroupings[] = {{"offsets", LATHE_GROUPING_OFFSETS},
                            {"row_ids", LATHE_GROUPING_ROW_IDS},
                            {"counts", LATHE_GROUPING_COUNTS},
                            {"indexed", LATHE_GROUPING_INDEXED}};
const Named kGates[] = {{"none", LATHE_GATE_NONE}, {"silu", LATHE_GATE_SILU},
                        {"gelu", LATHE_GATE_GELU}, {"gelu_tanh", LATHE_GATE_GELU_TANH},
                        {"relu", LATHE_GATE_RELU}, {"clamped", LATHE_GATE_CLAMPED}};
const Named kGateLayouts[] = {{"halves", LATHE_GATE_HALVES}, {"interleaved", LATHE_GATE_INTERLEAVED}};

// Reads an array of `ndim` dimensions whose last one is contiguous.
void read_contiguous(Target& target, Array& array, nb::handle object, const char* name, lathe_dtype dtype,
                     int ndim) {
  array.read(target, object, name);
  if (array.dtype != dtype || (ndim != 0 && array.ndim != ndim))
    value_error(std::string(name) + " is " + array.describe() + ", but must be " + dtype_name(dtype) +
                (ndim == 0 ? "" : " of " + number(ndim) + " dimension" + (ndim == 1 ? "" : "s")));
  if (array.shape[array.ndim - 1] > 1 && array.stride[array.ndim - 1] != 1)
    value_error(std::string(name) + " is not contiguous. Pass numpy.ascontiguousarray(" + name + ")");
}

// The elements from a row to the next. The library takes 0 for contiguous rows, so repeated rows (numpy.broadcast_to)
// are refused.
int64_t row_distance(const Array& array, int rows, const char* name) {
  if (array.shape[rows] < 2) return 0;
  if (array.stride[rows] < array.shape[array.ndim - 1])
    value_error(std::string(name) + " is " + array.describe() +
                ", but Lathe reads rows that do not overlap, without negative strides. Pass "
                "numpy.ascontiguousarray(" +
                name + ")");
  return array.stride[rows];
}

}  // namespace

GroupedMatmulRequest::GroupedMatmulRequest(const GroupedArguments& arguments) {
  const WeightForm b = read_weight(target, desc.b, b_, arguments.b, arguments.b_scale, /*grouped=*/true);
  if (target.on_gpu())
    value_error("b is on " + device_name(target.place()) + ", but grouped products run on the CPU only");
  if (b.ndim != 3) value_error("b must have three dimensions: (groups, K, N)");
  desc.groups = b.batch;
  desc.n = b.n;
  desc.k = b.k;
  desc.math = arguments.math.is_none() ? b.math : math_of(arguments.math);
  desc.determinism =
      static_cast<lathe_determinism>(value_of(kDeterminism, arguments.determinism, "determinism"));
  desc.gate = static_cast<lathe_gate>(value_of(kGates, arguments.gate, "gate"));
  desc.gate_layout =
      static_cast<lathe_gate_layout>(value_of(kGateLayouts, arguments.gate_layout, "gate_layout"));
  desc.epilogue.alpha = static_cast<float>(arguments.alpha);
  desc.epilogue.activation =
      static_cast<lathe_activation>(value_of(kActivations, arguments.activation, "activation"));
  read_routing(arguments);
  read_a(arguments.a, scales_of(arguments.a_scale, "a_scale"));
  if (!arguments.bias.is_none()) {
    bias_.read(target, arguments.bias, "bias");
    if (bias_.ndim != 2 || bias_.shape[0] != desc.groups || bias_.shape[1] != desc.n)
      value_error("bias is " + bias_.describe() + ", but must have the shape (groups, N) = (" +
                  number(desc.groups) + ", " + number(desc.n) + ")");
    if ((desc.n > 1 && bias_.stride[1] != 1) || (desc.groups > 1 && bias_.stride[0] != desc.n))
      value_error("bias is not contiguous. Pass numpy.ascontiguousarray(bias)");
    desc.epilogue.bias = bias_.data;
    desc.epilogue.bias_dtype = bias_.dtype;
  }
  make_result(arguments.a);
}

void GroupedMatmulRequest::read_routing(const GroupedArguments& arguments) {
  read_contiguous(target, routing_, arguments.routing, "routing", LATHE_I32, 0);
  const bool indexed = routing_.ndim == 2;
  desc.grouping = arguments.grouping.is_none()
                      ? indexed ? LATHE_GROUPING_INDEXED : LATHE_GROUPING_ROW_IDS
                      : static_cast<lathe_grouping>(value_of(kGroupings, arguments.grouping, "grouping"));
  if (routing_.ndim != (desc.grouping == LATHE_GROUPING_INDEXED ? 2 : 1))
    value_error("routing is " + routing_.describe() +
                ", but must have two dimensions for grouping 'indexed' and one for the others");
  const int64_t wanted = desc.grouping == LATHE_GROUPING_OFFSETS  ? desc.groups + 1
                         : desc.grouping == LATHE_GROUPING_COUNTS ? desc.groups
                                                                  : routing_.shape[0];
  if (routing_.shape[0] != wanted)
    value_error("routing is " + routing_.describe() + ", but must have " + number(wanted) + " elements");
  desc.routing = static_cast<const int32_t*>(routing_.data);
  if (desc.grouping == LATHE_GROUPING_INDEXED) {
    desc.used = routing_.shape[1];
    desc.routing_stride = row_distance(routing_, 0, "routing");
  }
  if (arguments.router_weights.is_none()) return;
  read_contiguous(target, weights_, arguments.router_weights, "router_weights", LATHE_F32, 2);
  if (!indexed || weights_.shape[0] != routing_.shape[0] || weights_.shape[1] != routing_.shape[1])
    value_error("router_weights is " + weights_.describe() +
                ", but must have the shape of a routing (tokens, used)");
  desc.router_weights = static_cast<const float*>(weights_.data);
  desc.router_weights_stride = row_distance(weights_, 0, "router_weights");
}

void GroupedMatmulRequest::read_a(nb::handle a, const Scales* scales) {
  scales != nullptr ? a_.read_bytes(target, a, "a") : a_.read(target, a, "a");
  const bool counts = desc.grouping == LATHE_GROUPING_COUNTS,
             indexed = desc.grouping == LATHE_GROUPING_INDEXED;
  if (a_.ndim != (counts ? 3 : 2) && !(indexed && a_.ndim == 3))
    value_error("a is " + a_.describe() + ", but must have the shape " +
                (counts    ? "(groups, M, K)"
                 : indexed ? "(tokens, K) or (tokens, used, K)"
                           : "(M, K)"));
  if (a_.shape[a_.ndim - 1] > 1 && a_.stride[a_.ndim - 1] != 1)
    value_error("a has rows that are not contiguous. Pass numpy.ascontiguousarray(a)");
  // In lathe_grouped_matmul_desc a matrix of the batch is a group (counts) or a slot (indexed).
  const int rows = counts ? 1 : 0, matrices = counts ? 0 : 1;
  desc.m = a_.shape[rows];
  const int64_t expected = counts ? desc.groups : desc.used;
  if (a_.ndim == 3 && a_.shape[matrices] != expected)
    value_error("a is " + a_.describe() + ", but has " + (counts ? "groups" : "used") + " = " +
                number(expected));
  const bool by_row = indexed || desc.grouping == LATHE_GROUPING_ROW_IDS;
  if (by_row && routing_.shape[0] != desc.m)
    value_error("a has " + number(desc.m) + " rows, but routing is " + routing_.describe());
  desc.a.data = a_.data;
  desc.a.dtype = a_.dtype;
  desc.a.leading_dimension = row_distance(a_, rows, "a");
  desc.a.batch_stride = a_.ndim == 3 ? a_.stride[matrices] : 0;
  int64_t k = a_.shape[a_.ndim - 1];
  if (scales != nullptr) {
    ScalesInUse::Place place;
    place.lines = desc.m;
    place.matrices = a_.ndim == 3 ? expected : 1;
    place.matrix_dim = matrices;
    place.line_dim = rows;
    k = a_scales_.emplace().attach(target, *scales, a_, place, &desc.a);
  }
  check_k(k, desc.k);
}

void GroupedMatmulRequest::make_result(nb::handle like) {
  const bool counts = desc.grouping == LATHE_GROUPING_COUNTS;
  const bool slots = desc.grouping == LATHE_GROUPING_INDEXED && desc.router_weights == nullptr;
  const int64_t columns = desc.gate == LATHE_GATE_NONE ? desc.n : desc.n / 2;
  const int64_t with_batch[] = {counts ? desc.groups : desc.m, counts ? desc.m : desc.used, columns};
  const int64_t plain[] = {desc.m, columns};
  desc.d.dtype = result_dtype(desc.a.dtype);
  result = counts || slots ? new_array(target, like, 3, with_batch, desc.d.dtype)
                           : new_array(target, like, 2, plain, desc.d.dtype);
  out_.read(target, result, "the result", true);
  // Rows without a group are not written.
  const int64_t elements = out_.ndim == 3 ? out_.shape[0] * out_.shape[1] * columns : desc.m * columns;
  if (elements > 0) std::memset(out_.data, 0, static_cast<size_t>(elements * element_bytes(desc.d.dtype)));
  desc.d.data = out_.data;
  desc.d.leading_dimension = slots ? desc.used * columns : columns;
  desc.d.batch_stride = counts ? desc.m * columns : slots ? columns : 0;
}

PackedWeight::~PackedWeight() {
  if (data != nullptr && !owner.is_valid()) munmap(const_cast<char*>(data), bytes);
}

QuantisedWeight::QuantisedWeight(nb::object source, const std::string& dtype_text_, nb::tuple shape_)
    : dtype_text(dtype_text_), buffer(std::move(source)), shape(std::move(shape_)) {
  dtype = dtype_of_name(dtype_text);
  if (nb::len(shape) >= 2) {
    batched = nb::len(shape) == 3;
    if (nb::len(shape) > 3) value_error("a weight has at most three dimensions");
    batch = batched ? nb::cast<int64_t>(shape[0]) : 1;
    n = nb::cast<int64_t>(shape[batched ? 1 : 0]);
    k = nb::cast<int64_t>(shape[batched ? 2 : 1]);
  }
  if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  data = static_cast<const char*>(view.buf);
  bytes = static_cast<size_t>(view.len);
  if (dtype == LATHE_DTYPE_NONE || nb::len(shape) < 2) return;
  const Block block = block_of(dtype);
  const bool whole = n >= 0 && k > 0 && batch >= 0 && k % block.elements == 0;
  const int64_t row = whole ? k / block.elements * block.bytes : 0;
  int64_t wanted = 0;
  if (!whole || __builtin_mul_overflow(row, n, &wanted) || __builtin_mul_overflow(wanted, batch, &wanted) ||
      static_cast<size_t>(wanted) != bytes) {
    PyBuffer_Release(&view);
    value_error("a weight of dtype " + dtype_text + " and shape " + nb::cast<std::string>(nb::str(shape)) +
                " has " +
                (whole ? number(wanted) + " bytes" : "rows of whole blocks of " + number(block.elements)) +
                ", but the buffer has " + number(static_cast<int64_t>(view.len)) + " bytes");
  }
}

}  // namespace lathe_python
