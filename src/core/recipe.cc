#include "core/recipe.h"

#include <algorithm>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

// Limits of a parsed recipe: far above any real recipe, but small enough to make a malicious one harmless.
constexpr size_t kMaxSteps = 64, kMaxTerms = 64, kMaxFactors = 16, kMaxStrings = 64, kMaxTensorMaps = 8;
// The limit of CUDA and HIP for the y and z dimensions of a grid, which number the splits.
constexpr int64_t kMostSplits = 65535;
constexpr absl::string_view kVarNames[kVarCount] = {"m", "n", "k", "batch", "splits", "merge"};

absl::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kCpuTask: return "cpu_task";
    case StepKind::kGpuKernel: return "gpu_kernel";
    case StepKind::kHostExtern: return "host_extern";
  }
  return "unknown";
}

int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
}

// [[coefficient, ["m", 32], ["batch", 1]], ...]: each term is its coefficient and then its factors.
Json formula_to_json(const Formula& f) {
  Json terms = Json::array();
  for (const Term& term : f) {
    Json parts = json_array(term.coefficient);
    for (const Factor& factor : term.factors)
      parts.push_back(json_array(std::string(kVarNames[static_cast<int>(factor.var)]), factor.divisor));
    terms.push_back(std::move(parts));
  }
  return terms;
}

Json tensor_map_to_json(const TensorMap& m) {
  return json_object("operand", m.operand, "dtype", std::string(name_of(m.dtype)), "columns",
                     std::string(kVarNames[static_cast<int>(m.columns)]), "rows",
                     std::string(kVarNames[static_cast<int>(m.rows)]), "box_columns", m.box_columns,
                     "box_rows", m.box_rows, "swizzle", m.swizzle, "shared_rows", m.shared_rows);
}

Json external_to_json(const ExternalCallFacts& e) {
  return json_object("library", e.provider, "routine", e.routine, "class", to_json(e.problem));
}

Json step_to_json(const Step& s) {
  Json maps = Json::array();
  for (const TensorMap& map : s.tensor_maps) maps.push_back(tensor_map_to_json(map));
  const bool outside = s.kind == StepKind::kHostExtern;
  return json_object(
      "kind", std::string(name_of(s.kind)), "symbol", s.symbol, "external",
      outside ? external_to_json(s.external) : Json(nullptr), "grid",
      json_array(formula_to_json(s.grid[0]), formula_to_json(s.grid[1]), formula_to_json(s.grid[2])), "block",
      s.block, "cluster", s.cluster, "dynamic_shared_memory", formula_to_json(s.dynamic_shared_memory),
      "argument_bytes", s.argument_bytes, "tensor_maps", std::move(maps), "attributes", s.attributes);
}

// The readers below throw; recipe_from_json runs them inside read_json.
const Json& array_of(const Json& j, size_t lo, size_t hi, const char* what) {
  if (!j.is_array() || j.size() < lo || j.size() > hi)
    throw std::invalid_argument(absl::StrCat(what, " is not an array of ", lo, " to ", hi, " elements"));
  return j;
}

int64_t positive(const Json& j, int64_t lo, const char* what) {
  if (!j.is_number_integer() || (j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX) ||
      j.get<int64_t>() < lo)
    throw std::out_of_range(absl::StrCat(what, " is not an integer >= ", lo));
  return j.get<int64_t>();
}

Var var_from_name(const std::string& name) {
  const auto* found = std::find(std::begin(kVarNames), std::end(kVarNames), name);
  if (found == std::end(kVarNames)) throw std::invalid_argument(absl::StrCat("unknown variable ", name));
  return static_cast<Var>(found - std::begin(kVarNames));
}

Factor factor_from_json(const Json& j) {
  array_of(j, 2, 2, "factor");
  return {var_from_name(j[0].get<std::string>()), positive(j[1], 1, "divisor")};
}

