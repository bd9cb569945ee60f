#include "cli/model_layers.h"

#include <numeric>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

enum class Attention {
  kGrouped,  // heads in groups that share a KV head
  kLatent,   // MLA: queries and keys from low-rank latents
};
enum class Bias { kNever, kAlways, kAttentionBias, kMlpBias };  // the latter two: as the config's field says
// Fields of the config; nullptr: the family has no such thing.
struct Experts {
  const char* count = nullptr;
  const char* size = nullptr;          // intermediate size of one expert
  const char* shared_count = nullptr;  // experts that every token takes, as one of so many times the size
  const char* shared_size = nullptr;   // or of this intermediate size, with a gate of its own
  const char* dense_layers = nullptr;  // > 0, or a list that is not empty: some layers have no experts
};

struct Family {
  const char* model_type;  // config.json's
  const char* models;      // for people
  Attention attention;
  Bias qkv, o, mlp;
  bool biased_experts;  // and router
  Experts experts;
  const char* defaults;  // what a config of the family may leave out: transformers' defaults
};

constexpr Experts kDense = {};
const Family kFamilies[] = {
    // clang-format off
    {"llama", "Llama", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kMlpBias, false, kDense, "{}"},
    {"mistral", "Mistral", Attention::kGrouped, Bias::kNever, Bias::kNever, Bias::kNever, false, kDense, "{}"},
    {"mixtral", "Mixtral", Attention::kGrouped, Bias::kNever, Bias::kNever, Bias::kNever, false,
     {"num_local_experts", "intermediate_size"}, "{}"},
    {"qwen2", "Qwen2, Qwen2.5", Attention::kGrouped, Bias::kAlways, Bias::kNever, Bias::kNever, false, kDense, "{}"},
    {"qwen2_moe", "Qwen2-MoE", Attention::kGrouped, Bias::kAlways, Bias::kNever, Bias::kNever, false,
     {"num_experts", "moe_intermediate_size", nullptr, "shared_expert_intermediate_size", "mlp_only_layers"}, "{}"},
    {"qwen3", "Qwen3", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false, kDense,
     R"({"head_dim":128})"},
    {"qwen3_moe", "Qwen3-MoE", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false,
     {"num_experts", "moe_intermediate_size", nullptr, nullptr, "mlp_only_layers"}, "{}"},
    {"gemma", "Gemma", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false, kDense,
     R"({"head_dim":256})"},
    {"gemma2", "Gemma 2", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false, kDense,
     R"({"head_dim":256})"},
    {"gemma3_text", "Gemma 3", Attention::kGrouped, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false, kDense,
     R"({"head_dim":256,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":262208})"},
    {"deepseek_v2", "DeepSeek-V2", Attention::kLatent, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false,
     {"n_routed_experts", "moe_intermediate_size", "n_shared_experts", nullptr, "first_k_dense_replace"}, "{}"},
    {"deepseek_v3", "DeepSeek-V3, R1", Attention::kLatent, Bias::kAttentionBias, Bias::kAttentionBias, Bias::kNever, false,
     {"n_routed_experts", "moe_intermediate_size", "n_shared_experts", nullptr, "first_k_dense_replace"}, "{}"},
    {"gpt_oss", "GPT-OSS", Attention::kGrouped, Bias::kAlways, Bias::kAlways, Bias::kNever, true,
     {"num_local_experts", "intermediate_size"}, R"({"head_dim":64})"},
    // clang-format on
};

constexpr int64_t kLargest = INT32_MAX;

// A positive size; throws.
int64_t size_of_field(const Json& config, const char* name) {
  const auto at = config.find(name);
  if (at == config.end() || at->is_null())
    throw std::invalid_argument(absl::StrCat("\"", name, "\" is missing"));
  if (!at->is_number_integer() || at->get<double>() < 1 || at->get<double>() > static_cast<double>(kLargest))
    throw std::invalid_argument(absl::StrCat("\"", name, "\" is not a whole number from 1 to ", kLargest));
  return at->get<int64_t>();
}

