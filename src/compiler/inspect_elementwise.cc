// Reads an elementwise op of a payload as a program (core/elementwise.h). Merges its loops to at most three.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/inspect_steps.h"
#include "compiler/meaning.h"
#include "core/elementwise.h"

namespace lathe::payload {
namespace {
using namespace mlir;

// Until the loops have letters, the dims of an access have a digit for each loop, and a capital letter for a
// dimension of extent 1.
constexpr unsigned kMostLoops = 10;
bool is_loop(char c) { return c >= '0' && c <= '9'; }

class Reader {
 public:
  Reader(linalg::LinalgOp op, llvm::function_ref<Reason(Access*)> resolve) : op_(op), resolve_(resolve) {}

  Reason read(Step* step) {
    if (op_.getNumLoops() > kMostLoops) return absl::StrCat("it has more than ", kMostLoops, " loops");
    std::string unknown;
    meaning_ = meaning_of(
        op_, 0, [](Value) { return 0; }, &unknown);
    if (meaning_.is_null()) return unknown;
    for (OpOperand& operand : op_->getOpOperands())
      if (Reason why = add_operand(operand); !why.empty()) return why;
    if (Reason why = collapse(); !why.empty()) return why;
    Json inputs = Json::array();
    for (Access& input : inputs_) {
      std::string dims;
      if (Reason why = letter(&input, &dims); !why.empty()) return why;
      const DType dtype = dtype_of(getElementTypeOrSelf(input.tensor.getType()));
      inputs.push_back({{"dims", dims}, {"dtype", name_of(dtype)}});
    }
    const Type d = getElementTypeOrSelf(op_->getResult(0).getType());
    Json program = {{"d", name_of(dtype_of(d))}, {"inputs", inputs}, {"nodes", nodes()}};
    program["yield"] = renumbered(meaning_["yield"][0]);
    absl::StatusOr<ElementwiseProgram> parsed = parse_elementwise(canonical_text(program));
    if (!parsed.ok()) return Reason(parsed.status().message());
    step->program = parsed->text;
    step->inputs = inputs_;
    return letter_result(step);
  }

 private:
  bool is_unit(unsigned loop) const { return extents_[loop] == 1; }

  // Adds an operand that the body reads as an input of the program or as a constant.
  Reason add_operand(OpOperand& operand) {
    const unsigned number = operand.getOperandNumber();
    const Json& said = meaning_["operands"][number];
    values_.push_back(-1);
    if (said.contains("number")) {
      numbers_.push_back({number, said["number"]});
      return "";
    }
    if (!op_.payloadUsesValueFromOperand(&operand)) return "";
    if (auto fill = operand.get().getDefiningOp<linalg::FillOp>()) {
      const std::optional<Json> x = number_in(fill.getInputs()[0]);
      if (!x) return "an input is filled with a value that is not a constant";
      numbers_.push_back({number, *x});
      return "";
    }
    Access access{operand.get(), ""};
    char unit = 'A';
    const auto type = cast<RankedTensorType>(operand.get().getType());
    const AffineMap map = op_.getMatchingIndexingMap(&operand);
    for (auto [i, e] : llvm::enumerate(map.getResults())) {
      const auto loop = dyn_cast<AffineDimExpr>(e);
      const auto constant = dyn_cast<AffineConstantExpr>(e);
      if (!loop && !(constant && constant.getValue() == 0 && type.getDimSize(i) == 1))
        return "an input has an index that is not a single loop";
      const bool varies = loop && !is_unit(loop.getPosition());
      access.dims += varies ? static_cast<char>('0' + loop.getPosition()) : unit++;
      if (varies && std::count(access.dims.begin(), access.dims.end(), access.dims.back()) > 1)
        return "an input's diagonal is read";
    }
    if (Reason why = resolve_(&access); !why.empty()) return why;
    const auto same = [&](const Access& a) { return a.tensor == access.tensor && a.dims == access.dims; };
    const auto known = std::find_if(inputs_.begin(), inputs_.end(), same);
    values_.back() = known - inputs_.begin();
    if (known == inputs_.end()) inputs_.push_back(access);
    return "";
  }

  // Whether two loops can be merged: each input has both of them, adjacent and in this order, or none.
  bool are_one(unsigned outer, unsigned inner) const {
    return std::all_of(inputs_.begin(), inputs_.end(), [&](const Access& a) {
      std::string loops;
      std::copy_if(a.dims.begin(), a.dims.end(), std::back_inserter(loops), is_loop);
      const size_t at = loops.find(static_cast<char>('0' + outer)),
                   next = loops.find(static_cast<char>('0' + inner));
      return at == std::string::npos ? next == std::string::npos : next == at + 1;
    });
  }
  bool is_indexed(unsigned loop) const {
    return llvm::any_of(meaning_["body"],
                        [&](const Json& node) { return node[0] == "index" && node[2] == loop; });
  }

