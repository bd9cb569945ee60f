// The buffer type for weights. A tensor that Lathe can pack is packed when its data is set; the original is not kept.
// Every other tensor is stored as it is. The memory is the host's, but the type is no "host" buffer for ggml, because
// packed data has an order of its own.
#pragma once

#include <lathe/lathe.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace lathe_ggml {

// What is known of a tensor in a buffer of this type; its `extra`.
struct Weight {
  ggml_type type;
  int64_t n, k, matrices;
  const char* name;  // the tensor's
  void* data;
  uint32_t packed_layout = 0;                     // 0: stored as it is
  size_t packed_matrix = 0;                       // bytes of one packed matrix
  bool packed = false;                            // `data` is in the packed layout
  std::vector<char> pieces;                       // data that came so far, if it comes in pieces
  std::vector<std::pair<size_t, size_t>> ranges;  // which bytes of `pieces` are set; sorted, disjoint
  std::atomic<int64_t> m_max{0};  // the largest number of rows that a graph multiplies; 0: not seen yet
};

ggml_backend_buffer_type_t weight_buffer_type(ggml_backend_dev_t device);
bool is_weight_buffer_type(ggml_backend_buffer_type_t buft);

// Whether the tensor (or the one that it is a view of) lies in a buffer that is marked as weights.
bool is_weight(const ggml_tensor* tensor);
// The weight that `tensor` is, or is a part of; NULL if it is in no buffer of this type.
Weight* weight_of(const ggml_tensor* tensor);
// The same, but NULL if it is stored as it is.
Weight* packed_weight(const ggml_tensor* tensor);
// Sets b to the packed matrices that `tensor` shows. Returns why not, if these are not whole matrices.
const char* place_packed(const Weight& weight, const ggml_tensor* tensor, lathe_operand* b,
                         int64_t* matrix_bytes);
// Whether data of this tensor was announced, but not all of it has come.
bool is_incomplete(const ggml_tensor* tensor);

// Calls `visit` for each weight that graphs multiply. `changes` grows when weights are added or their m_max grows.
void visit_weights(const std::function<void(Weight&)>& visit);
uint64_t weight_changes();
// A graph will multiply this weight by `m` rows.
void expect_rows(Weight& weight, int64_t m);

}  // namespace lathe_ggml
