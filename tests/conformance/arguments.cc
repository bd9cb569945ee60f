#include "arguments.h"

namespace lathe::conformance {
namespace {

int64_t leading(const lathe_operand& o, int64_t rows, int64_t columns) {
  return o.leading_dimension ? o.leading_dimension : o.layout == LATHE_COLUMN_MAJOR ? rows : columns;
}

}  // namespace

ArgumentBlock arguments_of(const lathe_matmul_desc& d) {
  ArgumentBlock args;
  args.a = d.a.data;
  args.b = d.b.data;
  args.c = d.c.data;
  args.d = d.d.data;
  args.bias = const_cast<void*>(d.epilogue.bias);
  args.residual = d.epilogue.residual.data;
  if (d.a.scale) args.scale_a = const_cast<void*>(d.a.scale->data);
  if (d.b.scale) args.scale_b = const_cast<void*>(d.b.scale->data);
  args.zero_a = const_cast<void*>(d.a.zero_point);
  args.zero_b = const_cast<void*>(d.b.zero_point);
  args.lda = leading(d.a, d.m, d.k);
  args.ldb = leading(d.b, d.k, d.n);
  args.ldc = leading(d.c, d.m, d.n);
  args.ldd = leading(d.d, d.m, d.n);
  args.ldr = leading(d.epilogue.residual, d.m, d.n);
  args.stride_a = d.a.batch_stride;
  args.stride_b = d.b.batch_stride;
  args.stride_c = d.c.batch_stride;
  args.stride_d = d.d.batch_stride;
  args.stride_r = d.epilogue.residual.batch_stride;
  args.m = static_cast<int32_t>(d.m);
  args.n = static_cast<int32_t>(d.n);
  args.k = static_cast<int32_t>(d.k);
  args.batch = static_cast<int32_t>(d.batch);
  args.alpha = d.epilogue.alpha;
  args.beta = d.epilogue.beta;
  return args;
}

ArgumentBlock arguments_of(const lathe_argmax_desc& d) {
  ArgumentBlock args;
  args.a = d.x.data;
  args.d = d.indices;
  args.values = d.values;
  args.lda = leading(d.x, d.rows, d.n);
  args.index_offset = d.index_offset;
  args.m = static_cast<int32_t>(d.rows);
  args.n = static_cast<int32_t>(d.n);
  args.batch = 1;
  return args;
}

ArgumentBlock arguments_of(const lathe_matmul_argmax_desc& d) {
  ArgumentBlock args;
  args.a = d.a.data;
  args.b = d.b.data;
  args.d = d.indices;
  args.values = d.values;
  args.bias = const_cast<void*>(d.bias);
  args.lda = leading(d.a, d.m, d.k);
  args.ldb = leading(d.b, d.k, d.n);
  args.index_offset = d.index_offset;
  args.m = static_cast<int32_t>(d.m);
  args.n = static_cast<int32_t>(d.n);
  args.k = static_cast<int32_t>(d.k);
  args.batch = 1;
  args.alpha = 1;
  return args;
}

}  // namespace lathe::conformance
