#include "kernels/matmul/payload.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_text.h"
#include "core/generic.h"
#include "core/kernel_name.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/shape.h"
#include "kernels/matmul/grouped/shape.h"
#include "kernels/matmul/mma/shape.h"
#include "kernels/matmul/skinny/shape.h"
#include "kernels/matmul/xegpu/shape.h"

namespace lathe {
namespace {

// The type's name in MLIR.
std::string type_of(DType t) {
  if (t == DType::kF8E4M3) return "f8E4M3FN";
  if (t == DType::kF8E5M2) return "f8E5M2";
  if (t == DType::kF8E4M3Fnuz) return "f8E4M3FNUZ";
  if (t == DType::kF8E5M2Fnuz) return "f8E5M2FNUZ";
  if (is_blocks(t)) return "i4";  // a stand-in; lathe.blocks names the format
  return std::string(name_of(t));
}

// Builds the text of the payload, and collects the arguments of the function and the inputs of the epilogue
// on the way.
class PayloadText {
 public:
  PayloadText(const ProblemClass& c, const CompileConfig& config)
      : c_(c),
        config_(config),
        sum_(c.a == DType::kI8 ? DType::kI32 : DType::kF32),
        n_(c.generic ? "?" : absl::StrCat(c.n)),
        k_(c.generic ? "?" : absl::StrCat(c.k)) {}

  std::string build() {
    const bool exact_m = has_exact_m();
    const std::string m = exact_m ? absl::StrCat(c_.m_lo) : "?";
    const std::string out = matrix(m, n_, c_.d);
    const std::string product = matrix(m, n_, sum_);
    argument("a", c_.trans_a ? matrix(k_, m, c_.a) : matrix(m, k_, c_.a), c_.a);
    argument("b", c_.trans_b ? matrix(n_, k_, c_.b) : matrix(k_, n_, c_.b), c_.b);
    epilogue_input("%product", product, "x", sum_, "#tile");
    value_ = "%x";
    if (c_.d != DType::kI32) scale(m);
    const bool open = c_.generic && c_.d != DType::kI32;  // operands that the launch does not have read as 0
    const DType in_c = open ? DType::kF32 : c_.c, bias = open ? DType::kF32 : c_.bias,
                residual = open ? DType::kF32 : c_.residual;
    if (in_c != DType::kNone) add_c(out_type(m, in_c), in_c);
    if (bias != DType::kNone)
      add_operand("bias", absl::StrCat("tensor<", n_, "x", name_of(bias), ">"), bias, "#columns");
    if (open)
      add_any_activation();
    else
      add_activation(c_.activation);
    if (residual != DType::kNone) add_residual(out_type(m, residual), residual);
    argument("d", out);
    if (!exact_m) index_argument("m");
    if (c_.generic) index_argument("n"), index_argument("k");
    index_argument("batch");
    if (config_.split()) {
      index_argument("splits"), index_argument("k_chunk");
      argument("workspace", absl::StrCat("tensor<?x?x", m, "x", n_, "x", type_of(sum_), ">"));
    }
    round(c_.d);
    return text(m, out, product);
  }

 private:
  // On a GPU M of other rows is in the device's memory, or is that of all groups.
  bool has_plain_m() const {
    return c_.rows == Rows::kPlain || (row_of(config_.kernel()).backends & kOnCpu) != 0;
  }
  bool has_exact_m() const { return c_.m_lo == c_.m_hi && has_plain_m(); }
  static std::string matrix(const std::string& rows, const std::string& columns, DType t) {
    return absl::StrCat("tensor<?x", rows, "x", columns, "x", type_of(t), ">");
  }
  std::string out_type(const std::string& m, DType t) const { return matrix(m, n_, t); }

