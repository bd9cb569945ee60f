#include "elementwise_program.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <sstream>

namespace lathe::conformance {
namespace {

const std::map<std::string, lathe_dtype> kElements = {{"f32", LATHE_F32},   {"f16", LATHE_F16},
                                                      {"bf16", LATHE_BF16}, {"i8", LATHE_I8},
                                                      {"i32", LATHE_I32},   {"i64", LATHE_I64}};
const std::map<std::string, int> kBits = {{"i1", 1},   {"i8", 8},   {"i16", 16},
                                          {"i32", 32}, {"i64", 64}, {"index", 64}};

bool is_float(const std::string& type) { return kBits.count(type) == 0; }

int64_t wrap(uint64_t x, int bits) {
  if (bits == 64) return static_cast<int64_t>(x);
  if (bits == 1) return static_cast<int64_t>(x & 1);
  return static_cast<int64_t>(x << (64 - bits)) >> (64 - bits);
}

// The maximum of IEEE 754-2019: NaN if an operand is NaN, and +0 is greater than -0.
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

bool compare_floats(const std::string& p, double a, double b) {
  if (p == "true" || p == "false") return p == "true";
  const bool unordered = std::isnan(a) || std::isnan(b);
  if (p == "ord" || p == "uno") return unordered == (p == "uno");
  if (unordered) return p[0] == 'u';
  const std::string how = p.substr(1);
  return how == "eq"   ? a == b
         : how == "ne" ? a != b
         : how == "gt" ? a > b
         : how == "ge" ? a >= b
         : how == "lt" ? a < b
                       : a <= b;
}

bool compare_integers(const std::string& p, int64_t a, int64_t b) {
  if (p == "eq" || p == "ne") return (a == b) == (p == "eq");
  const bool is_unsigned = p[0] == 'u',
             less = is_unsigned ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
  if (p.substr(1) == "lt") return less;
  if (p.substr(1) == "le") return less || a == b;
  return p.substr(1) == "gt" ? !less && a != b : !less;
}

double on_floats(const std::string& name, double a, double b) {
  if (name == "arith.addf") return a + b;
  if (name == "arith.subf") return a - b;
  if (name == "arith.mulf") return a * b;
  if (name == "arith.divf") return a / b;
  if (name == "arith.maximumf") return maximum(a, b);
  if (name == "arith.minimumf") return -maximum(-a, -b);
  if (name == "arith.maxnumf") return std::fmax(a, b);
  if (name == "arith.minnumf") return std::fmin(a, b);
  if (name == "arith.negf") return -a;
  if (name == "math.absf") return std::fabs(a);
  if (name == "math.sqrt") return std::sqrt(a);
  if (name == "math.exp") return std::exp(a);
  if (name == "math.erf") return std::erf(a);
  if (name == "math.tanh") return std::tanh(a);
  return std::nan("");
}

uint64_t on_integers(const std::string& name, uint64_t a, uint64_t b) {
  if (name == "arith.addi") return a + b;
  if (name == "arith.subi") return a - b;
  if (name == "arith.muli") return a * b;
  if (name == "arith.andi") return a & b;
  if (name == "arith.ori") return a | b;
  const bool less = static_cast<int64_t>(a) < static_cast<int64_t>(b);
  return (name == "arith.maxsi") == less ? b : a;
}

// Results of f32 operations are exact in double or round correctly: double has more than twice the digits.
double rounded(const std::string& type, double x) {
  return std::isfinite(x) ? round_to(kElements.at(type), x) : x;
}

std::string number_text(const Node& node) {
  if (!is_float(node.type)) return std::to_string(node.constant.i);
  const double x = node.constant.f;
  if (std::isnan(x)) return "\"nan\"";
  if (std::isinf(x)) return x > 0 ? "\"inf\"" : "\"-inf\"";
  char text[40];
  std::snprintf(text, sizeof text, "%.17e", x);
  return text;
}

class Generator {
 public:
  explicit Generator(Random* random) : random_(*random) {}

