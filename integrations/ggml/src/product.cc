#include "product.h"

#include "ggml-impl.h"
#include "weights.h"

namespace lathe_ggml {
namespace {

// One dimension of an operand beyond its rows: how many, and how many bytes apart.
struct Extent {
  int64_t count, bytes;
};

int64_t elements_in(const ggml_tensor* t, int64_t bytes) {
  return bytes / static_cast<int64_t>(ggml_type_size(t->type)) * ggml_blck_size(t->type);
}

bool whole_elements(const ggml_tensor* t) {
  for (int i = 1; i < GGML_MAX_DIMS; ++i) {
    if (t->nb[i] % ggml_type_size(t->type) != 0) return false;
  }
  return true;
}

// Sets layout and leading dimension of an operand whose lines along ne[0] are `lines`. `along` is the layout if the
// elements of ne[0] follow each other in memory, `across` if those of the lines do.
const char* set_layout(const ggml_tensor* t, const Extent& lines, lathe_layout along, lathe_layout across,
                       lathe_operand* out) {
  const int64_t size = static_cast<int64_t>(ggml_type_size(t->type));
  const int64_t row = static_cast<int64_t>(ggml_row_size(t->type, t->ne[0]));
  const int64_t step = static_cast<int64_t>(t->nb[0]);
  out->dtype = dtype_of(t->type);
  if (step == size || t->ne[0] <= 1) {
    if (lines.count > 1 && lines.bytes < row) return "rows overlap";
    out->layout = along;
    out->leading_dimension = elements_in(t, lines.bytes);
    return nullptr;
  }
  if (is_block_format(t->type)) return "the blocks of a row do not follow each other";
  if (lines.count > 1 && lines.bytes != size) return "neither rows nor columns are contiguous";
  if (step % size != 0 || step < lines.count * size) return "columns overlap";
  out->layout = across;
  out->leading_dimension = step / size;
  return nullptr;
}

const char* check_types(const ggml_tensor* node) {
  const ggml_type w = node->src[0]->type, x = node->src[1]->type;
  if (ggml_get_op_params_i32(node, 1) == GGML_HINT_SRC0_IS_HADAMARD) return "a Hadamard transform";
  if (node->type != GGML_TYPE_F32) return "the result is not f32";
  if (dtype_of(w) == LATHE_DTYPE_NONE) return "Lathe has no kernels for weights of this type";
  if (x == GGML_TYPE_F32) return nullptr;
  if ((x == GGML_TYPE_F16 || x == GGML_TYPE_BF16) && (x == w || is_block_format(w))) return nullptr;
  return "Lathe has no kernels for this pair of types";
}

// Sets B to the matrices of `w`, which lie `matrix_bytes` apart.
const char* place_weights(const ggml_tensor* w, lathe_operand* b, int64_t* matrix_bytes) {
  *matrix_bytes = static_cast<int64_t>(w->nb[2]);
  b->data = w->data;
  if (const Weight* weight = packed_weight(w)) return place_packed(*weight, w, b, matrix_bytes);
  return set_layout(w, {w->ne[1], static_cast<int64_t>(w->nb[1])}, LATHE_COLUMN_MAJOR, LATHE_ROW_MAJOR, b);
}

// Merges dimensions that follow each other without a gap, and drops those of one element. Returns how many are left.
int merge(Extent* extents, int count) {
  int left = 0;
  for (int i = 0; i < count; ++i) {
    if (extents[i].count == 1) continue;
    if (left > 0 && extents[i].bytes == extents[left - 1].bytes * extents[left - 1].count) {
      extents[left - 1].count *= extents[i].count;
    } else {
      extents[left++] = extents[i];
    }
  }
  for (int i = left; i < count; ++i) extents[i] = {1, 0};
  return left;
}

lathe_math math_of(const ggml_tensor* node) {
  if (is_block_format(node->src[0]->type)) return LATHE_MATH_INT8;
  const bool exact = ggml_get_op_params_i32(node, 0) == GGML_PREC_F32;
  return node->src[0]->type == GGML_TYPE_BF16 && !exact ? LATHE_MATH_BF16 : LATHE_MATH_STRICT;
}

// One matrix of weights: all rows of x in all dimensions multiply it.
void share_one_weight(const ggml_tensor* node, Extent* rows, Product* p) {
  const ggml_tensor* x = node->src[1];
  Extent extents[] = {
      *rows, {x->ne[2], static_cast<int64_t>(x->nb[2])}, {x->ne[3], static_cast<int64_t>(x->nb[3])}};
  merge(extents, 3);
  *rows = extents[0];
  const int64_t line = static_cast<int64_t>(node->nb[1]);  // the result is contiguous
  p->desc.batch = extents[1].count;
  p->desc.a.batch_stride = elements_in(x, extents[1].bytes);
  p->desc.d.batch_stride = elements_in(node, rows->count * line);
  p->outer = extents[2].count;
  p->outer_step.a = extents[2].bytes;
  p->outer_step.d = rows->count * extents[1].count * line;
}

// Several matrices of weights; each serves `shared` matrices of x that follow each other.
void batch_weights(const ggml_tensor* node, Extent* rows, int64_t matrix_bytes, int64_t plane_bytes,
                   Product* p) {
  const ggml_tensor *w = node->src[0], *x = node->src[1];
  const int64_t shared = x->ne[2] / w->ne[2];
  p->outer = x->ne[3];
  p->outer_shared = x->ne[3] / w->ne[3];
  p->outer_step = {static_cast<int64_t>(x->nb[3]), plane_bytes, static_cast<int64_t>(node->nb[3])};
  const Product::Step matrix{shared * static_cast<int64_t>(x->nb[2]), matrix_bytes,
                             shared * static_cast<int64_t>(node->nb[2])};
  // A single row per matrix: the matrices that share a weight are its rows.
  const bool as_rows = x->ne[1] == 1 && shared > 1;
  if (as_rows) *rows = {shared, static_cast<int64_t>(x->nb[2])};
  const bool packed = p->desc.b.packed_layout != 0;
  if ((as_rows || shared == 1) && !packed) {
    p->desc.batch = w->ne[2];
    p->desc.a.batch_stride = elements_in(x, matrix.a);
    p->desc.b.batch_stride = elements_in(w, matrix.b);
    p->desc.d.batch_stride = elements_in(node, matrix.d);
    return;
  }
  p->inner = w->ne[2];
  p->inner_step = matrix;
  if (as_rows) return;
  p->desc.batch = shared;
  p->desc.a.batch_stride = elements_in(x, static_cast<int64_t>(x->nb[2]));
  p->desc.d.batch_stride = elements_in(node, static_cast<int64_t>(node->nb[2]));
}

void* moved(void* data, int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<char*>(data) + bytes;
}

}  // namespace

lathe_dtype dtype_of(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32: return LATHE_F32;
    case GGML_TYPE_F16: return LATHE_F16;
    case GGML_TYPE_BF16: return LATHE_BF16;
    case GGML_TYPE_Q4_0: return LATHE_Q4_0;
    case GGML_TYPE_Q8_0: return LATHE_Q8_0;
    case GGML_TYPE_Q4_1: return LATHE_Q4_1;
    case GGML_TYPE_Q5_0: return LATHE_Q5_0;
    case GGML_TYPE_Q5_1: return LATHE_Q5_1;
    case GGML_TYPE_Q4_K: return LATHE_Q4_K;
    case GGML_TYPE_Q5_K: return LATHE_Q5_K;
    case GGML_TYPE_Q6_K: return LATHE_Q6_K;
    case GGML_TYPE_IQ4_NL: return LATHE_IQ4_NL;
    case GGML_TYPE_IQ4_XS: return LATHE_IQ4_XS;
    case GGML_TYPE_MXFP4: return LATHE_MXFP4;
    default: return LATHE_DTYPE_NONE;
  }
}