Formula formula_from_json(const Json& j) {
  Formula formula;
  for (const Json& parts : array_of(j, 0, kMaxTerms, "formula")) {
    array_of(parts, 1, 1 + kMaxFactors, "term");
    Term term;
    term.coefficient = positive(parts[0], 0, "coefficient");
    for (size_t i = 1; i < parts.size(); ++i) term.factors.push_back(factor_from_json(parts[i]));
    formula.push_back(std::move(term));
  }
  return formula;
}

std::array<int32_t, 3> extent_from_json(const Json& j) {
  array_of(j, 3, 3, "extent");
  std::array<int32_t, 3> extent;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t value = positive(j[i], 1, "extent");
    if (value > INT32_MAX) throw std::out_of_range("extent does not fit 32 bits");
    extent[i] = static_cast<int32_t>(value);
  }
  return extent;
}

std::vector<std::string> strings_from_json(const Json& j) {
  return array_of(j, 0, kMaxStrings, "list").get<std::vector<std::string>>();
}

TensorMap tensor_map_from_json(const Json& j) {
  expect_fields(j, 8);
  TensorMap m;
  m.operand = text_field(j, "operand");
  constexpr absl::string_view kOperands[] = {"a", "b", "c", "d", "residual"};
  if (std::find(std::begin(kOperands), std::end(kOperands), m.operand) == std::end(kOperands))
    throw std::invalid_argument(absl::StrCat("tensor map of unknown operand ", m.operand));
  if (!parse(text_field(j, "dtype"), &m.dtype) || m.dtype == DType::kNone)
    throw std::invalid_argument("tensor map of unknown dtype");
  m.columns = var_from_name(text_field(j, "columns"));
  m.rows = var_from_name(text_field(j, "rows"));
  m.box_columns = int_field(j, "box_columns", 1, 256);  // the driver's limit for each dimension of a box
  m.box_rows = int_field(j, "box_rows", 1, 256);
  m.swizzle = int_field(j, "swizzle", 0, 128);
  if (m.swizzle != 0 && m.swizzle != 32 && m.swizzle != 64 && m.swizzle != 128)
    throw std::out_of_range("swizzle is not 0, 32, 64 or 128");
  m.shared_rows = int_field(j, "shared_rows", 0, 1);
  return m;
}

ExternalCallFacts external_from_json(const Json& j) {
  expect_fields(j, 3);
  ExternalCallFacts e;
  e.provider = text_field(j, "library");
  e.routine = text_field(j, "routine");
  if (e.provider.empty() || e.routine.empty())
    throw std::invalid_argument("\"external\" must name a library and a routine");
  absl::StatusOr<ProblemClass> problem = problem_class_from_json(j.at("class"));
  if (!problem.ok()) throw std::invalid_argument(std::string(problem.status().message()));
  e.problem = *problem;
  return e;
}

Step step_from_json(const Json& j) {
  expect_fields(j, 10);
  Step step;
  const std::string kind = text_field(j, "kind");
  const StepKind kinds[] = {StepKind::kCpuTask, StepKind::kGpuKernel, StepKind::kHostExtern};
  const auto* found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](StepKind k) { return name_of(k) == kind; });
  if (found == std::end(kinds)) throw std::invalid_argument(absl::StrCat("unknown step kind ", kind));
  step.kind = *found;
  if ((step.kind == StepKind::kHostExtern) != j.at("external").is_object())
    throw std::invalid_argument(
        "\"external\" must be an object in a host_extern step and null in all others");
  if (step.kind == StepKind::kHostExtern) step.external = external_from_json(j.at("external"));
  step.symbol = text_field(j, "symbol");
  if (step.symbol.empty()) throw std::invalid_argument("a step has an empty symbol");
  const Json& grid = array_of(j.at("grid"), 3, 3, "grid");
  for (size_t i = 0; i < 3; ++i) step.grid[i] = formula_from_json(grid[i]);
  step.block = extent_from_json(j.at("block"));
  step.cluster = extent_from_json(j.at("cluster"));
  step.dynamic_shared_memory = formula_from_json(j.at("dynamic_shared_memory"));
  step.argument_bytes = int_field(j, "argument_bytes", 0, 4096);
  for (const Json& map : array_of(j.at("tensor_maps"), 0, kMaxTensorMaps, "tensor_maps"))
    step.tensor_maps.push_back(tensor_map_from_json(map));
  step.attributes = strings_from_json(j.at("attributes"));
  return step;
}

}  // namespace