  Program make() {
    const char* dims[] = {"", "n", "m", "mn", "nm", "bmn", "bmn", "mn", "bnm", "b", "bn", "bm"};
    const auto inputs = random_.below(6);
    for (int64_t i = 0; i < inputs; ++i) {
      auto dtype = kElements.begin();
      std::advance(dtype, random_.below(static_cast<int64_t>(kElements.size())));
      // The fifth input may only depend on n, because it has no strides.
      p_.inputs.push_back({dtype->second, i == 4 ? "n" : dims[random_.below(12)]});
    }
    const int64_t nodes = random_.between(p_.inputs.empty() ? 1 : 0, 14);
    for (int64_t i = 0; i < nodes; ++i) add();
    // Yields the last value of a type that can be stored, or converts the last value to one.
    for (p_.yield = values() - 1; p_.yield >= 0; --p_.yield)
      if (kElements.count(p_.type_of(p_.yield)) != 0) break;
    if (p_.yield < 0) {
      const int last = values() - 1;
      const std::string from = p_.type_of(last);
      p_.nodes.push_back({from == "index" ? "arith.index_cast" : "arith.extui", "i32", {last}, from, {}});
      if (from == "i16" || from == "i8") p_.nodes.back().name = "arith.extsi";
      p_.yield = values() - 1;
    }
    p_.d = kElements.at(p_.type_of(p_.yield));
    return p_;
  }

 private:
  int values() const { return static_cast<int>(p_.inputs.size() + p_.nodes.size()); }
  template <size_t N>
  const char* one_of(const char* const (&all)[N]) {
    return all[random_.below(static_cast<int64_t>(N))];
  }
  int any() { return static_cast<int>(random_.below(values())); }
  // An existing value of the type, or a new constant.
  int value(const std::string& type) {
    std::vector<int> found;
    for (int v = 0; v < values(); ++v)
      if (p_.type_of(v) == type) found.push_back(v);
    if (!found.empty() && random_.below(4) != 0)
      return found[static_cast<size_t>(random_.below(static_cast<int64_t>(found.size())))];
    Node node = {"number", type, {}, "", {}};
    node.constant.f = is_float(type) ? round_to(kElements.at(type), 2 * random_.normal()) : 0;
    node.constant.i = type == "i1" ? random_.below(2) : random_.between(-100, 100);
    p_.nodes.push_back(node);
    return values() - 1;
  }
  void push(const char* name, const std::string& type, std::vector<int> operands,
            const std::string& word = "") {
    p_.nodes.push_back({name, type, std::move(operands), word, {}});
  }

  void add() {
    if (values() == 0 || random_.below(8) == 0) {
      p_.nodes.push_back({"index", "index", {}, "", {0, random_.below(3)}});
      return;
    }
    const int x = any();
    const std::string type = p_.type_of(x);
    is_float(type) ? add_to_float(x, type) : add_to_integer(x, type);
  }
  void add_to_float(int x, const std::string& type) {
    switch (random_.below(6)) {
      case 0: return push(one_of({"arith.negf", "math.absf", "math.sqrt"}), type, {x});
      case 1: {
        const int y = value(type);
        return push("arith.cmpf", "i1", {x, y},
                    one_of({"oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult",
                            "ule", "une", "uno", "true", "false"}));
      }
      case 2:
        if (type == "f32") return push("arith.truncf", one_of({"f16", "bf16"}), {x});
        return push("arith.extf", "f32", {x});
      case 3: {
        const int y = value(type), c = value("i1");
        return push("arith.select", type, {c, x, y});
      }
      default: {
        const int y = value(type);
        return push(one_of({"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf",
                            "arith.minimumf"}),
                    type, {x, y});
      }
    }
  }
  void add_to_integer(int x, const std::string& type) {
    switch (random_.below(5)) {
      case 0: {
        const int y = value(type);
        return push("arith.cmpi", "i1", {x, y},
                    one_of({"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"}));
      }
      case 1:
        if (type == "index") return push("arith.index_cast", one_of({"i32", "i64"}), {x}, type);
        if (type == "i64") return push("arith.trunci", one_of({"i8", "i16", "i32"}), {x});
        return push(one_of({"arith.extsi", "arith.extui"}), "i64", {x}, type);
      case 2:
        if (type == "index") return push("arith.index_cast", "i64", {x}, type);
        return push("arith.sitofp", "f32", {x}, type);
      case 3: {
        const int y = value(type), c = value("i1");
        return push("arith.select", type, {c, x, y});
      }
      default: {
        const int y = value(type);
        if (type == "i1") return push(one_of({"arith.andi", "arith.ori"}), type, {x, y});
        return push(one_of({"arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori",
                            "arith.maxsi", "arith.minsi"}),
                    type, {x, y});
      }
    }
  }

