#include "models/model_layers.h"

#include <numeric>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/model_config.h"
#include "models/model_families.h"

namespace lathe::models {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostLayers = 4096;  // far above any model; each layer takes time to read

// "rank 5", "ranks 0 to 4".
std::string ranks_text(int64_t first, int64_t last) {
  return first == last ? absl::StrCat("rank ", first) : absl::StrCat("ranks ", first, " to ", last);
}

class Reader {
 public:
  Reader(const Family& family, const Json& config, const ParallelOptions& parallel)
      : family_(family),
        config_(family, config),
        parallel_(parallel),
        ranks_(parallel.tensor),
        hidden_(config_.size("hidden_size")) {
    out_.family = family.models;
  }

  ModelLayers read() {
    const int64_t own = config_.count("num_hidden_layers", 1), mtp = config_.count(family_.mtp_layers, 0);
    if (own < 1 || own + mtp > kMostLayers)
      throw std::invalid_argument(
          absl::StrCat("the number of layers is ", own + mtp, ", but must be from 1 to ", kMostLayers));
    for (int64_t layer = 0; layer < own + mtp; ++layer) {
      attention(layer, layer >= own);
      is_sparse(layer) ? experts(layer) : dense_mlp(layer);
    }
    // A layer for multi-token prediction first joins the embedding and the hidden state. Its head has the
    // size of lm_head.
    if (mtp > 0) add("mtp_eh_proj", hidden_, times(2, hidden_), false);
    head();
    if (family_.not_covered != nullptr &&
        (family_.not_covered_if == nullptr || config_.count(family_.not_covered_if, 0) > 0))
      out_.not_covered.push_back(family_.not_covered);
    out_.filled_in = absl::StrJoin(config_.filled_in(), ", ");
    return std::move(out_);
  }

 private:
  bool has_bias(const Bias& bias) const { return config_.flag(bias.field, bias.otherwise); }

  // Adds a layer, unless an equal one is listed. If layers with the same name differ in size, their names get the size.
  void add(const ModelLayer& layer) {
    if (layer.n > kLargestSize || layer.k > kLargestSize)
      throw std::invalid_argument(absl::StrCat(layer.name, " of ", layer.n, " x ", layer.k, " is too large"));
    const std::string sized = absl::StrCat(layer.name, " ", layer.n, "x", layer.k);
    bool taken = false;
    for (const ModelLayer& other : out_.layers) {
      const bool same_name = other.name == layer.name;
      if ((same_name || other.name == sized) && other.n == layer.n && other.k == layer.k) return;
      taken |= same_name;
    }
    out_.layers.push_back(layer);
    if (taken) out_.layers.back().name = sized;
  }
  void add(const std::string& name, int64_t n, int64_t k, bool bias) { add(ModelLayer{name, n, k, bias}); }
  // Adds a layer that is split along K. The ranks' results are summed, so only one rank adds the bias.
  void add_summed(ModelLayer layer, int64_t ranks) {
    add(layer);
    if (!layer.bias || ranks == 1) return;
    layer.name += " without bias";
    layer.bias = false;
    add(layer);
  }

  int64_t split(const char* what, int64_t size) const { return divide(what, size, ranks_, "ranks"); }

  void attention(int64_t layer, bool is_mtp) {
    if (family_.latent) return latent_attention();
    if (family_.linear_attention && !is_mtp && is_linear(layer)) return linear_attention();
    const int64_t factor =
        family_.shares_kv && config_.flag("use_cla", false) ? config_.count("cla_share_factor", 1) : 1;
    grouped_attention(factor == 0 || layer % factor == 0);
  }

  int64_t head_size(int64_t heads) {
    for (const char* name : {"head_dim", family_.head_size})
      if (config_.has(name)) return config_.size(name);
    return divide("\"head_dim\" is missing, and hidden_size", hidden_, heads, "num_attention_heads");
  }

  // The number of KV heads on one rank.
  int64_t kv_heads(int64_t heads) {
    const int64_t kv = config_.has("num_key_value_heads") ? config_.size("num_key_value_heads") : heads;
    divide("num_attention_heads", heads, kv, "num_key_value_heads");
    out_.replicates_kv = kv < ranks_;
    if (!out_.replicates_kv) return split("num_key_value_heads", kv);
    if (ranks_ % kv != 0)
      throw std::invalid_argument(absl::StrCat(kv, " KV heads cannot be replicated over ", ranks_, " ranks"));
    return 1;
  }

  void grouped_attention(bool projects_kv) {
    const int64_t all = config_.size("num_attention_heads"), mine = split("num_attention_heads", all);
    const int64_t queries = family_.gated_queries ? times(2, mine) : mine;
    const int64_t kv = kv_heads(all), head = head_size(all);
    add(projects_kv ? "qkv" : "q", times(projects_kv ? queries + 2 * kv : queries, head), hidden_,
        has_bias(family_.qkv));
    add_summed({"o", hidden_, times(mine, head), has_bias(family_.o)}, ranks_);
  }

