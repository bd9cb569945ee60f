// The model families that `lathe manifest` knows: the products of their layers, and the fields of config.json
// that give the sizes. To add one: a row in model_families.cc, a config in tests/cli/configs, and its weights
// in tests/cli/model_weights.py.
#pragma once

#include <string>
#include <vector>

namespace lathe::models {

// Whether a product has a bias: the config's flag `field` decides, or `otherwise` if the flag is absent.
struct Bias {
  const char* field = nullptr;
  bool otherwise = false;
};

// One row of the table, filled by the named setters below. Strings are names of fields in config.json;
// nullptr means that the family has no such field.
struct Family {
  Family(const char* type, const char* people) : model_type(type), models(people) {}

  const char* model_type;
  const char* models;                // for messages
  const char* outer_type = nullptr;  // model_type of a config whose text_config belongs to this family

  bool latent = false;              // MLA: queries and keys come from low-rank latent vectors
  bool indexer = false;             // DeepSeek sparse attention: an indexer has projections besides MLA's
  bool gated_queries = false;       // the query projection also gives a gate for the attention output
  bool linear_attention = false;    // some layers are gated delta nets (layer_types, full_attention_interval)
  bool shares_kv = false;           // with use_cla, one layer in cla_share_factor projects keys and values
  const char* head_size = nullptr;  // the field used if head_dim is absent
  Bias qkv, o, mlp, experts_bias;   // experts_bias also applies to the router
  bool gated_mlp = true;            // false: the MLP has only up and down
  const char* dense_size = "intermediate_size";

  const char* expert_count = nullptr;  // 0 means that every layer is dense
  const char* expert_size = nullptr;   // intermediate size of one expert; dense_size if absent
  bool clamped_gate = false;           // the experts' gate is gpt-oss's: clamped, on interleaved columns
  const char* shared_size = nullptr;   // intermediate size of the shared expert
  const char* shared_count = nullptr;  // the shared expert is this many times shared_size wide
  const char* shared_flag = nullptr;   // false: there is no shared expert
  bool shared_gate = false;            // the shared expert has a gate, a product with N = 1

  // Which layers have experts. Layers count from 0; all these conditions must hold.
  const char* first_sparse = nullptr;  // layer >= first_sparse
  const char* sparse_every = nullptr;  // (layer + 1) % sparse_every == 0
  const char* sparse_at = nullptr;     // layer % sparse_at == 0; or a list with a flag for each layer
  const char* dense_layers = nullptr;  // a list of layers without experts
  // These two replace all other conditions.
  const char* sparse_layers = nullptr;  // a list of layers with experts
  const char* layer_kinds = nullptr;    // a list with "dense" or "sparse" for each layer

  const char* mtp_layers = nullptr;       // number of extra layers for multi-token prediction
  const char* not_covered = nullptr;      // computations of the model that no class of Lathe expresses
  const char* not_covered_if = nullptr;   // not_covered applies only if this number is above 0
  const char* meaningful_null = nullptr;  // the field whose null has a meaning; any other null means absent
  const char* defaults = "{}";            // the defaults of the config's class in transformers

  Family& inside(const char* type) { return outer_type = type, *this; }
  Family& with_latents() { return latent = true, *this; }
  Family& with_indexer() { return indexer = true, *this; }
  Family& with_gated_queries() { return gated_queries = true, *this; }
  Family& with_linear_attention() { return linear_attention = true, *this; }
  Family& with_shared_kv() { return shares_kv = true, *this; }
  Family& head_dim_or(const char* field) { return head_size = field, *this; }
  Family& qkv_bias(Bias bias) { return qkv = bias, *this; }
  Family& o_bias(Bias bias) { return o = bias, *this; }
  Family& mlp_bias(Bias bias) { return mlp = bias, *this; }
  Family& expert_bias(Bias bias) { return experts_bias = bias, *this; }
  Family& without_gate() { return gated_mlp = false, *this; }
  Family& dense_mlp(const char* size) { return dense_size = size, *this; }
  Family& experts(const char* count, const char* size) {
    return expert_count = count, expert_size = size, *this;
  }
  Family& with_clamped_gate() { return clamped_gate = true, *this; }
  Family& shared_expert(const char* size) { return shared_size = size, *this; }
  Family& shared_times(const char* count) { return shared_count = count, *this; }
  Family& shared_if(const char* flag) { return shared_flag = flag, *this; }
  Family& with_shared_gate() { return shared_gate = true, *this; }
  Family& sparse_from(const char* layer) { return first_sparse = layer, *this; }
  Family& sparse_every_nth(const char* step) { return sparse_every = step, *this; }
  Family& sparse_at_multiples(const char* step_or_list) { return sparse_at = step_or_list, *this; }
  Family& dense_list(const char* layers) { return dense_layers = layers, *this; }
  Family& sparse_list(const char* layers) { return sparse_layers = layers, *this; }
  Family& kinds_list(const char* kinds) { return layer_kinds = kinds, *this; }
  Family& mtp(const char* count) { return mtp_layers = count, *this; }
  Family& does_not_cover(const char* what, const char* if_above_0 = nullptr) {
    return not_covered = what, not_covered_if = if_above_0, *this;
  }
  Family& null_is_value(const char* field) { return meaningful_null = field, *this; }
  Family& class_defaults(const char* json) { return defaults = json, *this; }
};

const std::vector<Family>& model_families();
// nullptr: no family has that model_type.
const Family* find_family(const std::string& model_type);
// The family with this outer_type, for a text_config without a model_type; nullptr: unknown.
const Family* find_inner_family(const std::string& outer_type);
// "llama (Llama), ...", for messages.
std::string known_families();

}  // namespace lathe::models
