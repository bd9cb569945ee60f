// Lists the matrix products that one rank of a language model computes, from the model's config.json (Hugging Face's
// format).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe::models {

// The activation of a gated MLP: its weight holds a gate and an up projection, and the next layer reads act(gate) * up.
enum class Gate { kNone, kSilu, kGelu, kGeluTanh, kRelu, kClampedInterleaved };

// A product y = x weight^T (+ bias). N and K are the sizes on one rank.
struct ModelLayer {
  std::string name;  // "qkv", "o", "gate_up", "down", "expert_down", "lm_head"...
  int64_t n = 0, k = 0;
  bool bias = false;
  bool is_head = false;  // the output layer, which is also listed as a matmul_argmax
  // Stored [N, K], like Linear's weight; false: [K, N] (MLA's absorbed products, a batch of heads).
  bool weight_is_nk = true;
  int64_t experts = 0;      // above 0: one weight per expert, for grouped products
  int64_t used = 1;         // experts that a token uses
  Gate gate = Gate::kNone;  // of experts
  bool is_summed = false;   // of experts: the results of a token's experts are summed
};

struct ParallelOptions {
  int64_t tensor = 1;          // number of ranks that each layer is split over
  bool whole_experts = false;  // each expert is whole on one rank, not split
  // The engine pads the output layer's rows to a multiple of this and of the ranks, and then splits them.
  // Padded rows decide where shards begin; no layer counts them in N.
  int64_t vocab_multiple = 64;
};

struct ModelLayers {
  std::string family;                    // "Llama"
  std::string dtype;                     // torch_dtype in the config: "bfloat16"; "": absent
  std::string vocabulary;                // "32000 padded to 32064, 5344 a rank, 5280 real on rank 5"
  std::string filled_in;                 // sizes that the config leaves out: "head_dim 256, ..."
  std::vector<std::string> not_covered;  // products that `layers` cannot express
  bool replicates_kv = false;            // more ranks than KV heads: each head is on several ranks
  bool quantized = false;                // the config has a quantization_config, which is not read
  std::vector<ModelLayer> layers;        // without duplicates
};

// kInvalidArgument: the error names the wrong field, or lists the known families.
absl::StatusOr<ModelLayers> layers_of(const nlohmann::json& config, const ParallelOptions& parallel);

}  // namespace lathe::models