  void argument(const std::string& name, const std::string& type, DType t = DType::kNone) {
    const std::string blocks =
        is_blocks(t) ? absl::StrCat(", lathe.blocks = \"", name_of(t), "\"") : std::string();
    arguments_.push_back(
        absl::StrCat("%", name, ": ", type, " {lathe.operand = \"", name, "\"", blocks, "}"));
  }
  void index_argument(const std::string& name) {
    arguments_.push_back(absl::StrCat("%", name, ": index {lathe.operand = \"", name, "\"}"));
  }
  void epilogue_input(const std::string& value, const std::string& type, const std::string& name, DType t,
                      const char* map) {
    inputs_.push_back(value), input_types_.push_back(type), maps_.push_back(map);
    block_arguments_.push_back(absl::StrCat("%", name, ": ", name_of(t)));
  }
  // alpha * (scale_a * scale_b) * x, in f32. A D of i32 is the sums themselves.
  void scale(const std::string& m) {
    arguments_.push_back("%alpha: f32 {lathe.operand = \"alpha\"}");
    if (sum_ == DType::kI32) {
      value_ = fresh();
      body(absl::StrCat(value_, " = arith.sitofp %x : i32 to f32"));
    }
    const std::string a = scale_input("scale_a", c_.scale_a, m, "#rows"),
                      b = scale_input("scale_b", c_.scale_b, n_, "#columns");
    const std::string factor = a.empty() || b.empty() ? a + b : binary("arith.mulf", a, b);
    if (!factor.empty()) value_ = binary("arith.mulf", factor, value_);
    value_ = binary("arith.mulf", "%alpha", value_);
  }
  // Adds a scale to the inputs of the epilogue and returns its name, or "" if there is none.
  std::string scale_input(const std::string& name, Scale granularity, const std::string& channels,
                          const char* map) {
    if (granularity == Scale::kNone) return "";
    const bool one = granularity == Scale::kPerTensor;
    const std::string type = absl::StrCat("tensor<", one ? "" : channels + "x", "f32>");
    argument(name, type);
    epilogue_input("%" + name, type, name + "_in", DType::kF32, one ? "#one" : map);
    return absl::StrCat("%", name, "_in");
  }
  void body(const std::string& line) { body_ += "      " + line + "\n"; }
  std::string fresh() { return absl::StrCat("%t", ++count_); }
  std::string unary(const std::string& op, const std::string& x) {
    std::string v = fresh();
    body(absl::StrCat(v, " = ", op, " ", x, " : f32"));
    return v;
  }
  std::string binary(const std::string& op, const std::string& x, const std::string& y) {
    return unary(op, x + ", " + y);
  }
  std::string literal(const std::string& value) {
    std::string v = fresh();
    body(absl::StrCat(v, " = arith.constant ", value, " : f32"));
    return v;
  }
  std::string widen(const std::string& x, DType t) {
    if (t == DType::kF32) return x;
    std::string v = fresh();
    body(absl::StrCat(v, " = arith.extf ", x, " : ", name_of(t), " to f32"));
    return v;
  }
  void add_c(const std::string& type, DType t) {
    argument("c", type);
    arguments_.push_back("%beta: f32 {lathe.operand = \"beta\"}");
    epilogue_input("%c", type, "c_in", t, "#tile");
    value_ = binary("arith.addf", value_, binary("arith.mulf", "%beta", widen("%c_in", t)));
  }
  void add_operand(const std::string& name, const std::string& type, DType t, const char* map) {
    argument(name, type);
    epilogue_input("%" + name, type, name + "_in", t, map);
    value_ = binary("arith.addf", value_, widen("%" + name + "_in", t));
  }
  void add_residual(const std::string& type, DType t) {
    const std::string before = value_;
    add_operand("residual", type, t, "#tile");
    if (!c_.generic && c_.combine == Combine::kAdd) return;
    const std::string product = binary("arith.mulf", before, widen("%residual_in", t));
    value_ = c_.generic ? unary("arith.select %multiplies,", absl::StrCat(product, ", ", value_)) : product;
  }
  // Computes all activations and selects the one that the launch names: a branch per vector would cost
  // more.
  void add_any_activation() {
    index_argument("form");
    absl::StrAppend(&prologue_, "    %activation_at = arith.constant ", Form::kActivation,
                    " : index\n    %activation_mask = arith.constant ",
                    (1 << (Form::kCombine - Form::kActivation)) - 1,
                    " : index\n    %shifted = arith.shrui %form, %activation_at : index\n",
                    "    %activation = arith.andi %shifted, %activation_mask : index\n",
                    "    %combine_bit = arith.constant ", 1 << Form::kCombine,
                    " : index\n    %combine = arith.andi %form, %combine_bit : index\n",
                    "    %multiplies = arith.cmpi eq, %combine, %combine_bit : index\n");
    const std::string x = value_;
    std::string taken = x;
    for (Activation a : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu,
                         Activation::kSiluClamped, Activation::kClampPlusOne}) {
      const std::string is = absl::StrCat("%is_", name_of(a));
      absl::StrAppend(&prologue_, "    ", is, "_number = arith.constant ", static_cast<int32_t>(a),
                      " : index\n    ", is, " = arith.cmpi eq, %activation, ", is, "_number : index\n");
      value_ = x;
      add_activation(a);
      taken = unary(absl::StrCat("arith.select ", is, ","), absl::StrCat(value_, ", ", taken));
    }
    value_ = taken;
  }
  void add_activation(Activation activation) {
    const std::string x = value_;
    switch (activation) {
      case Activation::kNone: return;
      case Activation::kRelu: value_ = binary("arith.maximumf", x, literal("0.0")); return;
      case Activation::kGelu: {
        std::string erf = unary("math.erf", binary("arith.mulf", x, literal("0.70710678118654752")));
        value_ = binary("arith.mulf", binary("arith.mulf", x, literal("0.5")),
                        binary("arith.addf", literal("1.0"), erf));
        return;
      }
      case Activation::kGeluTanh: {
        std::string cube = binary("arith.mulf", binary("arith.mulf", x, x), x);
        std::string inner = binary("arith.addf", x, binary("arith.mulf", literal("0.044715"), cube));
        std::string tanh = unary("math.tanh", binary("arith.mulf", literal("0.79788456080286536"), inner));
        value_ = binary("arith.mulf", binary("arith.mulf", x, literal("0.5")),
                        binary("arith.addf", literal("1.0"), tanh));
        return;
      }
      case Activation::kSilu: {
        std::string power = unary("math.exp", unary("arith.negf", x));
        value_ = binary("arith.divf", x, binary("arith.addf", literal("1.0"), power));
        return;
      }
      case Activation::kSiluClamped: {
        std::string least = binary("arith.minimumf", x, literal("7.0"));
        std::string power = unary("math.exp", binary("arith.mulf", least, literal("-1.702")));
        value_ = binary("arith.divf", least, binary("arith.addf", literal("1.0"), power));
        return;
      }
      case Activation::kClampPlusOne: {
        std::string clamped =
            binary("arith.maximumf", binary("arith.minimumf", x, literal("7.0")), literal("-7.0"));
        value_ = binary("arith.addf", clamped, literal("1.0"));
        return;
      }
    }
  }
  void round(DType t) {
    if (t == DType::kF32 || t == DType::kI32) return;
    std::string v = fresh();
    body(absl::StrCat(v, " = arith.truncf ", value_, " : f32 to ", name_of(t)));
    value_ = v;
  }

