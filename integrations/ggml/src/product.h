// Reads a MUL_MAT, MUL_MAT_ID or ARGMAX node of a ggml graph as calls of Lathe.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <functional>

#include "ggml.h"

namespace lathe_ggml {

// LATHE_DTYPE_NONE: Lathe has no kernels for this type.
lathe_dtype dtype_of(ggml_type type);
bool is_block_format(ggml_type type);

// A MUL_MAT as outer * inner calls of lathe_matmul. Call (i, j) moves the operands by i * outer_step + j * inner_step
// bytes; the weight of an outer step is shared by `outer_shared` of them.
struct Product {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  int64_t outer = 1, inner = 1, outer_shared = 1;
  struct Step {
    int64_t a = 0, b = 0, d = 0;
  } outer_step, inner_step;
  bool of_weight = false;  // B lies in a buffer of weights, so N and K stay the same from graph to graph
};

// Returns NULL and fills `product`, or returns why Lathe cannot express the node. Reads no data; data may be NULL.
const char* read_product(const ggml_tensor* node, Product* product);
// Calls multiply(desc) for each call of the product. Returns the status of the first one that failed.
lathe_status run_product(const Product& product,
                         const std::function<lathe_status(const lathe_matmul_desc&)>& multiply);

// MUL_MAT_ID: each token's rows by the matrices of its experts.
const char* read_grouped(const ggml_tensor* node, lathe_grouped_matmul_desc* desc);

const char* read_argmax(const ggml_tensor* node, lathe_argmax_desc* desc);

// The weight of `product` alone: what lathe_packed_layout, lathe_pack_weights and a manifest read.
lathe_matmul_desc weight_desc(ggml_type type, int64_t n, int64_t k);

}  // namespace lathe_ggml