  void latent_attention() {
    const int64_t mine = split("num_attention_heads", config_.size("num_attention_heads"));
    const int64_t latent = config_.size("kv_lora_rank"), rope = config_.size("qk_rope_head_dim");
    const int64_t nope = config_.size("qk_nope_head_dim"), value = config_.size("v_head_dim");
    // The projections to the latent vectors are whole on every rank.
    if (config_.count("q_lora_rank", 0) > 0) {
      const int64_t queries = config_.size("q_lora_rank");
      add("q_a_kv_a", queries + latent + rope, hidden_, has_bias(family_.qkv));
      add("q_b", times(mine, nope + rope), queries, false);
    } else {
      add("q", times(mine, nope + rope), hidden_, false);
      add("kv_a", latent + rope, hidden_, has_bias(family_.qkv));
    }
    add("kv_b", times(mine, nope + value), latent, false);
    // When decoding, engines multiply queries and results by the two halves of kv_b instead, as a batch of heads.
    add(ModelLayer{"absorbed_k", latent, nope, false, false, false});
    add(ModelLayer{"absorbed_v", value, latent, false, false, false});
    add_summed({"o", hidden_, times(mine, value), has_bias(family_.o)}, ranks_);
    if (family_.indexer) indexer();
  }

  // The projections of the indexer are whole on every rank.
  void indexer() {
    const int64_t heads = config_.size("index_n_heads"), head = config_.size("index_head_dim");
    add("indexer_q", times(heads, head), config_.size("q_lora_rank"), false);
    add("indexer_k", head, hidden_, false);
    add("indexer_weights", heads, hidden_, false);
  }

  bool is_linear(int64_t layer) {
    if (!config_.has("layer_types")) return (layer + 1) % config_.size("full_attention_interval") != 0;
    const std::string type = config_.word("layer_types", layer);
    if (type != "linear_attention" && type != "full_attention")
      throw std::invalid_argument(absl::StrCat("\"layer_types\" has '", type,
                                               "', which is neither "
                                               "linear_attention nor full_attention"));
    return type == "linear_attention";
  }

  void linear_attention() {
    const int64_t keys = config_.size("linear_num_key_heads"),
                  values = config_.size("linear_num_value_heads");
    divide("linear_num_value_heads", values, keys, "linear_num_key_heads");
    const int64_t my_keys = split("linear_num_key_heads", keys);
    const int64_t my_values = split("linear_num_value_heads", values);
    const int64_t key = times(my_keys, config_.size("linear_key_head_dim"));
    const int64_t value = times(my_values, config_.size("linear_value_head_dim"));
    add("linear_qkvz", 2 * key + 2 * value, hidden_, false);
    add("linear_ba", times(2, my_values), hidden_, false);
    add("linear_out", hidden_, value, false);
  }

  bool is_sparse(int64_t layer) {
    if (config_.count(family_.expert_count, 0, layer) == 0) return false;
    if (config_.has(family_.sparse_layers)) return config_.lists(family_.sparse_layers, layer);
    if (config_.has(family_.layer_kinds)) {
      const std::string kind = config_.word(family_.layer_kinds, layer);
      if (kind == "sparse" || kind == "dense") return kind == "sparse";
      throw std::invalid_argument(
          absl::StrCat("\"", family_.layer_kinds, "\" has '", kind, "', which is neither dense nor sparse"));
    }
    if (config_.lists(family_.dense_layers, layer)) return false;
    if (config_.is_list(family_.sparse_at)) return config_.flag(family_.sparse_at, true, layer);
    if (layer < config_.count(family_.first_sparse, 0)) return false;
    const int64_t each = config_.has(family_.sparse_every) ? config_.size(family_.sparse_every) : 1;
    const int64_t at = config_.has(family_.sparse_at) ? config_.size(family_.sparse_at) : 1;
    return (layer + 1) % each == 0 && layer % at == 0;
  }

  void mlp(const std::string& prefix, int64_t intermediate, int64_t ranks, bool bias, int64_t experts = 0) {
    const int64_t mine = divide("intermediate size", intermediate, ranks, "ranks");
    ModelLayer first = {prefix + "up", mine, hidden_, bias}, down = {prefix + "down", hidden_, mine, bias};
    first.experts = down.experts = experts;
    if (experts > 0) first.used = down.used = std::max<int64_t>(config_.count("num_experts_per_tok", 1), 1);
    down.is_summed = experts > 0;
    if (family_.gated_mlp) {
      first.name = prefix + "gate_up";
      first.n = times(2, mine);
      if (experts > 0) first.gate = gate();
    }
    add(first);
    add_summed(down, ranks);
  }
  void dense_mlp(int64_t layer) {
    mlp("", config_.size(family_.dense_size, layer), ranks_, has_bias(family_.mlp));
  }

