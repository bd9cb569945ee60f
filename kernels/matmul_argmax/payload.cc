#include "kernels/matmul_argmax/payload.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "compiler/config_text.h"
#include "core/generic.h"
#include "core/kernel_name.h"
#include "kernels/argmax/payload_text.h"

namespace lathe {
namespace {

using argmax_text::operand;
using argmax_text::Outputs;
using argmax_text::TileRows;

// Builds the text for one class and plan.
class PayloadText {
 public:
  PayloadText(const ProblemClass& c, const CompileConfig& config)
      : c_(c),
        config_(config),
        rows_(config.tile_m(), c.m_lo == c.m_hi && c.m_hi <= config.tile_m() ? c.m_hi : 0),
        n_(c.generic ? "?" : absl::StrCat(c.n)),
        k_(c.generic ? "?" : absl::StrCat(c.k)),
        column_tiles_(c.generic ? "%column_tiles" : absl::StrCat(ceil_div(c.n, config.tile_n()))) {}

  std::string build() const {
    const Outputs out = argmax_text::results(c_);
    const std::string symbol = kernel_name(c_, config_);
    std::vector<std::string> arguments = {operand("a", whole_a(), "a"), operand_b()};
    if (bias() != DType::kNone) arguments.push_back(operand("bias", whole_bias(), "bias"));
    arguments.push_back(operand("indices", out.index_type, "d"));
    if (out.values) arguments.push_back(operand("values", out.value_type, "values"));
    arguments.push_back(operand("m", "index", "m"));
    arguments.push_back(operand("index_offset", "index", "index_offset"));
    if (c_.generic)
      for (const char* field : {"n", "k", "form"}) arguments.push_back(operand(field, "index", field));
    const Outputs pairs = {true, "%workspace", "%workspace_indices", pairs_type("f32"), pairs_type("i32")};
    if (merges()) {
      arguments.push_back(operand("workspace", pairs.value_type, "workspace"));
      arguments.push_back(operand("workspace_indices", pairs.index_type, "workspace_indices"));
    }
    return absl::StrCat(
        "#config = ", kernel_config_text(config_), "\n#tile = affine_map<(b, m, n) -> (b, m, n)>\n",
        "#columns = affine_map<(b, m, n) -> (n)>\n#logit = affine_map<(r, c) -> (0, r, c)>\n",
        argmax_text::kPairMaps, "module {\n  func.func @", symbol, "(", absl::StrJoin(arguments, ",\n      "),
        ") {\n", rows_.count(), c_.generic ? open_sizes() : "",
        merges() ? tile_step(symbol, "%pairs:2", pairs, "i32", "%n0", absl::StrCat("%y, ", rows_.first()),
                             absl::StrCat("1, ", rows_.size()), "1, 1")
                 : tile_step(symbol, out.values ? "%done:2" : "%done", out, std::string(name_of(c_.d)),
                             "%index_offset", rows_.first(), rows_.size(), "1"),
        merges() ? argmax_text::merge_step(c_, config_.split() == kMergeStep ? TileRows(1) : rows_,
                                           symbol + "_merge", column_tiles_)
                 : "",
        "    return\n  }\n}\n");
  }

 private:
  bool merges() const { return config_.split() != kNoSplit; }
  // If all tiles have the same width, it is a constant.
  bool ragged() const { return c_.generic || c_.n % config_.tile_n() != 0; }
  // A generic kernel always has a bias, which reads as 0 if the request has none.
  DType bias() const { return c_.generic ? DType::kF32 : c_.bias; }
  std::string columns() const { return ragged() ? "%columns" : absl::StrCat(config_.tile_n()); }

  // The type's name in MLIR. For blocks it is a stand-in; lathe.blocks names the format.
  static std::string element(DType t) { return is_blocks(t) ? "i4" : std::string(name_of(t)); }
  static std::string tensor(const std::vector<std::string>& sizes, DType t) {
    return absl::StrCat("tensor<", absl::StrJoin(sizes, "x"), "x", element(t), ">");
  }
  std::string tile_rows() const { return rows_.extent(); }
  std::string tile_columns() const { return ragged() ? "?" : absl::StrCat(config_.tile_n()); }

  // An operand's type from its three sizes. The last two are in memory order.
  std::string a_type(const std::string& batch, const std::string& m) const {
    const std::string& k = k_;
    return c_.trans_a ? tensor({batch, k, m}, c_.a) : tensor({batch, m, k}, c_.a);
  }
  std::string b_type(const std::string& batch, const std::string& n) const {
    const std::string& k = k_;
    return c_.trans_b ? tensor({batch, n, k}, c_.b) : tensor({batch, k, n}, c_.b);
  }
  std::string whole_a() const { return a_type("?", "?"); }
  std::string whole_b() const { return b_type("?", n_); }
  std::string operand_b() const {
    if (!is_blocks(c_.b)) return operand("b", whole_b(), "b");
    return absl::StrCat("%b: ", whole_b(), " {lathe.operand = \"b\", lathe.blocks = \"", name_of(c_.b),
                        "\"}");
  }
  std::string whole_bias() const { return tensor({n_}, bias()); }
  std::string tile(DType t) const { return tensor({"1", tile_rows(), tile_columns()}, t); }
  std::string pairs_type(const char* element) const {
    return absl::StrCat("tensor<", c_.generic ? "?" : column_tiles_, "x?x", element, ">");
  }

