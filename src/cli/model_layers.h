// The matrix products of a language model, from its config.json (Hugging Face's layout): one table row a
// model family.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe::cli {

// y = x weight^T (+ bias): what one rank multiplies. N and K are the rank's own.
struct ModelLayer {
  std::string name;  // "qkv", "o", "gate_up", "down", "expert_down", "lm_head"...
  int64_t n = 0, k = 0;
  bool bias = false;
  bool is_head = false;  // the output layer: also as matmul_argmax
  bool weight_is_nk =
      true;  // stored [N, K], as Linear does; false: [K, N] (MLA's absorbed products, a batch of heads)
};

struct ParallelOptions {
  int64_t tensor = 1;           // ranks that each layer is split over
  bool whole_experts = false;   // experts are dealt to ranks, not split
  int64_t vocab_multiple = 64;  // the vocabulary is padded to a multiple of it, and of the ranks
};

struct ModelLayers {
  std::string family;  // "Llama"
  std::string dtype;   // the config's word: "bfloat16"; "" where it says none
  int64_t vocab = 0, padded_vocab = 0;
  bool replicates_kv = false;  // more ranks than KV heads: each head is on several
  std::vector<ModelLayer> layers;
};

// kInvalidArgument names the field, or lists the families that are known.
absl::StatusOr<ModelLayers> layers_of(const nlohmann::json& config, const ParallelOptions& parallel);

// "llama (Llama), ...", for the help.
std::string known_families();

}  // namespace lathe::cli
