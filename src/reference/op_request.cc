#include "reference/op_request.h"

#include <tuple>

namespace lathe::reference {

OperandSpec matrix_spec(OperandSpec common, lathe_dtype dtype, int64_t rows, int64_t columns) {
  common.dtype = dtype;
  common.rows = rows;
  common.columns = columns;
  return common;
}

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

}  // namespace lathe::reference
