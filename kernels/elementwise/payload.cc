#include "kernels/elementwise/payload.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/config_text.h"
#include "core/kernel_name.h"

namespace lathe {
namespace {

// The slots' names in the argument block, in their order.
constexpr const char* kSlots[] = {"a", "b", "c", "residual", "bias"};

const char* slot_of(const ElementwiseInput& input) { return kSlots[static_cast<size_t>(input.slot)]; }
bool is_bias(const ElementwiseInput& input) { return input.slot == ElementwiseSlot::kBias; }

std::string operand(absl::string_view field, absl::string_view type) {
  return absl::StrCat("%", field, ": ", type, " {lathe.operand = \"", field, "\"}");
}

std::string whole_type(const ElementwiseInput& input) {
  return absl::StrCat(is_bias(input) ? "tensor<?x" : "tensor<?x?x?x", name_of(input.dtype), ">");
}

// A tile of an input: where it starts, its size, its type, and its indexing map.
struct Slice {
  std::string first, sizes, ones, type, map;
};
Slice slice_of(const ElementwiseInput& input) {
  const std::string dtype(name_of(input.dtype));
  if (is_bias(input))
    return {"%c0", "%columns", "1", absl::StrCat("tensor<?x", dtype, ">"), "affine_map<(b, m, n) -> (n)>"};
  const bool turned = input.along_m;
  const auto pick = [&](const char* m, const char* n, const char* absent_m, const char* absent_n) {
    const std::string rows = input.m ? m : absent_m, columns = input.n ? n : absent_n;
    return turned ? std::make_pair(columns, rows) : std::make_pair(rows, columns);
  };
  const auto first = pick("%r0", "%c0", "0", "0"), size = pick("%rows", "%columns", "1", "1"),
             extent = pick("?", "?", "1", "1"), loop = pick("m", "n", "0", "0");
  return {absl::StrCat(input.batch ? "%z" : "0", ", ", first.first, ", ", first.second),
          absl::StrCat("1, ", size.first, ", ", size.second), "1, 1, 1",
          absl::StrCat("tensor<1x", extent.first, "x", extent.second, "x", dtype, ">"),
          absl::StrCat("affine_map<(b, m, n) -> (b, ", loop.first, ", ", loop.second, ")>")};
}

// A float as MLIR reads it, which rounds it to its type. Infinities and NaN are written as bits.
std::string number_text(const ElementwiseNode& node) {
  if (node.type == NodeType::kI1) return node.integer != 0 ? "true" : "false";
  if (!is_float(node.type)) return absl::StrCat(node.integer, " : ", std::string(name_of(node.type)));
  std::string text;
  if (std::isfinite(node.number)) {
    text = absl::StrFormat("%.17e", node.number);
  } else {
    const bool nan = std::isnan(node.number), negative = node.number < 0;
    const char* bits = node.type == NodeType::kF32   ? (nan        ? "0x7FC00000"
                                                        : negative ? "0xFF800000"
                                                                   : "0x7F800000")
                       : node.type == NodeType::kF16 ? (nan        ? "0x7E00"
                                                        : negative ? "0xFC00"
                                                                   : "0x7C00")
                                                     : (nan        ? "0x7FC0"
                                                        : negative ? "0xFF80"
                                                                   : "0x7F80");
    text = bits;
  }
  return absl::StrCat(text, " : ", std::string(name_of(node.type)));
}

// The name of the program's value `number`.
std::string value_name(const ElementwiseProgram& p, int32_t number) {
  const auto inputs = static_cast<int32_t>(p.inputs.size());
  return number < inputs ? absl::StrCat("%in", number) : absl::StrCat("%v", number);
}

std::string node_text(const ElementwiseProgram& p, const ElementwiseNode& node, int32_t number) {
  const std::string made = value_name(p, number), type(name_of(node.type));
  const auto value = [&](size_t i) { return value_name(p, node.values[i]); };
  const auto from = [&] { return std::string(name_of(p.type_of(node.values[0]))); };
  switch (node.signature) {
    case NodeSignature::kNumber: return absl::StrCat(made, " = arith.constant ", number_text(node));
    case NodeSignature::kIndex: {
      // The index within the tile, and then in the whole tensor.
      constexpr const char* kFirst[] = {"%matrix", "%r0", "%c0"};
      return absl::StrCat(made, "_tile = linalg.index ", node.integer, " : index\n        ", made,
                          " = arith.addi ", made, "_tile, ", kFirst[node.integer], " : index");
    }
    case NodeSignature::kWiden:
    case NodeSignature::kNarrow:
    case NodeSignature::kExtend:
    case NodeSignature::kTruncate:
    case NodeSignature::kFromInteger:
    case NodeSignature::kIndexCast:
      return absl::StrCat(made, " = ", node.name, " ", value(0), " : ", from(), " to ", type);
    case NodeSignature::kSelect:
      return absl::StrCat(made, " = arith.select ", value(0), ", ", value(1), ", ", value(2), " : ", type);
    case NodeSignature::kCompareFloats:
    case NodeSignature::kCompareIntegers:
      return absl::StrCat(made, " = ", node.name, " ", node.predicate, ", ", value(0), ", ", value(1), " : ",
                          from());
    case NodeSignature::kFloat1: return absl::StrCat(made, " = ", node.name, " ", value(0), " : ", type);
    case NodeSignature::kFloat2:
    case NodeSignature::kInteger2: break;
  }
  return absl::StrCat(made, " = ", node.name, " ", value(0), ", ", value(1), " : ", type);
}

std::string body(const ElementwiseProgram& p) {
  std::string text = "      ^bb0(";
  for (size_t i = 0; i < p.inputs.size(); ++i)
    absl::StrAppend(&text, "%in", i, ": ", name_of(p.inputs[i].dtype), ", ");
  absl::StrAppend(&text, "%unread: ", name_of(p.d), "):\n");
  auto number = static_cast<int32_t>(p.inputs.size());
  for (const ElementwiseNode& node : p.nodes)
    absl::StrAppend(&text, "        ", node_text(p, node, number++), "\n");
  absl::StrAppend(&text, "        linalg.yield ", value_name(p, p.yield), " : ", name_of(p.d), "\n");
  return text;
}

// Lines that define the tile's position and size.
std::string place(const CompileConfig& c) {
  return absl::StrFormat(
      "      %%z = affine.apply affine_map<(t)[tiles] -> (t floordiv tiles)>(%%t)[%%tiles]\n"
      "      %%of_matrix = affine.apply affine_map<(t)[tiles] -> (t mod tiles)>(%%t)[%%tiles]\n"
      "      %%r0 = affine.apply affine_map<(t)[columns] -> (t floordiv columns * "
      "%d)>(%%of_matrix)[%%column_tiles]\n"
      "      %%c0 = affine.apply affine_map<(t)[columns] -> (t mod columns * "
      "%d)>(%%of_matrix)[%%column_tiles]\n"
      "      %%rows = affine.min affine_map<(first)[m] -> (%d, m - first)>(%%r0)[%%m]\n"
      "      %%columns = affine.min affine_map<(first)[n] -> (%d, n - first)>(%%c0)[%%n]\n",
      c.tile_m(), c.tile_n(), c.tile_m(), c.tile_n());
}

// Whether the program reads the batch index, which starts at index_offset for the launch's part of the batch.
bool reads_batch(const ElementwiseProgram& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const ElementwiseNode& node) {
    return node.signature == NodeSignature::kIndex && node.integer == 0;
  });
}