bool is_block_format(ggml_type type) { return ggml_blck_size(type) > 1; }

lathe_matmul_desc weight_desc(ggml_type type, int64_t n, int64_t k) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1, desc.n = n, desc.k = k;
  desc.a.dtype = desc.d.dtype = LATHE_F32;
  desc.b.dtype = dtype_of(type);
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.math = is_block_format(type)    ? LATHE_MATH_INT8
              : type == GGML_TYPE_BF16 ? LATHE_MATH_BF16
                                       : LATHE_MATH_STRICT;
  return desc;
}

const char* read_product(const ggml_tensor* node, Product* product) {
  const ggml_tensor *w = node->src[0], *x = node->src[1];
  if (const char* why = check_types(node)) return why;
  if (!whole_elements(w) || !whole_elements(x)) return "distances are not whole elements";
  if (!ggml_is_contiguous(node)) return "the result is not contiguous";
  Product& p = *product;
  p = Product();
  p.desc.n = w->ne[1], p.desc.k = w->ne[0];
  p.desc.math = math_of(node);
  p.desc.d.dtype = LATHE_F32;
  p.desc.a.data = x->data, p.desc.d.data = node->data;
  p.of_weight = is_weight(w);
  int64_t matrix_bytes = 0;
  if (const char* why = place_weights(w, &p.desc.b, &matrix_bytes)) return why;
  const int64_t plane_bytes =
      p.desc.b.packed_layout != 0 ? matrix_bytes * w->ne[2] : static_cast<int64_t>(w->nb[3]);
  Extent rows{x->ne[1], static_cast<int64_t>(x->nb[1])};
  if (w->ne[2] * w->ne[3] == 1) {
    share_one_weight(node, &rows, &p);
  } else {
    batch_weights(node, &rows, matrix_bytes, plane_bytes, &p);
  }
  p.desc.m = rows.count;
  if (const char* why = set_layout(x, rows, LATHE_ROW_MAJOR, LATHE_COLUMN_MAJOR, &p.desc.a)) return why;
  if (p.desc.b.packed_layout != 0 && is_block_format(w->type) && p.desc.a.layout == LATHE_COLUMN_MAJOR)
    return "the weight is packed in blocks, and the activations are transposed";
  p.desc.d.leading_dimension = p.desc.n;
  if (p.desc.batch <= 1) p.desc.a.batch_stride = p.desc.b.batch_stride = p.desc.d.batch_stride = 0;
  return nullptr;
}