// Whether the field is there and says anything but null, 0, false or an empty list.
bool says(const Json& config, const char* name) {
  if (name == nullptr) return false;
  const auto at = config.find(name);
  if (at == config.end() || at->is_null()) return false;
  if (at->is_array()) return !at->empty();
  if (at->is_boolean()) return at->get<bool>();
  return at->is_number_integer() && at->get<int64_t>() > 0;
}

int64_t split(const char* what, int64_t size, int64_t ranks) {
  if (size % ranks == 0) return size / ranks;
  throw std::invalid_argument(absl::StrCat(what, " ", size, " cannot be split over ", ranks, " ranks"));
}

// A product of sizes that still is one; throws.
int64_t times(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kLargest)
    throw std::invalid_argument(absl::StrCat("a layer of ", a, " x ", b, " columns is too large"));
  return product;
}

class Reader {
 public:
  Reader(const Family& family, const Json& config, const ParallelOptions& parallel)
      : family_(family), config_(config), parallel_(parallel), hidden_(size("hidden_size")) {
    out_.family = family.models;
  }

  ModelLayers read() {
    family_.attention == Attention::kGrouped ? grouped_attention() : latent_attention();
    if (!says(config_, family_.experts.count)) {
      dense_mlp();
    } else {
      if (says(config_, family_.experts.dense_layers)) dense_mlp();
      experts();
    }
    head();
    return std::move(out_);
  }

 private:
  int64_t size(const char* name) const { return size_of_field(config_, name); }
  int64_t size_or(const char* name, int64_t otherwise) const {
    const auto at = config_.find(name);
    return at == config_.end() || at->is_null() ? otherwise : size(name);
  }
  bool has_bias(Bias bias) const {
    switch (bias) {
      case Bias::kNever: return false;
      case Bias::kAlways: return true;
      case Bias::kAttentionBias: return says(config_, "attention_bias");
      case Bias::kMlpBias: return says(config_, "mlp_bias");
    }
    return false;
  }
  void add(const std::string& name, int64_t n, int64_t k, bool bias) {
    out_.layers.push_back({name, n, k, bias});
  }
  // Split along K: the ranks' results are summed, so that one of them adds the bias.
  void add_summed(const std::string& name, int64_t n, int64_t k, bool bias) {
    add(name, n, k, bias);
    if (bias && parallel_.tensor > 1) add(name + " without bias", n, k, false);
  }

  int64_t heads() { return split("num_attention_heads", size("num_attention_heads"), parallel_.tensor); }

  void grouped_attention() {
    const int64_t all = size("num_attention_heads"), mine = heads();
    const int64_t kv = size_or("num_key_value_heads", all), ranks = parallel_.tensor;
    out_.replicates_kv = kv < ranks;
    if (out_.replicates_kv && ranks % kv != 0)
      throw std::invalid_argument(absl::StrCat(kv, " KV heads cannot be replicated over ", ranks, " ranks"));
    const int64_t kv_mine = out_.replicates_kv ? 1 : split("num_key_value_heads", kv, ranks);
    if (config_.find("head_dim") == config_.end() && hidden_ % all != 0)
      throw std::invalid_argument(
          "\"head_dim\" is missing, and hidden_size is no multiple of num_attention_heads");
    const int64_t head = size_or("head_dim", hidden_ / all);
    add("qkv", times(mine + 2 * kv_mine, head), hidden_, has_bias(family_.qkv));
    add_summed("o", hidden_, times(mine, head), has_bias(family_.o));
  }