// The inputs' slices and the linalg.generic over them.
std::string compute(const ElementwiseProgram& p, const std::string& tile) {
  std::string slices;
  std::vector<std::string> names, types, maps;
  if (reads_batch(p)) slices = "      %matrix = arith.addi %z, %index_offset : index\n";
  for (const ElementwiseInput& input : p.inputs) {
    const Slice s = slice_of(input);
    const std::string slot = slot_of(input);
    absl::StrAppend(&slices, "      %", slot, "_tile = tensor.extract_slice %", slot, "[", s.first, "] [",
                    s.sizes, "] [", s.ones, "] : ", whole_type(input), " to ", s.type, "\n");
    names.push_back(absl::StrCat("%", slot, "_tile"));
    types.push_back(s.type);
    maps.push_back(s.map);
  }
  maps.push_back("affine_map<(b, m, n) -> (b, m, n)>");
  const std::string ins = names.empty() ? ""
                                        : absl::StrCat("ins(", absl::StrJoin(names, ", "), " : ",
                                                       absl::StrJoin(types, ", "), ") ");
  return absl::StrCat(slices, "      %result = linalg.generic {indexing_maps = [", absl::StrJoin(maps, ", "),
                      "], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]}\n          ", ins,
                      "outs(%d_tile : ", tile, ") attrs = {lathe.config = #config} {\n", body(p),
                      "      } -> ", tile, "\n");
}

}  // namespace

