#include "kernels/argmax/payload.h"

#include "absl/strings/str_cat.h"
#include "compiler/config_text.h"

namespace lathe {
namespace {

// The reduction's body after `%in` (f32) and `%column` (index type) are there: keep the greater value, the
// first of equals, and the first NaN over everything.
std::string keep_better(absl::string_view index) {
  return absl::StrCat(
      "        %greater = arith.cmpf ugt, %in, %best : f32\n"
      "        %open = arith.cmpf ord, %best, %best : f32\n"
      "        %take = arith.andi %greater, %open : i1\n"
      "        %value = arith.select %take, %in, %best : f32\n"
      "        %index = arith.select %take, %column, %at : ",
      index,
      "\n"
      "        linalg.yield %value, %index : f32, ",
      index, "\n");
}

// The rows of one workgroup: how the text names their number.
struct TileRows {
  explicit TileRows(int64_t tile_m) : several(tile_m > 1), tile(tile_m) {}

  bool several;
  int64_t tile;
  std::string size() const { return several ? "%rows" : "1"; }
  std::string first() const { return several ? "%r0" : "%r_id"; }
  std::string type(absl::string_view element) const {
    return absl::StrCat("tensor<", several ? "?" : "1", "x", element, ">");
  }
  // %r0 and %rows of the tile %r_id.
  std::string place() const {
    if (!several) return "";
    return absl::StrCat("      %r0 = affine.apply affine_map<(t) -> (t * ", tile, ")>(%r_id)\n",
                        "      %rows = affine.min affine_map<(first)[m] -> (", tile,
                        ", m - first)>(%r0)[%m]\n");
  }
};

// The reduction over %slice: results %r#0 (values) and %r#1 (columns).
std::string reduce_slice(const ProblemClass& c, const TileRows& rows, absl::string_view index,
                         absl::string_view first_column) {
  const std::string x = std::string(name_of(c.a));
  const std::string widen =
      c.a == DType::kF32 ? "" : absl::StrCat("        %in = arith.extf %x_in : ", x, " to f32\n");
  return absl::StrCat(
      "      %r:2 = linalg.generic {indexing_maps = [#row, #out, #out], iterator_types = [\"parallel\", "
      "\"reduction\"]}\n"
      "          ins(%slice : ",
      rows.type(absl::StrCat("?x", x)), ") outs(%least, %first : ", rows.type("f32"), ", ", rows.type(index),
      ")\n"
      "          attrs = {lathe.config = #config} {\n"
      "      ^bb0(%",
      c.a == DType::kF32 ? "in" : "x_in", ": ", x, ", %best: f32, %at: ", index, "):\n", widen,
      "        %i = linalg.index 1 : index\n        %j = arith.addi %i, ", first_column, " : index\n",
      "        %column = arith.index_cast %j : index to ", index, "\n", keep_better(index), "      } -> (",
      rows.type("f32"), ", ", rows.type(index), ")\n");
}

std::string reduction_start(const TileRows& rows, absl::string_view index) {
  const std::string size = rows.several ? "%rows" : "", value = rows.type("f32"), at = rows.type(index);
  return absl::StrCat(
      "      %lowest = arith.constant 0xFF800000 : f32\n      %zero = arith.constant 0 : ", index, "\n",
      "      %empty_value = tensor.empty(", size, ") : ", value, "\n      %empty_index = tensor.empty(", size,
      ") : ", at, "\n", "      %least = linalg.fill ins(%lowest : f32) outs(%empty_value : ", value, ") -> ",
      value, "\n      %first = linalg.fill ins(%zero : ", index, ") outs(%empty_index : ", at, ") -> ", at,
      "\n");
}

// The forall's shared outputs and what they are bound to: (value, index), the value left out if nobody wants
// it.
struct Outputs {
  bool values;
  std::string value_operand, index_operand, value_type, index_type;

