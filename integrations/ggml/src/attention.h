// Computes FLASH_ATTN_EXT: blocks of queries by blocks of keys, with products by Lathe and the softmax
// between them.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <functional>

#include "ggml.h"

namespace lathe_ggml {

// The heads that share keys and values are rows of one product, so the rows of a block are its tokens times `group`.
struct Attention {
  const ggml_tensor* node = nullptr;
  int64_t group = 1;         // heads of queries for each head of keys and values
  int64_t block_tokens = 1;  // tokens of a block, a power of two
  // Scores of a block of queries by a block of keys, and their weighted sum of values, which adds to D. Without data.
  lathe_matmul_desc scores = LATHE_MATMUL_DESC_INIT, sums = LATHE_MATMUL_DESC_INIT;

  int64_t tokens() const { return node->src[0]->ne[1]; }
  // The last block ends with the last token, so it may begin inside the one before it.
  int64_t blocks_per_head() const { return (tokens() + block_tokens - 1) / block_tokens; }
  int64_t blocks() const { return blocks_per_head() * node->src[1]->ne[2] * node->src[0]->ne[3]; }
};

// Returns NULL and fills `attention`, or returns why this library leaves the node to ggml. Reads no data.
const char* read_attention(const ggml_tensor* node, Attention* attention);
// Runs on the team that the calling thread leads. False: a product failed; the reason was logged.
bool run_attention(const Attention& attention, lathe_device* device);

// Graphs will contain this attention: warm_up prepares its kernels.
void expect_attention(const Attention& attention);
// Calls `visit` for each product of each attention that is expected. `changes` grows when one is added.
void visit_attention(const std::function<void(const lathe_matmul_desc&)>& visit);
uint64_t attention_changes();

}  // namespace lathe_ggml