std::string elementwise_payload(const ProblemClass& c, const CompileConfig& config,
                                const ElementwiseProgram& program) {
  const std::string symbol = kernel_name(c, config), d = absl::StrCat("tensor<?x?x?x", name_of(c.d), ">"),
                    tile = absl::StrCat("tensor<1x?x?x", name_of(c.d), ">");
  std::vector<std::string> arguments;
  for (const ElementwiseInput& input : program.inputs)
    arguments.push_back(operand(slot_of(input), whole_type(input)));
  arguments.push_back(operand("d", d));
  for (const char* size : {"m", "n", "batch"}) arguments.push_back(operand(size, "index"));
  if (reads_batch(program)) arguments.push_back(operand("index_offset", "index"));
  const std::string at = "[%z, %r0, %c0] [1, %rows, %columns] [1, 1, 1]";
  return absl::StrCat(
      config_aliases(config), "module {\n  func.func @", symbol, "(", absl::StrJoin(arguments, ",\n      "),
      ") {\n", "    %row_tiles = affine.apply affine_map<()[m] -> (m ceildiv ", config.tile_m(), ")>()[%m]\n",
      "    %column_tiles = affine.apply affine_map<()[n] -> (n ceildiv ", config.tile_n(), ")>()[%n]\n",
      "    %tiles = affine.apply affine_map<()[rows, columns] -> (rows * columns)>()[%row_tiles, "
      "%column_tiles]\n",
      "    %all = affine.apply affine_map<()[batch, tiles] -> (batch * tiles)>()[%batch, %tiles]\n",
      "    %done = scf.forall (%t) in (%all) shared_outs(%out = %d) -> (", d, ") {\n", place(config),
      "      %d_tile = tensor.extract_slice %out", at, " : ", d, " to ", tile, "\n", compute(program, tile),
      "      scf.forall.in_parallel {\n        tensor.parallel_insert_slice %result into %out", at, " : ",
      tile, " into ", d, "\n      }\n    } {mapping = [#gpu.block<x>], ", "lathe.step = \"", symbol,
      "\"}\n    return\n  }\n}\n");
}

Recipe elementwise_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target, int64_t) {
  Step step;
  step.kind = target.backend == Backend::kCpu ? StepKind::kCpuTask : StepKind::kGpuKernel;
  step.symbol = kernel_name(c, config);
  step.block = {static_cast<int32_t>(config.threads()), 1, 1};
  // All tiles lie along x, the only dimension of a GPU's grid that may have any length.
  step.grid = {product(1, {{Var::kBatch, 1}, {Var::kM, config.tile_m()}, {Var::kN, config.tile_n()}}),
               constant(1), constant(1)};
  Recipe r;
  r.steps.push_back(step);
  return r;
}

}  // namespace lathe