  void latent_attention() {
    const int64_t mine = heads(), latent = size("kv_lora_rank"), rope = size("qk_rope_head_dim");
    const int64_t nope = size("qk_nope_head_dim"), value = size("v_head_dim");
    // The projections down to latents are whole on every rank.
    if (says(config_, "q_lora_rank")) {
      const int64_t queries = size("q_lora_rank");
      add("q_a_kv_a", queries + latent + rope, hidden_, has_bias(family_.qkv));
      add("q_b", times(mine, nope + rope), queries, false);
    } else {
      add("q", times(mine, nope + rope), hidden_, false);
      add("kv_a", latent + rope, hidden_, has_bias(family_.qkv));
    }
    add("kv_b", times(mine, nope + value), latent, false);
    // Decoding multiplies queries and results by kv_b's halves instead: a batch of heads.
    out_.layers.push_back({"absorbed_k", latent, nope, false, false, false});
    out_.layers.push_back({"absorbed_v", value, latent, false, false, false});
    add_summed("o", hidden_, times(mine, value), has_bias(family_.o));
  }

  void mlp(const std::string& prefix, int64_t intermediate, int64_t ranks, bool bias) {
    const int64_t mine = split("intermediate size", intermediate, ranks);
    add(prefix + "gate_up", times(2, mine), hidden_, bias);
    if (ranks > 1)
      add_summed(prefix + "down", hidden_, mine, bias);
    else
      add(prefix + "down", hidden_, mine, bias);
  }
  void dense_mlp() { mlp("", size("intermediate_size"), parallel_.tensor, has_bias(family_.mlp)); }

  void experts() {
    const Experts& e = family_.experts;
    add("router", size(e.count), hidden_, family_.biased_experts);
    mlp("expert_", size(e.size), parallel_.whole_experts ? 1 : parallel_.tensor, family_.biased_experts);
    if (says(config_, e.shared_count))
      mlp("shared_expert_", times(size(e.shared_count), size(e.size)), parallel_.tensor, false);
    if (says(config_, e.shared_size)) {
      mlp("shared_expert_", size(e.shared_size), parallel_.tensor, false);
      add("shared_expert_gate", 1, hidden_, false);
    }
  }

  void head() {
    out_.vocab = size("vocab_size");
    const int64_t multiple = std::lcm(parallel_.vocab_multiple, parallel_.tensor);
    out_.padded_vocab = times((out_.vocab + multiple - 1) / multiple, multiple);
    ModelLayer layer = {"lm_head", out_.padded_vocab / parallel_.tensor, hidden_};
    layer.is_head = true;
    out_.layers.push_back(layer);
  }

  const Family& family_;
  const Json& config_;
  const ParallelOptions& parallel_;
  const int64_t hidden_;
  ModelLayers out_;
};

std::string text_field(const Json& config, const char* name) {
  const auto at = config.find(name);
  return at != config.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string dtype_of(const Json& config) {
  const std::string name = text_field(config, "torch_dtype");
  return name.empty() ? text_field(config, "dtype") : name;
}

const Family* find_family(const std::string& model_type) {
  for (const Family& family : kFamilies)
    if (model_type == family.model_type) return &family;
  return nullptr;
}

}  // namespace

std::string known_families() {
  std::string text;
  for (const Family& f : kFamilies)
    absl::StrAppend(&text, text.empty() ? "" : ", ", f.model_type, " (", f.models, ")");
  return text;
}

absl::StatusOr<ModelLayers> layers_of(const Json& config, const ParallelOptions& parallel) {
  if (!config.is_object()) return absl::InvalidArgumentError("not a JSON object");
  // A model that sees and reads has its language model's fields one level down.
  const auto inner = config.find("text_config");
  const bool nested = inner != config.end() && inner->is_object();
  const Json& language = nested ? *inner : config;
  const std::string model_type = text_field(language, "model_type");
  const Family* family = find_family(model_type);
  if (family == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model_type '", model_type, "' is unknown; known are ", known_families()));
  }
  Json whole = Json::parse(family->defaults);
  whole.update(language);
  try {
    ModelLayers out = Reader(*family, whole, parallel).read();
    out.dtype = dtype_of(language).empty() ? dtype_of(config) : dtype_of(language);
    return out;
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(family->models, ": ", e.what()));
  }
}

}  // namespace lathe::cli