  // Lines that take the tile's slices of the operands.
  std::string slices() const {
    const std::string k = c_.generic ? "%k" : k_, ones = "] [1, 1, 1] : ";
    const auto in_order = [&](bool transposed, const std::string& across, const std::string& along) {
      return transposed ? absl::StrCat(along, ", ", across) : absl::StrCat(across, ", ", along);
    };
    std::string text = absl::StrCat(
        "      %a_tile = tensor.extract_slice %a[0, ", in_order(c_.trans_a, rows_.first(), "0"), "] [1, ",
        in_order(c_.trans_a, rows_.size(), k), ones, whole_a(), " to ", a_type("1", tile_rows()), "\n",
        "      %b_tile = tensor.extract_slice %b[0, ", in_order(c_.trans_b == 0, "%n0", "0"), "] [1, ",
        in_order(c_.trans_b == 0, columns(), k), ones, whole_b(), " to ", b_type("1", tile_columns()), "\n");
    if (bias() != DType::kNone)
      absl::StrAppend(&text, "      %bias_tile = tensor.extract_slice %bias[%n0] [", columns(),
                      "] [1] : ", whole_bias(), " to ", tensor({tile_columns()}, bias()), "\n");
    return text;
  }

  // Lines that compute the tile's logits from A, B and the bias.
  std::string logits() const {
    const bool has_bias = bias() != DType::kNone, widen = has_bias && bias() != DType::kF32;
    const std::string product = tile(DType::kF32), sizes = absl::StrJoin(dynamic_sizes(), ", ");
    const std::string logits_type = tile(c_.logits), sum = has_bias ? "%sum" : "%x";
    std::string body;
    if (widen) absl::StrAppend(&body, "        %wide = arith.extf %bias_in : ", name_of(bias()), " to f32\n");
    if (has_bias)
      absl::StrAppend(&body, "        %sum = arith.addf %x, ", widen ? "%wide" : "%bias_in", " : f32\n");
    const bool rounds = c_.generic || c_.logits != DType::kF32;
    if (c_.generic)
      absl::StrAppend(&body, round_to_any(sum));
    else if (rounds)
      absl::StrAppend(&body, "        %rounded = arith.truncf ", sum, " : f32 to ", name_of(c_.logits), "\n");
    return absl::StrCat(
        "      %nought = arith.constant 0.0 : f32\n      %empty = tensor.empty(", sizes, ") : ", product,
        "\n      %init = linalg.fill ins(%nought : f32) outs(%empty : ", product, ") -> ", product,
        "\n      %product = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> ",
        c_.trans_a ? "(b, k, m)" : "(b, m, k)", ">, affine_map<(b, m, n, k) -> ",
        c_.trans_b ? "(b, n, k)" : "(b, k, n)", ">, affine_map<(b, m, n, k) -> (b, m, n)>]\n",
        "          {lathe.config = #config", c_.math == Math::kBf16 ? ", lathe.rounds_a" : "",
        "} ins(%a_tile, %b_tile : ", a_type("1", tile_rows()), ", ", b_type("1", tile_columns()),
        ") outs(%init : ", product, ") -> ", product, "\n      %empty_logits = tensor.empty(", sizes,
        ") : ", logits_type, "\n      %logits = linalg.generic {indexing_maps = [#tile",
        has_bias ? ", #columns" : "",
        ", #tile], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]}\n          ins(%product",
        has_bias ? ", %bias_tile" : "", " : ", product,
        has_bias ? absl::StrCat(", ", tensor({tile_columns()}, bias())) : "",
        ") outs(%empty_logits : ", logits_type, ") {\n      ^bb0(%x: f32, ",
        has_bias ? absl::StrCat("%bias_in: ", name_of(bias()), ", ") : "", "%unused: ", name_of(c_.logits),
        "):\n", body, "        linalg.yield ", rounds ? "%rounded" : sum, " : ", name_of(c_.logits),
        "\n      } -> ", logits_type, "\n");
  }

  std::string tile_width() const {
    const char* symbol = c_.generic ? "[n]" : "";
    return absl::StrCat("      %columns = affine.min affine_map<(first)", symbol, " -> (", config_.tile_n(),
                        ", ", c_.generic ? "n" : n_, " - first)>(%n0)", c_.generic ? "[%n]" : "", "\n");
  }

