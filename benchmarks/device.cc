#include <cstdio>

#include "options.h"

namespace lathe::bench {

bool succeeded(lathe_status status, const char* what) {
  if (status == LATHE_OK) return true;
  std::fprintf(stderr, "%s: %s: %s\n", what, lathe_status_name(status), lathe_last_error());
  return false;
}

namespace {

lathe_context_options context_options(int workers, const std::string& cache_directory) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.workers = workers;
  options.cache_dir = cache_directory.c_str();
  return options;
}

}  // namespace

BenchDevice::BenchDevice(int workers, const std::string& cache_directory)
    : BenchDevice(context_options(workers, cache_directory)) {}

BenchDevice::BenchDevice(const lathe_context_options& options) {
  if (!succeeded(lathe_context_create(&options, &context_), "lathe_context_create")) return;
  succeeded(lathe_device_open(context_, "cpu", &device_), "lathe_device_open");
}

BenchDevice::~BenchDevice() {
  lathe_device_close(device_);
  lathe_context_destroy(context_);
}

lathe_statistics BenchDevice::statistics() const {
  lathe_statistics statistics = LATHE_STATISTICS_INIT;
  succeeded(lathe_context_statistics(context_, &statistics), "lathe_context_statistics");
  return statistics;
}

lathe_matmul_desc linear(const Gemm& gemm, const void* a, const void* b, void* d) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = gemm.m;
  desc.n = gemm.n;
  desc.k = gemm.k;
  desc.a.dtype = dtype_of(activations_of(gemm.element));
  desc.b.dtype = dtype_of(gemm.element);
  if (gemm.element == Element::kQ4Int8) desc.math = LATHE_MATH_INT8;
  if (gemm.element == Element::kBF16Rounded) desc.math = LATHE_MATH_BF16;
  desc.d.dtype = gemm.element == Element::kI8 ? LATHE_I32 : LATHE_F32;
  desc.a.data = const_cast<void*>(a);
  desc.b.data = const_cast<void*>(b);
  desc.b.layout = gemm.trans_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.d.data = d;
  desc.batch = gemm.batch;
  if (gemm.batch != 1) {
    desc.a.batch_stride = gemm.m * gemm.k;
    desc.b.batch_stride = gemm.n * gemm.k;
    desc.d.batch_stride = gemm.m * gemm.n;
  }
  return desc;
}

}  // namespace lathe::bench
