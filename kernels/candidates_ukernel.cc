#include "kernels/candidates_ukernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/argmax/candidates.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

// What was compiled with this library: "argmax/rows@x86-64-v4".
constexpr absl::string_view kCompiled[] = {
#include "ukernel_names.inc"
};

// What bitcode is compiled for, of an architecture the most demanding first (flags: kernels/ukernels.cmake).
struct UkernelTarget {
  const char* name;
  const char* arch;
  std::vector<const char*> features;
};
const std::vector<UkernelTarget>& ukernel_targets() {
  static const std::vector<UkernelTarget> kTargets = {
      {"x86-64-v4-bf16", "x86-64", {"avx512bf16", "avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma"}},
      {"x86-64-v4-vnni", "x86-64", {"avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma"}},
      {"x86-64-v4", "x86-64", {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "fma"}},
      {"x86-64-v3", "x86-64", {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt"}},
      {"aarch64", "aarch64", {"neon"}},
  };
  return kTargets;
}

bool has_all(const Target& target, const UkernelTarget& wanted) {
  return target.arch == wanted.arch && std::all_of(wanted.features.begin(), wanted.features.end(),
                                                   [&](const char* f) { return target.has(f); });
}

// Appends the row's plans, or why there are none.
void enumerate_row(const UkernelRow& row, const CandidateContext& context, std::vector<RankedPlan>* out) {
  CompileConfig config = row.tiling(context);
  config.kernel = "ukernel";
  config.ukernel = {row.function, bitcode_for(row.bitcode, context.facts.target), row.attributes};
  if (config.ukernel.bitcode.empty())
    return out->push_back(
        rejected(config, absl::StrCat("no bitcode of ", row.bitcode, " for ", context.facts.target.arch, " ",
                                      context.facts.target.features)));
  if (std::string refusal = row.refusal(context); !refusal.empty())
    return out->push_back(rejected(config, refusal));
  if (row.shared_bytes > 0) {
    const auto most = static_cast<int64_t>(GpuRates(context.facts).shared_memory_bytes);
    if (row.shared_bytes > most)
      return out->push_back(rejected(config, absl::StrCat("smem ", row.shared_bytes, " > ", most)));
  }
  row.price(context, config, out);
}

}  // namespace

const std::vector<UkernelRow>& ukernel_rows() {
  static const std::vector<UkernelRow> rows = [] {
    std::vector<UkernelRow> all;
    for (const auto* op : {&argmax_ukernels(), &matmul_ukernels()})
      all.insert(all.end(), op->begin(), op->end());
    return all;
  }();
  return rows;
}

std::string bitcode_for(const std::string& bitcode, const Target& target) {
  for (const UkernelTarget& t : ukernel_targets()) {
    const std::string name = absl::StrCat(bitcode, "@", t.name);
    const bool compiled = std::find(std::begin(kCompiled), std::end(kCompiled), name) != std::end(kCompiled);
    if (compiled && has_all(target, t)) return name;
  }
  return "";
}

void enumerate_ukernels(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  for (const UkernelRow& row : ukernel_rows())
    if (row.op == c.op && row.backend == context.facts.target.backend && row.a == c.a)
      enumerate_row(row, context, out);
}

}  // namespace lathe