  // Every family with experts has SiLU as its default. kNone: Lathe has no gate with this activation.
  Gate gate() const {
    if (family_.clamped_gate) return Gate::kClampedInterleaved;
    const std::string act = config_.word("hidden_act", ModelConfig::kEveryLayer);
    if (act.empty() || act == "silu" || act == "swish") return Gate::kSilu;
    if (act == "gelu_pytorch_tanh" || act == "gelu_new") return Gate::kGeluTanh;
    if (act == "gelu") return Gate::kGelu;
    return act == "relu" ? Gate::kRelu : Gate::kNone;
  }

  void experts(int64_t layer) {
    const bool bias = has_bias(family_.experts_bias);
    const char* size = config_.has(family_.expert_size) ? family_.expert_size : family_.dense_size;
    const int64_t count = config_.size(family_.expert_count, layer);
    add("router", count, hidden_, bias);
    mlp("expert_", config_.size(size, layer), parallel_.whole_experts ? 1 : ranks_, bias, count);
    const int64_t shared = config_.count(family_.shared_count, 1, layer);
    if (config_.count(family_.shared_size, 0, layer) == 0 || shared == 0 ||
        !config_.flag(family_.shared_flag, true, layer))
      return;
    mlp("shared_expert_", times(shared, config_.size(family_.shared_size, layer)), ranks_, false);
    if (family_.shared_gate) add("shared_expert_gate", 1, hidden_, false);
  }

  // The engine pads the rows and then splits them, so the last shards may have fewer tokens than rows, or
  // none. N counts tokens only: the zeros of a padded row would win an argmax if all logits are negative.
  void head() {
    const int64_t vocab = config_.size("vocab_size");
    const int64_t multiple = std::lcm(parallel_.vocab_multiple, ranks_);
    const int64_t padded = times((vocab + multiple - 1) / multiple, multiple), rows = padded / ranks_;
    const int64_t whole = vocab / rows, rest = vocab % rows, used = whole + (rest > 0 ? 1 : 0);
    out_.vocabulary = absl::StrCat(vocab, " padded to ", padded, ", ", rows, " a rank");
    if (whole > 0) add_head(0, whole - 1, rows);
    if (rest > 0) add_head(whole, whole, rest);
    if (rest > 0) absl::StrAppend(&out_.vocabulary, ", ", rest, " real on ", ranks_text(whole, whole));
    if (used < ranks_) absl::StrAppend(&out_.vocabulary, ", none on ", ranks_text(used, ranks_ - 1));
  }

  void add_head(int64_t first, int64_t last, int64_t columns) {
    ModelLayer layer = {"lm_head", columns, hidden_};
    layer.is_head = true;
    if (first > 0 || last < ranks_ - 1) absl::StrAppend(&layer.name, " ", ranks_text(first, last));
    add(layer);
  }

  const Family& family_;
  ModelConfig config_;
  const ParallelOptions& parallel_;
  const int64_t ranks_, hidden_;
  ModelLayers out_;
};

// The field, or null if it is absent.
Json field(const Json& config, const char* name) {
  const auto at = config.find(name);
  return at == config.end() ? Json() : *at;
}

std::string text_field(const Json& config, const char* name) {
  const Json value = field(config, name);
  return value.is_string() ? value.get<std::string>() : "";
}

std::string dtype_of(const Json& config) {
  const std::string name = text_field(config, "torch_dtype");
  return name.empty() ? text_field(config, "dtype") : name;
}

// The parts of a model that read images or sound.
constexpr const char* kTowers[][2] = {{"vision_config", "the vision tower"},
                                      {"audio_config", "the audio tower"}};

}  // namespace

absl::StatusOr<ModelLayers> layers_of(const Json& config, const ParallelOptions& parallel) {
  if (!config.is_object()) return absl::InvalidArgumentError("not a JSON object");
  // The config of a multimodal model has the fields of the language model in text_config. If text_config has no
  // model_type, the outer model_type determines the family, and so the defaults.
  const Json inner = field(config, "text_config");
  const Family* family = find_inner_family(text_field(config, "model_type"));
  if (!inner.is_null() && !inner.is_object())
    return absl::InvalidArgumentError("\"text_config\" is not a JSON object");
  const bool nested = inner.is_object() || family != nullptr;
  const Json language = !nested ? config : inner.is_object() ? inner : Json::object();
  const std::string model_type = text_field(language, "model_type");
  if (family == nullptr || !model_type.empty()) family = find_family(model_type);
  if (family == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model_type '", model_type, "' is unknown; known are ", known_families()));
  }
  try {
    // transformers omits fields only in a text_config. Elsewhere, a file without this field is not a config.
    if (!nested && field(config, "hidden_size").is_null())
      throw std::invalid_argument("\"hidden_size\" is missing");
    ModelLayers out = Reader(*family, language, parallel).read();
    out.dtype = dtype_of(language).empty() ? dtype_of(config) : dtype_of(language);
    out.quantized =
        !field(config, "quantization_config").is_null() || !field(language, "quantization_config").is_null();
    for (const auto& [name, tower] : kTowers)
      if (!field(config, name).is_null()) out.not_covered.push_back(absl::StrCat(tower, " (", name, ")"));
    return out;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(family->models, ": ", e.what()));
  }
}

}  // namespace lathe::models
