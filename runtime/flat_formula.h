// A recipe's formulas in a flat form that a launch can evaluate quickly. All terms lie in one array, and
// terms without variables are folded when the kernel is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/recipe.h"

namespace lathe {

// Rejects a formula that cannot be evaluated, because artifacts come from disk. kInvalidArgument; the message
// starts with `what`.
absl::Status check_formula(const Formula& formula, absl::string_view what);

int64_t saturating_product(int64_t a, int64_t b);

class FlatFormulas {
 public:
  FlatFormulas() = default;
  explicit FlatFormulas(const std::vector<Formula>& formulas);

  // Returns the value of formula `index`; saturates on overflow.
  int64_t value(size_t index, const VarValues& v) const {
    const Entry& entry = entries_[index];
    return entry.term_count == 0 ? entry.constant : sum(entry, v);
  }
  bool is_constant(size_t index) const { return entries_[index].term_count == 0; }
  size_t size() const { return entries_.size(); }

 private:
  struct FlatTerm {
    int64_t coefficient;
    uint32_t first_factor, factor_count;
  };
  struct Entry {
    int64_t constant = 0;
    uint32_t first_term = 0, term_count = 0;
  };
  int64_t sum(const Entry& entry, const VarValues& v) const;

  std::vector<Entry> entries_;
  std::vector<FlatTerm> terms_;
  std::vector<Factor> factors_;
};

}  // namespace lathe