  Random& random_;
  Program p_;
};

}  // namespace

std::string Program::type_of(int value) const {
  const auto at = static_cast<size_t>(value);
  return at < inputs.size() ? name_of(inputs[at].dtype) : nodes[at - inputs.size()].type;
}

std::string Program::text() const {
  std::ostringstream s;
  s << "{\"d\":\"" << name_of(d) << "\",\"inputs\":[";
  for (size_t i = 0; i < inputs.size(); ++i)
    s << (i ? "," : "") << "{\"dims\":\"" << inputs[i].dims << "\",\"dtype\":\"" << name_of(inputs[i].dtype)
      << "\"}";
  s << "],\"nodes\":[";
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    s << (i ? "," : "") << "[\"" << node.name << "\",\"" << node.type << "\"";
    if (node.name == "number") s << "," << number_text(node);
    if (node.name == "index") s << "," << node.constant.i;
    for (int operand : node.operands) s << "," << operand;
    if (!node.word.empty()) s << ",\"" << node.word << "\"";
    s << "]";
  }
  s << "],\"yield\":" << yield << "}";
  return s.str();
}

Scalar Program::evaluate(const std::vector<Scalar>& given, const std::array<int64_t, 3>& loops) const {
  std::vector<Scalar> all = given;
  for (const Node& node : nodes) {
    const auto value = [&](size_t i) { return all[static_cast<size_t>(node.operands[i])]; };
    const auto from = [&] { return type_of(node.operands[0]); };
    Scalar s = node.constant;
    const std::string& name = node.name;
    if (name == "index")
      s.i = loops[static_cast<size_t>(s.i)];
    else if (name == "arith.select")
      s = value(0).i != 0 ? value(1) : value(2);
    else if (name == "arith.cmpf")
      s.i = compare_floats(node.word, value(0).f, value(1).f);
    else if (name == "arith.cmpi") {
      // A condition that is true counts as -1 in signed comparisons.
      const int sign = from() == "i1" && node.word[0] == 's' ? -1 : 1;
      s.i = compare_integers(node.word, sign * value(0).i, sign * value(1).i);
    } else if (name == "arith.extf")
      s.f = value(0).f;
    else if (name == "arith.truncf")
      s.f = rounded(node.type, value(0).f);
    // Rounded once, directly from the integer.
    else if (name == "arith.sitofp")
      s.f = static_cast<float>(from() == "i1" ? -value(0).i : value(0).i);
    else if (name == "arith.extsi")
      s.i = from() == "i1" ? -value(0).i : value(0).i;
    else if (name == "arith.extui")
      s.i = kBits.at(from()) == 64 ? value(0).i : value(0).i & ((int64_t{1} << kBits.at(from())) - 1);
    else if (name == "arith.trunci" || name == "arith.index_cast")
      s.i = wrap(static_cast<uint64_t>(value(0).i), kBits.at(node.type));
    else if (name != "number" && is_float(node.type))
      s.f = rounded(node.type, on_floats(name, value(0).f, node.operands.size() > 1 ? value(1).f : 0));
    else if (name != "number")
      s.i = wrap(on_integers(name, static_cast<uint64_t>(value(0).i), static_cast<uint64_t>(value(1).i)),
                 kBits.at(node.type));
    all.push_back(s);
  }
  return all[static_cast<size_t>(yield)];
}

Program random_program(Random* random) { return Generator(random).make(); }

}  // namespace lathe::conformance