  const char* zero_b() const {
    if (c_.zero_b == Scale::kNone) return "";
    return c_.zero_b == Scale::kPerTensor ? ", lathe.zero_b = \"tensor\"" : ", lathe.zero_b = \"channel\"";
  }
  // The least M, if one tile has all rows.
  std::string least_m() const {
    const int64_t least = has_plain_m() ? least_rows(c_, config_.tile_m()) : 0;
    return least > 1 ? absl::StrCat(", lathe.least_m = ", least) : "";
  }
  std::string text(const std::string& m, const std::string& out, const std::string& product) const {
    const char* a_map = c_.trans_a ? "(b, k, m)" : "(b, m, k)";
    const char* b_map = c_.trans_b ? "(b, n, k)" : "(b, k, n)";
    const std::string a = c_.trans_a ? matrix(k_, m, c_.a) : matrix(m, k_, c_.a);
    const std::string b = c_.trans_b ? matrix(n_, k_, c_.b) : matrix(k_, n_, c_.b);
    std::vector<std::string> maps = maps_, block = block_arguments_;
    maps.push_back("#tile");
    block.push_back(absl::StrCat("%unused: ", name_of(c_.d)));
    const std::string zero = absl::StrCat(sum_ == DType::kI32 ? "0" : "0.0", " : ", type_of(sum_));
    return absl::StrCat(
        config_aliases(config_),
        "#tile = affine_map<(b, m, n) -> (b, m, n)>\n#columns = affine_map<(b, m, n) -> (n)>\n",
        "#rows = affine_map<(b, m, n) -> (m)>\n#one = affine_map<(b, m, n) -> ()>\n",
        "module {\n  func.func @", kernel_name(c_, config_), "(", absl::StrJoin(arguments_, ",\n      "),
        ") -> ", out, " {\n", prologue_, "    %zero = arith.constant ", zero,
        "\n    %empty = tensor.empty(%batch", has_exact_m() ? "" : ", %m", c_.generic ? ", %n" : "",
        ") : ", product, "\n    %init = linalg.fill ins(%zero : ", type_of(sum_), ") outs(%empty : ", product,
        ") -> ", product, "\n    %product = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> ",
        a_map, ">, affine_map<(b, m, n, k) -> ", b_map, ">, affine_map<(b, m, n, k) -> (b, m, n)>]\n",
        "        {", config_entries(config_), c_.zero_a ? ", lathe.zero_a" : "", zero_b(),
        c_.math == Math::kBf16 ? ", lathe.rounds_a" : "", least_m(), "} ins(%a, %b : ", a, ", ", b,
        ") outs(%init : ", product, ") -> ", product, "\n    %out = linalg.generic {indexing_maps = [",
        absl::StrJoin(maps, ", "),
        "], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]}\n        ins(",
        absl::StrJoin(inputs_, ", "), " : ", absl::StrJoin(input_types_, ", "), ") outs(%d : ", out,
        ") {\n    ^bb0(", absl::StrJoin(block, ", "), "):\n", body_, "      linalg.yield ", value_, " : ",
        std::string(name_of(c_.d)), "\n    } -> ", out, "\n    return %out : ", out, "\n  }\n}\n");
  }

