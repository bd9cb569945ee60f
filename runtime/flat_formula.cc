#include "runtime/flat_formula.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

constexpr int64_t kSaturated = std::numeric_limits<int64_t>::max();

int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t result;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a > 0 ? kSaturated : std::numeric_limits<int64_t>::min();
}

}  // namespace

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t result;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return (a < 0) == (b < 0) ? kSaturated : std::numeric_limits<int64_t>::min();
}

absl::Status check_formula(const Formula& formula, absl::string_view what) {
  for (const Term& term : formula) {
    for (const Factor& factor : term.factors) {
      const int32_t var = static_cast<int32_t>(factor.var);
      if (var < 0 || var >= kVarCount)
        return absl::InvalidArgumentError(absl::StrCat(what, " uses unknown variable ", var));
      if (factor.divisor <= 0)
        return absl::InvalidArgumentError(absl::StrCat(what, " divides by ", factor.divisor));
    }
  }
  return absl::OkStatus();
}

FlatFormulas::FlatFormulas(const std::vector<Formula>& formulas) {
  entries_.reserve(formulas.size());
  for (const Formula& formula : formulas) {
    Entry entry;
    entry.first_term = static_cast<uint32_t>(terms_.size());
    for (const Term& term : formula) {
      if (term.factors.empty()) {
        entry.constant = saturating_sum(entry.constant, term.coefficient);
        continue;
      }
      terms_.push_back({term.coefficient, static_cast<uint32_t>(factors_.size()),
                        static_cast<uint32_t>(term.factors.size())});
      factors_.insert(factors_.end(), term.factors.begin(), term.factors.end());
    }
    entry.term_count = static_cast<uint32_t>(terms_.size()) - entry.first_term;
    entries_.push_back(entry);
  }
}

int64_t FlatFormulas::sum(const Entry& entry, const VarValues& v) const {
  int64_t sum = entry.constant;
  for (uint32_t t = 0; t < entry.term_count; ++t) {
    const FlatTerm& term = terms_[entry.first_term + t];
    int64_t value = term.coefficient;
    for (uint32_t f = 0; f < term.factor_count; ++f) {
      const Factor& factor = factors_[term.first_factor + f];
      const int64_t size = v[static_cast<size_t>(factor.var)];
      value = saturating_product(value, factor.divisor == 1 ? size : ceil_div(size, factor.divisor));
    }
    sum = saturating_sum(sum, value);
  }
  return sum;
}

}  // namespace lathe
