#include "reference/op_request.h"

#include <tuple>

namespace lathe::cli {

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

MatmulForms forms_of(const MatmulRequest& r) {
  OperandForm form;
  form.padding = r.padding;
  form.misalign = r.misalign;
  form.batch = r.batch;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    OperandForm f = form;
    f.dtype = dtype;
    f.rows = rows;
    f.columns = columns;
    return f;
  };
  MatmulForms forms;
  forms.a = matrix(r.dtype, r.m, r.k);
  forms.a.transposed = r.trans_a;
  forms.a.broadcast = r.broadcast_a;
  forms.b = matrix(r.weight_dtype(), r.k, r.n);
  // The padding is a multiple of whole blocks.
  const int64_t block = block_elements(r.weight_dtype());
  forms.b.padding = (r.padding + block - 1) / block * block;
  forms.b.transposed = r.trans_b;
  forms.b.broadcast = r.broadcast_b;
  forms.d = matrix(r.out_dtype, r.m, r.n);
  if (r.beta != 0) forms.c = forms.d;
  if (r.residual) forms.residual = forms.d;
  if (r.bias) {
    forms.bias = matrix(r.out_dtype, 1, r.n);
    forms.bias.batch = 1;
  }
  return forms;
}

bool ArgmaxRequest::operator==(const ArgmaxRequest& o) const {
  const auto fields = [](const ArgmaxRequest& r) { return std::tie(r.rows, r.n, r.dtype); };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

ArgmaxForms forms_of(const ArgmaxRequest& r) {
  ArgmaxForms forms;
  forms.x.dtype = r.dtype;
  forms.x.rows = r.rows;
  forms.x.columns = r.n;
  forms.x.padding = r.padding;
  forms.x.misalign = r.misalign;
  forms.indices.dtype = r.index_dtype;
  forms.indices.rows = 1;
  forms.indices.columns = r.rows;
  forms.indices.misalign = r.misalign;
  if (r.values) {
    forms.values = forms.indices;
    forms.values.dtype = LATHE_F32;
  }
  return forms;
}

bool MatmulArgmaxRequest::operator==(const MatmulArgmaxRequest& o) const {
  const auto fields = [](const MatmulArgmaxRequest& r) {
    return std::tie(r.m, r.n, r.k, r.dtype, r.b_dtype, r.logits_dtype, r.math, r.trans_a, r.trans_b, r.bias);
  };
  return IndicesRequest::operator==(o) && fields(*this) == fields(o);
}

MatmulArgmaxForms forms_of(const MatmulArgmaxRequest& r) {
  OperandForm form;
  form.misalign = r.misalign;
  const auto matrix = [&](lathe_dtype dtype, int64_t rows, int64_t columns) {
    OperandForm f = form;
    f.dtype = dtype;
    f.rows = rows;
    f.columns = columns;
    return f;
  };
  MatmulArgmaxForms forms;
  forms.indices = matrix(r.index_dtype, 1, r.m);
  if (r.values) forms.values = matrix(LATHE_F32, 1, r.m);
  if (r.bias) forms.bias = matrix(r.logits_dtype, 1, r.n);
  form.padding = r.padding;
  forms.a = matrix(r.dtype, r.m, r.k);
  forms.a.transposed = r.trans_a;
  forms.b = matrix(r.weight_dtype(), r.k, r.n);
  forms.b.transposed = r.trans_b;
  return forms;
}

}  // namespace lathe::cli