  const ProblemClass& c_;
  const CompileConfig& config_;
  const DType sum_;  // type of the sums of products
  std::vector<std::string> arguments_, inputs_, input_types_, maps_, block_arguments_;
  const std::string n_, k_;  // extents
  std::string prologue_, body_, value_;
  int count_ = 0;
};

// K of every split but the last is a multiple of this.
int64_t k_granularity(const ProblemClass& c, const CompileConfig& config, const Target& target) {
  if (c.packed_b != kNotPacked) return packed_word(c.b);
  const auto of_mma = [&](int64_t depth) {
    const bool amd = target.backend == Backend::kRocm;
    return mma_split_granularity(amd, c.k, depth, c.a, c.b);
  };
  switch (config.kernel()) {
    case KernelKind::kMma:
    case KernelKind::kMma32: return of_mma(config.as<MmaConfig>().tile_k);
    case KernelKind::kUkernel:
      if (const auto* mma = config.find<MmaUkernelConfig>()) return of_mma(mma->stage_k);
      break;
    // Tensor copies read whole tiles of K; only past the end of the operand do they read zeros.
    case KernelKind::kWgmma: return config.as<WgmmaConfig>().tile_k;
    case KernelKind::kSkinny: return SkinnyShape::split_multiple(c.b);
    case KernelKind::kXegpu: return XegpuShape::kSplitMultiple;
    default: break;
  }
  return std::max(block_elements(c.a), block_elements(c.b));
}

// Adds the steps before and after the product.
void complete_grouped(const ProblemClass& c, const CompileConfig& config, Recipe* r) {
  Step step = r->steps.front();
  if (!config.persistent()) r->steps.front().grid[0] = GroupedWorkspace::tiles(c, config.tile_m());
  r->steps.front().grid[2] = constant(1);
  r->workspace_bytes = GroupedWorkspace::bytes(c, config.tile_m());
  const std::string symbol = step.symbol;
  step.symbol = symbol + kScheduleSuffix;
  step.grid = {constant(1), constant(1), constant(1)};
  r->steps.insert(r->steps.begin(), step);
  if (sum_of(c.rows) == DType::kNone) return;
  step.symbol = symbol + kSumSuffix;
  step.grid = {product(1, {{Var::kM, kSlotsPerSumGroup}}), product(1, {{Var::kN, config.threads()}}),
               constant(1)};
  r->steps.push_back(step);
}

}  // namespace

std::string matmul_payload(const ProblemClass& c, const CompileConfig& config) {
  return PayloadText(c, config).build();
}

Recipe matmul_recipe(const ProblemClass& c, const CompileConfig& config, const Target& target,
                     int64_t scratch_bytes) {
  const bool cpu = target.backend == Backend::kCpu;
  Recipe r;
  r.k_granularity = static_cast<int32_t>(k_granularity(c, config, target));
  Step step;
  step.kind = cpu ? StepKind::kCpuTask : StepKind::kGpuKernel;
  step.symbol = kernel_name(c, config);
  step.block = {static_cast<int32_t>(config.threads()), 1, 1};
  step.grid = {product(1, {{Var::kM, config.tile_m()}}), product(1, {{Var::kN, config.tile_n()}}),
               product(1, {{Var::kSplits, 1}, {Var::kBatch, 1}})};
  if (config.persistent()) step.grid = {constant(config.persistent()), constant(1), constant(1)};
  r.steps.push_back(step);
  if (config.kernel() == KernelKind::kXegpu) r.pointer_alignment = XegpuShape::kBaseAlignment;
  if (config.split() == kMergeStep || config.split() == kMergeLast) {
    r.workspace_bytes =
        product(sizeof(float), {{Var::kSplits, 1}, {Var::kBatch, 1}, {Var::kM, 1}, {Var::kN, 1}});
  }
  if (config.split() == kMergeStep) {
    step.symbol += "_merge";
    step.grid = {product(1, {{Var::kM, merge_rows(config.threads(), config.tile_n())}}),
                 product(1, {{Var::kN, config.tile_n()}}), product(1, {{Var::kBatch, 1}})};
    r.steps.push_back(step);
  } else if (config.split() == kMergeLast) {
    r.counters = product(1, {{Var::kBatch, 1}, {Var::kM, config.tile_m()}, {Var::kN, config.tile_n()}});
  }
  if (is_grouped(c.rows) && !cpu) complete_grouped(c, config, &r);
  if (cpu) r.scratch_bytes_per_worker = constant(scratch_bytes);
  return r;
}

}  // namespace lathe
