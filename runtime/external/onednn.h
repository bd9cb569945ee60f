// The functions that Lathe takes from oneDNN, and the key of a primitive.
#pragma once

#include <tuple>

#include "runtime/external/library.h"

namespace lathe::onednn {

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
struct Argument {
  int index;
  void* memory;
};

// Pointers refer to opaque objects or, in release 2, to structs that the caller allocates.
struct Functions {
  int major = 0;
  // Release 2.
  int (*init_by_strides)(void* description, int dims, const int64_t* sizes, int type,
                         const int64_t* strides) = nullptr;
  int (*matmul_init)(void* operation, const void* a, const void* b, const void* bias,
                     const void* d) = nullptr;
  int (*create2)(void** description, const void* operation, const void* attributes, void* engine,
                 const void* hint) = nullptr;
  int (*append_eltwise2)(void* post_ops, float scale, int kind, float alpha, float beta) = nullptr;
  int (*append_sum2)(void* post_ops, float scale) = nullptr;
  // Release 3.
  int (*create_with_strides)(void** description, int dims, const int64_t* sizes, int type,
                             const int64_t* strides) = nullptr;
  int (*description_destroy)(void*) = nullptr;
  int (*create3)(void** description, void* engine, const void* a, const void* b, const void* bias,
                 const void* d, const void* attributes) = nullptr;
  int (*append_eltwise3)(void* post_ops, int kind, float alpha, float beta) = nullptr;
  int (*append_sum3)(void* post_ops, float scale, int32_t zero_point, int type) = nullptr;
  // Both.
  int (*engine_create)(void**, int kind, size_t index) = nullptr;
  int (*engine_destroy)(void*) = nullptr;
  int (*stream_create)(void**, void* engine, unsigned flags) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*stream_wait)(void*) = nullptr;
  int (*attributes_create)(void**) = nullptr;
  int (*attributes_destroy)(void*) = nullptr;
  int (*set_post_ops)(void* attributes, const void* post_ops) = nullptr;
  int (*set_scratchpad)(void* attributes, int mode) = nullptr;
  int (*set_math)(void* attributes, int mode) = nullptr;
  int (*post_ops_create)(void**) = nullptr;
  int (*post_ops_destroy)(void*) = nullptr;
  int (*append_binary)(void* post_ops, int kind, const void* description) = nullptr;
  int (*primitive_description_destroy)(void*) = nullptr;
  const void* (*query_description)(const void*, int what, int index) = nullptr;
  size_t (*description_bytes)(const void*) = nullptr;
  int (*primitive_create)(void**, const void* description) = nullptr;
  int (*primitive_destroy)(void*) = nullptr;
  int (*memory_create)(void**, const void* description, void* engine, void* data) = nullptr;
  int (*memory_destroy)(void*) = nullptr;
  int (*memory_set)(void*, void* data) = nullptr;
  int (*execute)(const void* primitive, void* stream, int count, const Argument*) = nullptr;
  // OpenMP's functions; null in a sequential build.
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
};

// Everything that a primitive depends on.
struct Shape {
  int64_t m, n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d;
  int32_t threads;
  float alpha, beta;

  auto fields() const {
    return std::tie(m, n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d, threads, alpha, beta);
  }
  bool operator==(const Shape& o) const { return fields() == o.fields(); }
};

}  // namespace lathe::onednn
