#include "models/model_families.h"

#include "absl/strings/str_cat.h"

namespace lathe::models {
namespace {

// clang-format off
constexpr Bias kAlways = {nullptr, true};
constexpr Bias kAttentionBias = {"attention_bias"}, kMlpBias = {"mlp_bias"};
constexpr Bias kQkvBias = {"qkv_bias", true}, kBiasUnlessFalse = {"attention_bias", true};

// MLA. The first layers are dense; the others have experts and a shared expert.
Family deepseek(const char* model_type, const char* models) {
  return Family(model_type, models).with_latents().qkv_bias(kAttentionBias).o_bias(kAttentionBias)
      .experts("n_routed_experts", "moe_intermediate_size")
      .shared_expert("moe_intermediate_size").shared_times("n_shared_experts")
      .sparse_from("first_k_dense_replace").sparse_at_multiples("moe_layer_freq")
      .kinds_list("mlp_layer_types").mtp("num_nextn_predict_layers").null_is_value("q_lora_rank");
}

// Only V3.2 has an indexer. The other models ignore its sizes.
constexpr char kDeepseekV3[] = R"({"vocab_size":129280,"hidden_size":7168,"intermediate_size":18432,
    "num_hidden_layers":61,"num_attention_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":256,"n_shared_experts":1,
    "moe_intermediate_size":2048,"first_k_dense_replace":3,"num_nextn_predict_layers":1,
    "index_n_heads":64,"index_head_dim":128})";

// Experts in every decoder_sparse_step-th layer, except those in mlp_only_layers.
Family qwen_moe(const char* model_type, const char* models) {
  return Family(model_type, models).experts("num_experts", "moe_intermediate_size")
      .dense_list("mlp_only_layers").sparse_every_nth("decoder_sparse_step");
}