lathe_status run_product(const Product& p,
                         const std::function<lathe_status(const lathe_matmul_desc&)>& multiply) {
  if (p.outer == 1 && p.inner == 1) return multiply(p.desc);
  lathe_matmul_desc desc = p.desc;
  for (int64_t i = 0; i < p.outer; ++i) {
    for (int64_t j = 0; j < p.inner; ++j) {
      desc.a.data = moved(p.desc.a.data, i * p.outer_step.a + j * p.inner_step.a);
      desc.b.data = moved(p.desc.b.data, i / p.outer_shared * p.outer_step.b + j * p.inner_step.b);
      desc.d.data = moved(p.desc.d.data, i * p.outer_step.d + j * p.inner_step.d);
      if (const lathe_status status = multiply(desc); status != LATHE_OK) return status;
    }
  }
  return LATHE_OK;
}

const char* read_grouped(const ggml_tensor* node, lathe_grouped_matmul_desc* desc) {
  const ggml_tensor *w = node->src[0], *x = node->src[1], *ids = node->src[2];
  if (const char* why = check_types(node)) return why;
  if (!whole_elements(w) || !whole_elements(x)) return "distances are not whole elements";
  if (x->nb[0] != ggml_type_size(x->type) || node->nb[0] != sizeof(float) || ids->nb[0] != sizeof(int32_t))
    return "rows are not contiguous";
  const int64_t used = ids->ne[0], tokens = ids->ne[1];
  if (x->ne[1] != 1 && x->ne[1] != used) return "several slots of a token share a row";
  lathe_grouped_matmul_desc& d = *desc;
  d = LATHE_GROUPED_MATMUL_DESC_INIT;
  d.grouping = LATHE_GROUPING_INDEXED;
  d.m = tokens, d.n = w->ne[1], d.k = w->ne[0], d.groups = w->ne[2], d.used = used;
  d.routing = static_cast<const int32_t*>(ids->data);
  d.routing_stride = tokens > 1 ? static_cast<int64_t>(ids->nb[1] / sizeof(int32_t)) : 0;
  d.math = math_of(node);
  int64_t matrix_bytes = 0;
  if (const char* why = place_weights(w, &d.b, &matrix_bytes)) return why;
  d.b.batch_stride = elements_in(w, matrix_bytes);
  d.a.data = x->data, d.a.dtype = dtype_of(x->type);
  d.a.leading_dimension = elements_in(x, static_cast<int64_t>(x->nb[2]));
  d.a.batch_stride = x->ne[1] == 1 ? 0 : elements_in(x, static_cast<int64_t>(x->nb[1]));
  d.d.data = node->data, d.d.dtype = LATHE_F32;
  d.d.leading_dimension = elements_in(node, static_cast<int64_t>(node->nb[2]));
  d.d.batch_stride = elements_in(node, static_cast<int64_t>(node->nb[1]));
  return nullptr;
}

const char* read_argmax(const ggml_tensor* node, lathe_argmax_desc* desc) {
  const ggml_tensor* x = node->src[0];
  if (x->type != GGML_TYPE_F32 || node->type != GGML_TYPE_I32) return "not f32 values and i32 indices";
  if (!ggml_is_contiguous_1(x)) return "rows are not contiguous";
  *desc = LATHE_ARGMAX_DESC_INIT;
  desc->rows = ggml_nrows(x), desc->n = x->ne[0];
  desc->x.data = x->data, desc->x.dtype = LATHE_F32;
  desc->x.leading_dimension = x->ne[1] > 1 ? static_cast<int64_t>(x->nb[1] / sizeof(float)) : x->ne[0];
  if (ggml_nrows(x) != x->ne[1] && !ggml_is_contiguous(x)) return "rows are not contiguous";
  desc->indices = node->data, desc->index_dtype = LATHE_I32;
  return nullptr;
}

}  // namespace lathe_ggml