  // Lines of a generic kernel before its steps: the number of column tiles, and the logits' dtype, which
  // `form` encodes.
  std::string open_sizes() const {
    std::string text = absl::StrCat(
        "    %column_tiles = affine.apply affine_map<()[n] -> (n ceildiv ", config_.tile_n(), ")>()[%n]\n",
        "    %logits_at = arith.constant ", Form::kLogits, " : index\n    %logits_mask = arith.constant ",
        (1 << Form::kBits) - 1, " : index\n    %shifted = arith.shrui %form, %logits_at : index\n",
        "    %logits_dtype = arith.andi %shifted, %logits_mask : index\n");
    for (DType t : {DType::kF16, DType::kBF16})
      absl::StrAppend(&text, "    %number_", name_of(t), " = arith.constant ", static_cast<int32_t>(t),
                      " : index\n    %is_", name_of(t), " = arith.cmpi eq, %logits_dtype, %number_",
                      name_of(t), " : index\n");
    return text;
  }
  // Lines that define %rounded: `sum` rounded to the logits' dtype, as f32.
  static std::string round_to_any(const std::string& sum) {
    std::string text, last = sum;
    for (DType t : {DType::kF16, DType::kBF16}) {
      const std::string name(name_of(t)), next = t == DType::kBF16 ? "%rounded" : "%as_" + name;
      absl::StrAppend(&text, "        %narrow_", name, " = arith.truncf ", sum, " : f32 to ", name,
                      "\n        %wide_", name, " = arith.extf %narrow_", name, " : ", name,
                      " to f32\n        ", next, " = arith.select %is_", name, ", %wide_", name, ", ", last,
                      " : f32\n");
      last = next;
    }
    return text;
  }

  std::vector<std::string> dynamic_sizes() const {
    std::vector<std::string> sizes;
    if (!rows_.known()) sizes.push_back("%rows");
    if (ragged()) sizes.push_back("%columns");
    return sizes;
  }

  // The step of the tiles (%y, %r_id). It writes `out` at [at] [sizes]; columns have the type `index` and are
  // counted from `first_column`.
  std::string tile_step(const std::string& symbol, absl::string_view results, const Outputs& out,
                        const std::string& index, const std::string& first_column, const std::string& at,
                        const std::string& sizes, absl::string_view ones) const {
    const argmax_text::Reduction reduction = {
        "%logits", tile(c_.logits), std::string(name_of(c_.logits)), "#logit", index, first_column, ""};
    return absl::StrCat("    ", results, " = scf.forall (%y, %r_id) in (", column_tiles_, ", ", rows_.bound(),
                        ") ", out.bind(), " {\n", rows_.place(),
                        "      %n0 = affine.apply affine_map<(y) -> (y * ", config_.tile_n(), ")>(%y)\n",
                        ragged() ? tile_width() : "", slices(), logits(),
                        argmax_text::reduction_start(rows_, index), argmax_text::reduce(rows_, reduction),
                        out.insert(rows_, at, sizes, ones, index),
                        argmax_text::step_attributes(symbol, "#gpu.block<y>, #gpu.block<x>"));
  }

  const ProblemClass& c_;
  const CompileConfig& config_;
  TileRows rows_;
  const std::string n_, k_;         // extents, "?" if not static
  const std::string column_tiles_;  // a number, or the name of a value
};

}  // namespace

std::string matmul_argmax_payload(const ProblemClass& c, const CompileConfig& config) {
  return PayloadText(c, config).build();
}

Recipe matmul_argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                            int64_t scratch_bytes) {
  const bool cpu = target.backend == Backend::kCpu;
  Recipe r;
  Step step;
  step.kind = cpu ? StepKind::kCpuTask : StepKind::kGpuKernel;
  step.symbol = kernel_name(c, config);
  step.block = {static_cast<int32_t>(config.threads()), 1, 1};
  step.grid = {product(1, {{Var::kM, config.tile_m()}}), product(1, {{Var::kN, config.tile_n()}}),
               constant(1)};
  if (config.persistent()) step.grid = {constant(config.persistent()), constant(1), constant(1)};
  r.steps.push_back(step);
  if (config.split() == kMergeStep) {
    // An f32 value and an i32 column for each column tile of each row.
    r.workspace_bytes = product(8, {{Var::kM, 1}, {Var::kN, config.tile_n()}});
    step.symbol += "_merge";
    step.grid = {product(1, {{Var::kM, 1}}), constant(1), constant(1)};
    r.steps.push_back(step);
  } else if (config.split() == kMergeLast) {
    // A key (kernels/argmax/emit_keys.h) per row, a ticket per row tile.
    r.counters = {Term{2, {{Var::kM, 1}}}, Term{1, {{Var::kM, config.tile_m()}}}};
  }
  if (cpu) r.scratch_bytes_per_worker = constant(scratch_bytes);
  return r;
}

}  // namespace lathe