std::vector<Family> make_families() {
  // The order within a row: attention, MLP, experts, which layers have experts, other fields, class defaults.
  return {
      Family("llama", "Llama").inside("llava")
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias).mlp_bias(kMlpBias)
          .class_defaults(R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,
                              "num_hidden_layers":32,"num_attention_heads":32})"),
      Family("llama4_text", "Llama 4").inside("llama4")
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias).dense_mlp("intermediate_size_mlp")
          .experts("num_local_experts", "intermediate_size").shared_expert("intermediate_size")
          .sparse_list("moe_layers").sparse_every_nth("interleave_moe_layer_step")
          .null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":202048,"hidden_size":5120,"intermediate_size":8192,
                              "intermediate_size_mlp":16384,"num_hidden_layers":48,"num_attention_heads":40,
                              "num_key_value_heads":8,"head_dim":128,"num_local_experts":16})"),
      Family("mistral", "Mistral").null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,
                              "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8})"),
      Family("mixtral", "Mixtral")
          .experts("num_local_experts", "intermediate_size").null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,
                              "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
                              "num_local_experts":8})"),
      Family("qwen2", "Qwen2, Qwen2.5").qkv_bias(kQkvBias).null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,
                              "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32})"),
      qwen_moe("qwen2_moe", "Qwen2-MoE").qkv_bias(kQkvBias)
          .shared_expert("shared_expert_intermediate_size").with_shared_gate()
          .null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,
                              "num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,
                              "num_experts":60,"moe_intermediate_size":1408,
                              "shared_expert_intermediate_size":5632})"),
      Family("qwen3", "Qwen3").qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,
                              "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
                              "head_dim":128})"),
      qwen_moe("qwen3_moe", "Qwen3-MoE").qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .class_defaults(R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":6144,
                              "num_hidden_layers":24,"num_attention_heads":32,"num_key_value_heads":4,
                              "num_experts":128,"moe_intermediate_size":768})"),
      qwen_moe("qwen3_vl_moe_text", "Qwen3-VL-MoE").inside("qwen3_vl_moe")
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias).null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,
                              "num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,
                              "num_experts":60,"moe_intermediate_size":1408})"),
      // Its checkpoint has one layer for multi-token prediction, but no field of the config says so.
      qwen_moe("qwen3_next", "Qwen3-Next").with_gated_queries().with_linear_attention()
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .shared_expert("shared_expert_intermediate_size").with_shared_gate()
          .mtp("num_nextn_predict_layers").does_not_cover("gated delta nets' convolution and recurrence")
          .class_defaults(R"({"vocab_size":151936,"hidden_size":2048,"intermediate_size":5632,
                              "num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":2,
                              "head_dim":256,"full_attention_interval":4,"linear_key_head_dim":128,
                              "linear_value_head_dim":128,"linear_num_key_heads":16,
                              "linear_num_value_heads":32,
                              "num_experts":512,"moe_intermediate_size":512,
                              "shared_expert_intermediate_size":512,"num_nextn_predict_layers":1})"),
      Family("gemma", "Gemma").qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .class_defaults(R"({"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,
                              "num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":16,
                              "head_dim":256})"),
      Family("gemma2", "Gemma 2").qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .class_defaults(R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,
                              "num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,
                              "head_dim":256})"),
      Family("gemma3_text", "Gemma 3").inside("gemma3").qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .class_defaults(R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,
                              "num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,
                              "head_dim":256})"),
      deepseek("deepseek_v2", "DeepSeek-V2")
          .class_defaults(R"({"vocab_size":102400,"hidden_size":4096,"intermediate_size":11008,
                              "num_hidden_layers":32,"num_attention_heads":32,"q_lora_rank":1536,
                              "kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
                              "v_head_dim":128,"n_routed_experts":64,"n_shared_experts":2,"moe_intermediate_size":1407})"),
      deepseek("deepseek_v3", "DeepSeek-V3, R1").inside("kimi_k25").class_defaults(kDeepseekV3),
      deepseek("deepseek_v32", "DeepSeek-V3.2").with_indexer()
          .does_not_cover("the scores of sparse attention's indexer").class_defaults(kDeepseekV3),
      deepseek("kimi_k2", "Kimi K2").class_defaults(kDeepseekV3),
      Family("glm4_moe", "GLM-4.5, GLM-4.6").qkv_bias(kAttentionBias)
          .experts("n_routed_experts", "moe_intermediate_size")
          .shared_expert("moe_intermediate_size").shared_times("n_shared_experts")
          .sparse_from("first_k_dense_replace").mtp("num_nextn_predict_layers")
          .class_defaults(R"({"vocab_size":151552,"hidden_size":4096,"intermediate_size":10944,
                              "num_hidden_layers":46,"num_attention_heads":96,"num_key_value_heads":8,
                              "n_routed_experts":128,"n_shared_experts":1,"moe_intermediate_size":1408,
                              "first_k_dense_replace":1,"num_nextn_predict_layers":1})"),
      Family("gpt_oss", "GPT-OSS").qkv_bias(kBiasUnlessFalse).o_bias(kBiasUnlessFalse)
          .experts("num_local_experts", "intermediate_size").expert_bias(kAlways).with_clamped_gate()
          .null_is_value("num_key_value_heads")
          .class_defaults(R"({"vocab_size":201088,"hidden_size":2880,"intermediate_size":2880,
                              "num_hidden_layers":36,"num_attention_heads":64,"num_key_value_heads":8,
                              "head_dim":64,"num_local_experts":128})"),
      Family("phi3", "Phi-3, Phi-4")
          .class_defaults(R"({"vocab_size":32064,"hidden_size":3072,"intermediate_size":8192,
                              "num_hidden_layers":32,"num_attention_heads":32})"),
      Family("minimax_m2", "MiniMax-M2").experts("num_local_experts", "intermediate_size")
          .does_not_cover("layers for multi-token prediction, whose weights are not published",
                          "num_mtp_modules")
          .class_defaults(R"({"vocab_size":200064,"hidden_size":3072,"intermediate_size":1536,
                              "num_hidden_layers":62,"num_attention_heads":48,"num_key_value_heads":8,
                              "head_dim":128,"num_local_experts":256})"),
      Family("hunyuan_v1_moe", "Hunyuan-A13B").with_shared_kv().head_dim_or("attention_head_dim")
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias)
          .experts("num_experts", "moe_intermediate_size").shared_expert("intermediate_size")
          .shared_times("num_shared_expert").shared_if("use_mixed_mlp_moe")
          .sparse_from("moe_layer_num_skipped")
          .class_defaults(R"({"vocab_size":290943,"hidden_size":4096,"intermediate_size":11008,
                              "num_hidden_layers":32,"num_attention_heads":32,"num_experts":1})"),
      Family("nemotron", "Nemotron-4, Minitron").without_gate()
          .qkv_bias(kAttentionBias).o_bias(kAttentionBias).mlp_bias(kMlpBias)
          .class_defaults(R"({"vocab_size":256000,"hidden_size":6144,"intermediate_size":24576,
                              "num_hidden_layers":32,"num_attention_heads":48})"),
  };
}
// clang-format on

}  // namespace

const std::vector<Family>& model_families() {
  static const std::vector<Family> families = make_families();
  return families;
}

const Family* find_family(const std::string& model_type) {
  for (const Family& family : model_families())
    if (model_type == family.model_type) return &family;
  return nullptr;
}

const Family* find_inner_family(const std::string& outer_type) {
  for (const Family& family : model_families())
    if (family.outer_type != nullptr && outer_type == family.outer_type) return &family;
  return nullptr;
}

std::string known_families() {
  std::string text;
  for (const Family& f : model_families())
    absl::StrAppend(&text, text.empty() ? "" : ", ", f.model_type, " (", f.models, ")");
  return text;
}

}  // namespace lathe::models