int64_t evaluate(const Formula& f, const VarValues& v) {
  int64_t sum = 0;
  for (const Term& term : f) {
    int64_t product = term.coefficient;
    for (const Factor& factor : term.factors)
      product = saturating_multiply(product, ceil_div(v[static_cast<size_t>(factor.var)], factor.divisor));
    sum = saturating_add(sum, product);
  }
  return sum;
}

Formula constant(int64_t value) { return {Term{value, {}}}; }
Formula product(int64_t coefficient, std::vector<Factor> factors) {
  return {Term{coefficient, std::move(factors)}};
}

Json to_json(const Recipe& r) {
  Json steps = Json::array();
  for (const Step& step : r.steps) steps.push_back(step_to_json(step));
  return json_object("version", r.version, "steps", std::move(steps), "workspace_bytes",
                     formula_to_json(r.workspace_bytes), "scratch_bytes_per_worker",
                     formula_to_json(r.scratch_bytes_per_worker), "k_granularity", r.k_granularity, "k_most",
                     r.k_most, "counters", formula_to_json(r.counters), "pointer_alignment",
                     r.pointer_alignment);
}

absl::StatusOr<Recipe> recipe_from_json(const Json& j) {
  return read_json("recipe", [&] {
    expect_fields(j, 8);
    Recipe r;
    r.version = int_field(j, "version", Recipe::kVersion, Recipe::kVersion);
    for (const Json& step : array_of(j.at("steps"), 1, kMaxSteps, "steps"))
      r.steps.push_back(step_from_json(step));
    r.workspace_bytes = formula_from_json(j.at("workspace_bytes"));
    r.scratch_bytes_per_worker = formula_from_json(j.at("scratch_bytes_per_worker"));
    r.k_granularity = int_field(j, "k_granularity", 1, INT32_MAX);
    r.k_most = int_field(j, "k_most", 1, INT32_MAX);
    r.pointer_alignment = int_field(j, "pointer_alignment", 1, 4096);
    r.counters = formula_from_json(j.at("counters"));
    return r;
  });
}

LaunchConfig make_launch_config(const Recipe& r, const ProblemClass& c, const Dims& dims,
                                int32_t wanted_splits) {
  const int64_t length = has_row_lengths(c.op) ? dims.n : dims.k;
  LaunchConfig l;
  if (length > 0) {
    int64_t wanted = std::max(wanted_splits, 1);
    if (has_row_lengths(c.op))
      wanted = std::max(ceil_div(wanted, std::max<int64_t>(dims.m, 1)), ceil_div(length, r.k_most));
    wanted = std::min(wanted, kMostSplits);
    const int64_t chunk = round_up(ceil_div(length, wanted), std::max(r.k_granularity, 1));
    l.splits = static_cast<int32_t>(ceil_div(length, chunk));
    // The chunk can exceed 32 bits only if there is one split and its length was rounded up.
    l.k_chunk = static_cast<int32_t>(std::min<int64_t>(chunk, INT32_MAX));
  }
  const VarValues values = var_values(dims, l);
  l.workspace_bytes = static_cast<size_t>(evaluate(r.workspace_bytes, values));
  l.scratch_bytes_per_worker = static_cast<size_t>(evaluate(r.scratch_bytes_per_worker, values));
  l.counters = static_cast<size_t>(evaluate(r.counters, values));
  return l;
}

VarValues var_values(const Dims& dims, const LaunchConfig& l) {
  return {dims.m, dims.n, dims.k, dims.batch, l.splits, l.splits > 1 ? 1 : 0};
}

}  // namespace lathe
