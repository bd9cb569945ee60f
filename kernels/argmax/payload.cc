#include "kernels/argmax/payload.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_text.h"
#include "core/kernel_name.h"
#include "kernels/argmax/payload_text.h"

namespace lathe {
namespace {

using argmax_text::operand;
using argmax_text::Outputs;
using argmax_text::TileRows;

// The reduction of a slice of X's rows.
argmax_text::Reduction slice_reduction(const ProblemClass& c, const CompileConfig& config,
                                       const TileRows& rows, absl::string_view index,
                                       absl::string_view first_column) {
  const std::string x(name_of(c.a));
  return {"%slice",
          rows.type(absl::StrCat("?x", x)),
          x,
          "#row",
          std::string(index),
          std::string(first_column),
          absl::StrCat(" attrs = {", config_entries(config), "}")};
}

std::string single_step(const ProblemClass& c, const CompileConfig& config, const std::string& symbol) {
  const TileRows rows(config.tile_m());
  const std::string x(name_of(c.a)), index(name_of(c.d));
  const Outputs out = argmax_text::results(c);
  return absl::StrCat(rows.count(), "    %done", out.values ? ":2" : "", " = scf.forall (%r_id) in (",
                      rows.bound(), ") ", out.bind(), " {\n", rows.place(),
                      "      %slice = tensor.extract_slice %x[", rows.first(), ", 0] [", rows.size(),
                      ", %n] [1, 1] : tensor<?x?x", x, "> to ", rows.type(absl::StrCat("?x", x)), "\n",
                      argmax_text::reduction_start(rows, index),
                      argmax_text::reduce(rows, slice_reduction(c, config, rows, index, "%index_offset")),
                      out.insert(rows, rows.first(), rows.size(), "1", index),
                      argmax_text::step_attributes(symbol, "#gpu.block<x>"));
}

std::string split_steps(const ProblemClass& c, const CompileConfig& config, const std::string& symbol) {
  const std::string x(name_of(c.a));
  const TileRows row(1);
  const Outputs partial{true, "%workspace", "%workspace_indices", "tensor<?x?xf32>", "tensor<?x?xi32>"};
  return absl::StrCat(
      "    %pairs:2 = scf.forall (%s, %r_id) in (%splits, %m) ", partial.bind(), " {\n",
      "      %c0 = affine.apply affine_map<(s)[chunk] -> (s * chunk)>(%s)[%k_chunk]\n",
      "      %length = affine.min affine_map<(first)[chunk, n] -> (chunk, n - first)>(%c0)[%k_chunk, %n]\n",
      "      %slice = tensor.extract_slice %x[%r_id, %c0] [1, %length] [1, 1] : tensor<?x?x", x,
      "> to tensor<1x?x", x, ">\n", argmax_text::reduction_start(row, "i32"),
      argmax_text::reduce(row, slice_reduction(c, config, row, "i32", "%c0")),
      partial.insert(row, "%s, %r_id", "1, 1", "1, 1", "i32"),
      argmax_text::step_attributes(symbol, "#gpu.block<y>, #gpu.block<x>"),
      argmax_text::merge_step(c, row, symbol + "_merge", "%splits"));
}

}  // namespace

std::string argmax_payload(const ProblemClass& c, const CompileConfig& config) {
  const Outputs out = argmax_text::results(c);
  std::vector<std::string> arguments = {operand("x", absl::StrCat("tensor<?x?x", name_of(c.a), ">"), "a"),
                                        operand("indices", out.index_type, "d"), operand("m", "index", "m"),
                                        operand("n", "index", "n"),
                                        operand("index_offset", "index", "index_offset")};
  if (out.values) arguments.push_back(operand("values", out.value_type, "values"));
  if (config.split()) {
    arguments.push_back(operand("splits", "index", "splits"));
    arguments.push_back(operand("k_chunk", "index", "k_chunk"));
    arguments.push_back(operand("workspace", "tensor<?x?xf32>", "workspace"));
    arguments.push_back(operand("workspace_indices", "tensor<?x?xi32>", "workspace_indices"));
  }
  const std::string symbol = kernel_name(c, config);
  return absl::StrCat(config_aliases(config), "#row = affine_map<(r, c) -> (r, c)>\n", argmax_text::kPairMaps,
                      "module {\n  func.func @", symbol, "(", absl::StrJoin(arguments, ",\n      "), ") {\n",
                      config.split() ? split_steps(c, config, symbol) : single_step(c, config, symbol),
                      "    return\n  }\n}\n");
}

Recipe argmax_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes) {
  const bool cpu = target.backend == Backend::kCpu;
  Recipe r;
  Step step;
  step.kind = cpu ? StepKind::kCpuTask : StepKind::kGpuKernel;
  step.symbol = kernel_name(c, config);
  step.block = {static_cast<int32_t>(config.threads()), 1, 1};
  step.grid = {product(1, {{Var::kM, config.tile_m()}}),
               config.split() ? product(1, {{Var::kSplits, 1}}) : constant(1), constant(1)};
  r.steps.push_back(step);
  if (config.split() != kNoSplit) {
    // A chunk is a multiple of one load by each thread, so that loads stay aligned.
    if (const auto* rows = config.find<GpuRowsConfig>()) {
      r.k_granularity = static_cast<int32_t>(rows->tile_n / rows->loads);
      if (rows->chunk > 0) r.k_most = static_cast<int32_t>(rows->chunk);
    }
  }
  if (config.split() == kMergeStep) {
    // An f32 value and an i32 column for each split of each row.
    r.workspace_bytes = product(8, {{Var::kSplits, 1}, {Var::kM, 1}});
    step.symbol += "_merge";
    step.grid = {product(1, {{Var::kM, 1}}), constant(1), constant(1)};
    r.steps.push_back(step);
  } else if (config.split() == kMergeLast) {
    r.counters = product(3, {{Var::kM, 1}});  // a key (emit_keys.h) and a ticket per row
  }
  if (cpu) r.scratch_bytes_per_worker = constant(scratch_bytes);
  return r;
}

}  // namespace lathe