  // Merges loops and gives each a letter of b, m, n. Merged loops have the same letter.
  Reason collapse() {
    std::vector<std::vector<unsigned>> groups;
    for (unsigned loop = 0; loop < op_.getNumLoops(); ++loop) {
      if (is_unit(loop)) continue;
      const unsigned outer = groups.empty() ? loop : groups.back().back();
      const auto alone = [&](unsigned l) { return is_indexed(l) || ShapedType::isDynamic(extents_[l]); };
      if (!groups.empty() && !alone(outer) && !alone(loop) && are_one(outer, loop))
        groups.back().push_back(loop);
      else
        groups.push_back({loop});
    }
    constexpr absl::string_view kLetters = "bmn";
    if (groups.size() > kLetters.size()) return "its loops do not collapse to three";
    letters_.assign(op_.getNumLoops(), ' ');
    int open = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      const char letter = kLetters[kLetters.size() - groups.size() + g];
      for (unsigned loop : groups[g]) letters_[loop] = letter;
      const bool is_open = ShapedType::isDynamic(extents_[groups[g][0]]);
      open += is_open;
      if (is_open && letter == 'b') return "the extent of its batch is dynamic";
    }
    return open > 1 ? "several of its extents are dynamic" : "";
  }

  // Gives dimensions of extent 1 the letter of a neighbour, or u if there is none.
  static std::string with_units(std::string dims) {
    const auto is_letter = [](char c) { return c == 'b' || c == 'm' || c == 'n'; };
    const auto first = std::find_if(dims.begin(), dims.end(), is_letter);
    char last = first == dims.end() ? 'u' : *first;
    for (char& c : dims) last = c = is_letter(c) ? c : last;
    return dims;
  }
  // Replaces the digits in the access's dims by letters, and returns the dims of the program's input.
  Reason letter(Access* access, std::string* of_program) const {
    std::string order;
    for (char& c : access->dims) {
      if (!is_loop(c)) continue;
      c = letters_[static_cast<size_t>(c - '0')];
      if (order.empty() || order.back() != c) order += c;
    }
    access->dims = with_units(access->dims);
    const bool batch = order.find('b') != std::string::npos;
    if (batch && order.size() > 1 && order.back() == 'b')
      return "an input's innermost dimension is the batch";
    order.erase(std::remove(order.begin(), order.end(), 'b'), order.end());
    *of_program = (batch ? "b" : "") + order;
    return "";
  }
  Reason letter_result(Step* step) const {
    std::string dims;
    char unit = 'A';
    for (unsigned loop = 0; loop < extents_.size(); ++loop) dims += is_unit(loop) ? unit++ : letters_[loop];
    step->d.dims = with_units(dims);
    return "";
  }

  // In the meaning, values are numbered as operands, then nodes of the body. In the program they are numbered as
  // inputs, then operands that are constants, then nodes.
  int64_t renumbered(const Json& old) const {
    const auto number = old.get<size_t>(), operands = values_.size();
    if (number >= operands)
      return static_cast<int64_t>(inputs_.size() + numbers_.size() + (number - operands));
    if (values_[number] >= 0) return values_[number];
    const auto at =
        std::find_if(numbers_.begin(), numbers_.end(), [&](const auto& n) { return n.first == number; });
    return static_cast<int64_t>(inputs_.size()) + (at - numbers_.begin());
  }
  Json nodes() const {
    Json nodes = Json::array();
    for (const auto& [operand, number] : numbers_)
      nodes.push_back(
          {"number", type_name(op_->getOperand(static_cast<unsigned>(operand)).getType()), number});
    for (Json node : meaning_["body"]) {
      if (node[0] == "index") {
        const auto loop = node[2].get<unsigned>();
        if (is_unit(loop))
          node = {"number", "index", 0};
        else
          node[2] = letters_[loop] == 'b' ? 0 : letters_[loop] == 'm' ? 1 : 2;
      } else if (node[0] != "number") {
        for (size_t i = 2; i < node.size(); ++i)
          if (node[i].is_number()) node[i] = renumbered(node[i]);
      }
      nodes.push_back(node);
    }
    return nodes;
  }

  linalg::LinalgOp op_;
  llvm::function_ref<Reason(Access*)> resolve_;
  const SmallVector<int64_t> extents_ = op_.getStaticLoopRanges();
  Json meaning_;
  std::vector<Access> inputs_;
  std::vector<int64_t> values_;                   // for each operand: the index of its input, or -1
  std::vector<std::pair<size_t, Json>> numbers_;  // operands that are constants
  std::string letters_;                           // for each loop
};

}  // namespace

Reason read_elementwise(linalg::LinalgOp op, llvm::function_ref<Reason(Access*)> resolve, Step* step) {
  return Reader(op, resolve).read(step);
}

}  // namespace lathe::payload
