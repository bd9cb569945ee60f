#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/files.h"
#include "cli/ops.h"
#include "cli/request_flags.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "models/model_layers.h"
#include "reference/numbers.h"

namespace lathe::cli {
namespace {

// The dtypes and limits of a model's requests.
struct WeightSettings {
  lathe_dtype dtype = LATHE_BF16;  // weights and activations
  // Results and biases of the layers, and the whole output layer, which is never quantised.
  lathe_dtype result = LATHE_BF16;
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  int64_t m_max = 8192, head_m_max = 512, ranks = 1;
};

// The dtype that a config's torch_dtype names; NONE for any other name.
lathe_dtype dtype_of_torch(const std::string& name) {
  if (name == "float32") return LATHE_F32;
  if (name == "float16") return LATHE_F16;
  return name == "bfloat16" ? LATHE_BF16 : LATHE_DTYPE_NONE;
}

absl::StatusOr<WeightSettings> read_settings(const Arguments& arguments, const models::ModelLayers& model) {
  const std::string& path = arguments.words[0];
  WeightSettings settings;
  const lathe_dtype own = dtype_of_torch(model.dtype);
  if (own != LATHE_DTYPE_NONE) settings.result = own;
  if (own == LATHE_DTYPE_NONE && !model.dtype.empty() && !arguments.has("dtype"))
    return absl::InvalidArgumentError(absl::StrCat(path, ": torch_dtype '", model.dtype,
                                                   "' is not float32, float16 or bfloat16: give --dtype T"));
  settings.dtype = settings.result;
  absl::Status s = read_dtype(arguments, "dtype",
                              {"f32", "f16", "bf16", "i8", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"},
                              &settings.dtype);
  const bool is_float =
      settings.dtype == LATHE_F32 || settings.dtype == LATHE_F16 || settings.dtype == LATHE_BF16;
  if (is_float) settings.result = settings.dtype;
  if (s.ok() && own == LATHE_DTYPE_NONE && !(is_float && arguments.has("dtype")))
    std::fprintf(stderr, "lathe: %s has no known torch_dtype: results of the layers are bf16\n",
                 path.c_str());
  if (s.ok()) s = read_choice(arguments, "determinism", kDeterminisms, &settings.determinism);
  if (s.ok()) s = read_integer(arguments, "max-m", 1, INT32_MAX, &settings.m_max);
  if (s.ok()) s = read_integer(arguments, "max-head-m", 1, INT32_MAX, &settings.head_m_max);
  if (!s.ok()) return s;
  return settings;
}

absl::StatusOr<models::ParallelOptions> read_parallel(const Arguments& arguments) {
  models::ParallelOptions parallel;
  absl::Status s = read_integer(arguments, "tp", 1, 4096, &parallel.tensor);
  if (s.ok()) s = read_integer(arguments, "vocab-multiple", 1, 1 << 20, &parallel.vocab_multiple);
  if (!s.ok()) return s;
  parallel.whole_experts = arguments.has("whole-experts");
  return parallel;
}

lathe_gate gate_of(models::Gate gate) {
  switch (gate) {
    case models::Gate::kSilu: return LATHE_GATE_SILU;
    case models::Gate::kGelu: return LATHE_GATE_GELU;
    case models::Gate::kGeluTanh: return LATHE_GATE_GELU_TANH;
    case models::Gate::kRelu: return LATHE_GATE_RELU;
    case models::Gate::kClampedInterleaved: return LATHE_GATE_CLAMPED;
    default: return LATHE_GATE_NONE;
  }
}

// The experts of a layer, for each way in which engines call lathe_grouped_matmul: with the slots of a token apart, with
// the gate in the epilogue of gate_up, and with the slots summed after down.
absl::Status add_experts(const models::ModelLayer& layer, const lathe_matmul_desc& product, int64_t m_max,
                         lathe_manifest* manifest) {
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.m = 1, desc.n = layer.n, desc.k = layer.k, desc.groups = layer.experts, desc.used = layer.used;
  desc.grouping = LATHE_GROUPING_INDEXED;
  desc.a = product.a;
  desc.b = product.b;
  desc.d = product.d;
  desc.epilogue = product.epilogue;
  desc.determinism = product.determinism;
  const auto add_as = [&](const std::string& name) {
    return check(lathe_manifest_add_grouped_matmul(manifest, name.c_str(), &desc, m_max));
  };
  absl::Status s = add_as(layer.name);
  if (s.ok() && layer.is_summed) {
    desc.router_weights = static_cast<const float*>(present());
    s = add_as(layer.name + " summed");
  }
  // A product of i8 has no gate.
  if (!s.ok() || layer.gate == models::Gate::kNone || product.b.dtype == LATHE_I8) return s;
  desc.gate = gate_of(layer.gate);
  if (layer.gate == models::Gate::kClampedInterleaved) desc.gate_layout = LATHE_GATE_INTERLEAVED;
  return add_as(layer.name + " gated");
}

absl::Status add_layer(const models::ModelLayer& layer, const WeightSettings& settings,
                       lathe_manifest* manifest) {
  reference::MatmulRequest request;
  request.m = 1, request.n = layer.n, request.k = layer.k;
  request.dtype = layer.is_head ? settings.result : settings.dtype;
  request.out_dtype = settings.result;
  request.trans_b = layer.weight_is_nk;
  request.bias = layer.bias;
  request.determinism = settings.determinism;
  lathe_tuning tuning;
  const lathe_matmul_desc desc = descriptor(request, &tuning);
  const int64_t m_max = layer.is_head ? settings.head_m_max : settings.m_max;
  if (layer.experts > 0) return add_experts(layer, desc, m_max, manifest);
  absl::Status s = check(lathe_manifest_add_matmul(manifest, layer.name.c_str(), &desc, m_max));
  if (!s.ok() || !layer.is_head) return s;
  // Greedy decoding never stores the logits. With several ranks, the shards' maxima are compared by their values.
  reference::MatmulArgmaxRequest greedy;
  greedy.m = 1, greedy.n = layer.n, greedy.k = layer.k;
  greedy.dtype = greedy.logits_dtype = settings.result;
  greedy.values = settings.ranks > 1;
  greedy.determinism = settings.determinism;
  const lathe_matmul_argmax_desc argmax = descriptor(greedy, &tuning);
  return check(lathe_manifest_add_matmul_argmax(manifest, absl::StrCat(layer.name, " greedy").c_str(),
                                                &argmax, m_max));
}

absl::Status add_notes(const models::ModelLayers& model, const WeightSettings& settings,
                       lathe_manifest* manifest) {
  const std::pair<const char*, std::string> notes[] = {
      {"family", model.family},
      {"tp", absl::StrCat(settings.ranks)},
      {"vocabulary", model.vocabulary},
      {"kv_heads", model.replicates_kv ? "replicated: fewer than ranks" : ""},
      {"filled_in", model.filled_in},
      {"not_covered", absl::StrJoin(model.not_covered, "; ")}};
  absl::Status s;
  for (const auto& [name, text] : notes)
    if (s.ok() && !text.empty()) s = check(lathe_manifest_note(manifest, name, text.c_str()));
  return s;
}

absl::StatusOr<std::string> manifest_text(const models::ModelLayers& model, const WeightSettings& settings) {
  lathe_manifest* made = nullptr;
  if (absl::Status s = check(lathe_manifest_create(&made)); !s.ok()) return s;
  const std::unique_ptr<lathe_manifest, HandleDelete<lathe_manifest, lathe_manifest_destroy>> manifest(made);
  absl::Status s = add_notes(model, settings, made);
  for (size_t i = 0; s.ok() && i < model.layers.size(); ++i) s = add_layer(model.layers[i], settings, made);
  std::vector<Text> pieces;
  if (s.ok()) s = check(lathe_manifest_text(made, collect_text, &pieces));
  if (!s.ok()) return s;
  return pieces.at(0).text;
}

void warn(const Arguments& arguments, const models::ModelLayers& model) {
  const char* path = arguments.words[0].c_str();
  if (model.quantized && !arguments.has("dtype"))
    std::fprintf(
        stderr,
        "lathe: %s has a quantization_config, which is not read: give --dtype T for quantised weights\n",
        path);
  for (const std::string& what : model.not_covered)
    std::fprintf(stderr, "lathe: %s: the manifest does not cover %s\n", path, what.c_str());
}

absl::Status manifest(const Arguments& arguments) {
  const std::string& path = arguments.words[0];
  absl::StatusOr<Json> config = read_json_file(path);
  if (!config.ok()) return config.status();
  absl::StatusOr<models::ParallelOptions> parallel = read_parallel(arguments);
  if (!parallel.ok()) return parallel.status();
  absl::StatusOr<models::ModelLayers> model = models::layers_of(*config, *parallel);
  if (!model.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", model.status().message()));
  absl::StatusOr<WeightSettings> settings = read_settings(arguments, *model);
  if (!settings.ok()) return settings.status();
  settings->ranks = parallel->tensor;
  warn(arguments, *model);
  absl::StatusOr<std::string> text = manifest_text(*model, *settings);
  if (!text.ok()) return text.status();
  if (!arguments.has("output")) {
    std::fputs(text->c_str(), stdout);
    return absl::OkStatus();
  }
  return write_file(arguments.text("output", ""), *text);
}

}  // namespace

Verb manifest_verb() {
  return {
      "manifest",
      "CONFIG.JSON",
      1,
      "write the manifest of a model from its config.json, for 'lathe warm' and lathe_warmup",
      {{"tp", "RANKS", "number of ranks that share each layer; the manifest is for one rank (default: 1)"},
       {"whole-experts", nullptr, "each expert is whole on one rank, not split over the ranks"},
       {"vocab-multiple", "N",
        "your engine pads the rows of the output layer to a multiple of N (default: 64)"},
       {"dtype", "T",
        "dtype of weights and activations: f32, f16, bf16, i8, f8e4m3, f8e5m2, f8e4m3fnuz or f8e5m2fnuz "
        "(default: that of the config); i8 and f8 do not apply to the output layer"},
       {"max-m", "M", "largest number of tokens in one call (default: 8192)"},
       {"max-head-m", "M", "largest number of sequences in one call of the output layer (default: 512)"},
       kDeterminism,
       {"output", "FILE", "file to write (default: standard output)"}},
      {"lathe manifest Llama-3-70B/config.json --tp 8 --output llama.json",
       "lathe manifest DeepSeek-V3/config.json --tp 8 --whole-experts --dtype f8e4m3"},
      manifest};
}

}  // namespace lathe::cli