  std::string bind() const {
    return values ? absl::StrCat("shared_outs(%v = ", value_operand, ", %o = ", index_operand, ") -> (",
                                 value_type, ", ", index_type, ")")
                  : absl::StrCat("shared_outs(%o = ", index_operand, ") -> (", index_type, ")");
  }
  std::string insert(const TileRows& rows, absl::string_view at, absl::string_view sizes,
                     absl::string_view ones, absl::string_view index) const {
    auto one = [&](absl::string_view result, absl::string_view out, absl::string_view element,
                   const std::string& type) {
      return absl::StrCat("        tensor.parallel_insert_slice ", result, " into ", out, "[", at, "] [",
                          sizes, "] [", ones, "] : ", rows.type(element), " into ", type, "\n");
    };
    return absl::StrCat("      scf.forall.in_parallel {\n", one("%r#1", "%o", index, index_type),
                        values ? one("%r#0", "%v", "f32", value_type) : "", "      }\n");
  }
};

std::string operand(absl::string_view name, absl::string_view type, absl::string_view field) {
  return absl::StrCat("%", name, ": ", type, " {lathe.operand = \"", field, "\"}");
}

std::string step_attributes(const std::string& symbol, absl::string_view mapping) {
  return absl::StrCat("    } {lathe.step = \"", symbol, "\", mapping = [", mapping, "]}\n");
}

std::string single_step(const ProblemClass& c, const TileRows& rows, const std::string& symbol,
                        const Outputs& out, absl::string_view index) {
  const std::string x = std::string(name_of(c.a));
  return absl::StrCat(
      rows.several
          ? absl::StrCat("    %tiles = affine.apply affine_map<()[m] -> (m ceildiv ", rows.tile, ")>()[%m]\n")
          : "",
      "    %done", out.values ? ":2" : "", " = scf.forall (%r_id) in (", rows.several ? "%tiles" : "%m", ") ",
      out.bind(), " {\n", rows.place(), "      %slice = tensor.extract_slice %x[", rows.first(), ", 0] [",
      rows.size(), ", %n] [1, 1] : tensor<?x?x", x, "> to ", rows.type(absl::StrCat("?x", x)), "\n",
      reduction_start(rows, index), reduce_slice(c, rows, index, "%index_offset"),
      out.insert(rows, rows.first(), rows.size(), "1", index), step_attributes(symbol, "#gpu.block<x>"));
}

std::string split_steps(const ProblemClass& c, const std::string& symbol, const Outputs& out,
                        absl::string_view index) {
  const std::string x = std::string(name_of(c.a));
  const TileRows row(1);
  Outputs partial{true, "%workspace", "%workspace_indices", "tensor<?x?xf32>", "tensor<?x?xi32>"};
  std::string merge_body = absl::StrCat(
      "      ^bb0(%in: f32, %part: i32, %best: f32, %at: ", index,
      "):\n        %p = arith.index_cast %part : i32 to index\n",
      "        %j = arith.addi %p, %index_offset : index\n        %column = arith.index_cast %j : index to ",
      index, "\n", keep_better(index));
  return absl::StrCat(
      "    %pairs:2 = scf.forall (%s, %r_id) in (%splits, %m) ", partial.bind(), " {\n",
      "      %c0 = affine.apply affine_map<(s)[chunk] -> (s * chunk)>(%s)[%k_chunk]\n",
      "      %length = affine.min affine_map<(first)[chunk, n] -> (chunk, n - first)>(%c0)[%k_chunk, %n]\n",
      "      %slice = tensor.extract_slice %x[%r_id, %c0] [1, %length] [1, 1] : tensor<?x?x", x,
      "> to tensor<1x?x", x, ">\n", reduction_start(row, "i32"), reduce_slice(c, row, "i32", "%c0"),
      partial.insert(row, "%s, %r_id", "1, 1", "1, 1", "i32"),
      step_attributes(symbol, "#gpu.block<y>, #gpu.block<x>"), "    %done", out.values ? ":2" : "",
      " = scf.forall (%r_id) in (%m) ", out.bind(), " {\n",
      "      %value_slice = tensor.extract_slice %pairs#0[0, %r_id] [%splits, 1] [1, 1] : tensor<?x?xf32> to "
      "tensor<?x1xf32>\n",
      "      %index_slice = tensor.extract_slice %pairs#1[0, %r_id] [%splits, 1] [1, 1] : tensor<?x?xi32> to "
      "tensor<?x1xi32>\n",
      reduction_start(row, index),
      "      %r:2 = linalg.generic {indexing_maps = [#pair, #pair, #out, #out], iterator_types = "
      "[\"parallel\", \"reduction\"]}\n",
      "          ins(%value_slice, %index_slice : tensor<?x1xf32>, tensor<?x1xi32>)\n",
      "          outs(%least, %first : tensor<1xf32>, tensor<1x", index,
      ">) attrs = {lathe.config = #config} {\n", merge_body, "      } -> (tensor<1xf32>, tensor<1x", index,
      ">)\n", out.insert(row, "%r_id", "1", "1", index), step_attributes(symbol + "_merge", "#gpu.block<x>"));
}

}  // namespace

std::string argmax_symbol(const ProblemClass& c, const CompileConfig& config) {
  const std::string hi = c.row_hi == Bucket::kOpenEnd ? "up" : absl::StrCat("to", c.row_hi);
  return absl::StrCat("lathe_argmax_", name_of(c.a), "_", name_of(c.d), "_n", c.row_lo, hi, "_",
                      config.kernel,
                      c.alignment == Alignment::kByte ? "_byte"
                      : c.alignment == Alignment::k16 ? "_a16"
                                                      : "");
}

std::string argmax_payload(const ProblemClass& c, const CompileConfig& config) {
  const std::string index(name_of(c.d));
  Outputs out{c.wants_values != 0, "%values", "%indices", "tensor<?xf32>",
              absl::StrCat("tensor<?x", index, ">")};
  std::vector<std::string> arguments = {operand("x", absl::StrCat("tensor<?x?x", name_of(c.a), ">"), "a"),
                                        operand("indices", out.index_type, "d"), operand("m", "index", "m"),
                                        operand("n", "index", "n"),
                                        operand("index_offset", "index", "index_offset")};
  if (out.values) arguments.push_back(operand("values", out.value_type, "values"));
  if (config.split) {
    arguments.push_back(operand("splits", "index", "splits"));
    arguments.push_back(operand("k_chunk", "index", "k_chunk"));
    arguments.push_back(operand("workspace", "tensor<?x?xf32>", "workspace"));
    arguments.push_back(operand("workspace_indices", "tensor<?x?xi32>", "workspace_indices"));
  }
  std::string text =
      absl::StrCat("#config = ", kernel_config_text(config),
                   "\n#row = affine_map<(r, c) -> (r, c)>\n#pair = affine_map<(r, s) -> (s, r)>\n"
                   "#out = affine_map<(r, c) -> (r)>\nmodule {\n  func.func @",
                   argmax_symbol(c, config), "(");
  for (size_t i = 0; i < arguments.size(); ++i) absl::StrAppend(&text, i ? ",\n      " : "", arguments[i]);
  const std::string symbol = argmax_symbol(c, config);
  return absl::StrCat(text, ") {\n",
                      config.split ? split_steps(c, symbol, out, index)
                                   : single_step(c, TileRows(config.tile_m), symbol, out, index),
                      "    return\n  }\n}\n");
}

Recipe argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes) {
  const bool cpu = target.backend == Backend::kCpu;
  Recipe r;
  Step step;
  step.kind = cpu ? StepKind::kCpuTask : StepKind::kGpuKernel;
  step.symbol = argmax_symbol(c, config);
  step.block = {config.threads, 1, 1};
  step.grid = {product(1, {{Var::kM, config.tile_m}}),
               config.split ? product(1, {{Var::kSplits, 1}}) : constant(1), constant(1)};
  r.steps.push_back(step);
  if (config.split != kNoSplit) {
    // An f32 value and an i32 column for every split of every row.
    r.workspace_bytes = product(8, {{Var::kSplits, 1}, {Var::kM, 1}});
    // A chunk starts where its threads' loads may, and is at least one load of each.
    if (!cpu) r.k_granularity = config.tile_n / config.unroll_k;
    if (config.tile_k > 0) r.k_most = config.tile_k;
  }
  if (config.split == kMergeStep) {
    step.symbol += "_merge";
    step.grid = {product(1, {{Var::kM, 1}}), constant(1), constant(1)};
    r.steps.push_back(step);
  } else if (config.split == kMergeLast) {
    r.counters = product(1, {{Var::kM, 1}});
  }
  if (cpu) r.scratch_bytes_per_worker = constant(scratch_bytes);
  return r;
}

}  // namespace lathe
