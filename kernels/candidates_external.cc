#include "kernels/candidates_external.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates_external.h"

namespace lathe {
namespace {

bool has(const std::vector<DType>& types, DType t) {
  return std::find(types.begin(), types.end(), t) != types.end();
}

// Why the library with this id may not be used, "" if it may.
std::string absence(const ExternalPolicy& policy, ExternalId id) {
  const ExternalChoice& choice = policy.choice;
  if (choice.use == ExternalUse::kOff || choice.use == ExternalUse::kDefault)
    return "external libraries are off; LATHE_EXTERNAL=allow turns them on";
  // A preference for one library has a message of its own, below.
  const bool only = choice.use != ExternalUse::kPrefer && choice.which != ExternalId::kAny;
  if (only && choice.which != id)
    return absl::StrCat("only the external library ", std::string(name_of(choice.which)), " is allowed");
  if (choice.use == ExternalUse::kPrefer && choice.which != ExternalId::kAny && choice.which != id)
    return absl::StrCat("the external library ", std::string(name_of(choice.which)), " is preferred");
  for (const ExternalFound& found : policy.found)
    if (found.id == id) return found.absent;
  return absl::StrCat(std::string(name_of(id)), " was not searched for");
}

std::string epilogue_refusal(const ExternalRow& row, const ProblemClass& c) {
  if (c.activation != Activation::kNone)
    return absl::StrCat("the library computes ", name_of(c.activation), " differently (NaN, accuracy)");
  if (c.c != DType::kNone && (!row.adds_c || c.c != c.d)) return "needs C to have the dtype of D";
  if (c.bias != DType::kNone && !has(row.bias, c.bias) && !(has(row.bias, DType::kNone) && c.bias == c.d))
    return absl::StrCat("does not support bias ", name_of(c.bias));
  if (c.combine != Combine::kAdd) return "does not multiply by a residual";
  if (c.residual != DType::kNone && !row.adds_residual) return "does not support a residual";
  return "";
}

std::string refusal_of(const ExternalRow& row, const CandidateContext& context) {
  const ProblemClass& c = context.problem;
  if (c.b != c.a || c.packed_b != 0) return "needs B unpacked and with the dtype of A";
  if (!has(row.d, c.d)) return absl::StrCat("does not support D ", name_of(c.d), " with A ", name_of(c.a));
  if (c.scale_a != Scale::kNone || c.scale_b != Scale::kNone || c.zero_a != 0 || c.zero_b != Scale::kNone)
    return "does not support scales or zero points";
  if (c.determinism != Determinism::kFast)
    return "supports determinism fast only: the library does not fix the order of its sums";
  if (context.split_k != 0) return "does not support a forced split_k";
  if (std::string why = epilogue_refusal(row, c); !why.empty()) return why;
  return row.refusal(context);
}

}  // namespace

const std::vector<ExternalRow>& external_rows() {
  static const std::vector<ExternalRow> rows = [] {
    std::vector<ExternalRow> all;
    for (const auto* op : {&matmul_externals()}) all.insert(all.end(), op->begin(), op->end());
    return all;
  }();
  return rows;
}

void enumerate_externals(const CandidateContext& context, std::vector<RankedPlan>* out) {
  static const ExternalPolicy kOff;
  const ProblemClass& c = context.problem;
  const ExternalPolicy& policy = context.external != nullptr ? *context.external : kOff;
  for (const ExternalRow& row : external_rows()) {
    if (row.op != c.op || row.backend != context.facts.target.backend || row.a != c.a) continue;
    RankedPlan r;
    CompileConfig& config = r.plan.config;
    config = ExternalConfig();
    config.external = {std::string(name_of(row.id)), row.routine};
    r.rejection = refusal_of(row, context);
    if (r.rejection.empty()) {
      // The prediction is shown even if policy forbids the library.
      r.plan.predicted_seconds = row.seconds(context, std::max(policy.threads, 1));
      r.plan.numeric_recipe = row.numbers;
      r.rejection = absence(policy, row.id);
    }
    out->push_back(std::move(r));
  }
}

}  // namespace lathe
