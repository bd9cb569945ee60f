#include "reference/op_request.h"

#include <tuple>

namespace lathe::cli {
namespace {

// `common` has the padding, the misalignment and the batch.
OperandSpec matrix_spec(OperandSpec common, lathe_dtype dtype, int64_t rows, int64_t columns) {
  common.dtype = dtype;
  common.rows = rows;
  common.columns = columns;
  return common;
}

}  // namespace

bool OpRequest::operator==(const OpRequest& o) const {
  const auto fields = [](const OpRequest& r) {
    return std::tie(r.determinism, r.dependent_launch, r.split_k, r.candidate, r.padding, r.misalign, r.fill);
  };
  return fields(*this) == fields(o);
}

bool IndicesRequest::operator==(const IndicesRequest& o) const {
  const auto fields = [](const IndicesRequest& r) {
    return std::tie(r.index_dtype, r.values, r.index_offset);
  };
  return OpRequest::operator==(o) && fields(*this) == fields(o);
}

bool MatmulRequest::operator==(const MatmulRequest& o) const {
  const auto fields = [](const MatmulRequest& r) {
    return std::tie(r.m, r.n, r.k, r.batch, r.dtype, r.b_dtype, r.out_dtype, r.math, r.trans_a, r.trans_b,
                    r.alpha, r.beta, r.bias, r.residual, r.activation, r.packed, r.c_in_place,
                    r.residual_in_place, r.broadcast_a, r.broadcast_b);
  };
  return OpRequest::operator==(o) && fields(*this) == fields(o);
}

lathe_dtype default_result(lathe_dtype dtype) {
  return dtype == LATHE_I8 || is_f8(dtype) ? LATHE_F32 : dtype;
}

MatmulSpecs specs_of(const MatmulRequest& r) {
  OperandSpec spec;
  spec.padding = r.padding;
  spec.misalign = r.misalign;
  spec.batch = r.batch;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    return matrix_spec(spec, dtype, rows, columns);
  };
  MatmulSpecs specs;
  specs.a = matrix(r.dtype, r.m, r.k);
  specs.a.transposed = r.trans_a;
  specs.a.broadcast = r.broadcast_a;
  specs.b = matrix(r.weight_dtype(), r.k, r.n);
  // The padding is a multiple of whole blocks.
  const int64_t block = block_elements(r.weight_dtype());
  specs.b.padding = (r.padding + block - 1) / block * block;
  specs.b.transposed = r.trans_b;
  specs.b.broadcast = r.broadcast_b;
  specs.d = matrix(r.out_dtype, r.m, r.n);
  if (r.beta != 0) specs.c = specs.d;
  if (r.residual) specs.residual = specs.d;
  if (r.bias) {
    specs.bias = matrix(r.out_dtype, 1, r.n);
    specs.bias.batch = 1;
  }
  return specs;
}

bool ArgmaxRequest::operator==(const ArgmaxRequest& o) const {
  const auto fields = [](const ArgmaxRequest& r) { return std::tie(r.rows, r.n, r.dtype); };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

ArgmaxSpecs specs_of(const ArgmaxRequest& r) {
  ArgmaxSpecs specs;
  specs.x.dtype = r.dtype;
  specs.x.rows = r.rows;
  specs.x.columns = r.n;
  specs.x.padding = r.padding;
  specs.x.misalign = r.misalign;
  specs.indices.dtype = r.index_dtype;
  specs.indices.rows = 1;
  specs.indices.columns = r.rows;
  specs.indices.misalign = r.misalign;
  if (r.values) {
    specs.values = specs.indices;
    specs.values.dtype = LATHE_F32;
  }
  return specs;
}

bool MatmulArgmaxRequest::operator==(const MatmulArgmaxRequest& o) const {
  const auto fields = [](const MatmulArgmaxRequest& r) {
    return std::tie(r.m, r.n, r.k, r.dtype, r.b_dtype, r.logits_dtype, r.math, r.trans_a, r.trans_b, r.bias);
  };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

MatmulArgmaxSpecs specs_of(const MatmulArgmaxRequest& r) {
  OperandSpec spec;
  spec.misalign = r.misalign;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    return matrix_spec(spec, dtype, rows, columns);
  };
  MatmulArgmaxSpecs specs;
  specs.indices = matrix(r.index_dtype, 1, r.m);
  if (r.values) specs.values = matrix(LATHE_F32, 1, r.m);
  if (r.bias) specs.bias = matrix(r.logits_dtype, 1, r.n);
  spec.padding = r.padding;
  specs.a = matrix(r.dtype, r.m, r.k);
  specs.a.transposed = r.trans_a;
  specs.b = matrix(r.weight_dtype(), r.k, r.n);
  specs.b.transposed = r.trans_b;
  return specs;
}

}  // namespace lathe::cli
