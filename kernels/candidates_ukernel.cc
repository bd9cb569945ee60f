#include "kernels/candidates_ukernel.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/amd_targets.h"
#include "kernels/argmax/candidates.h"
#include "kernels/candidates_model.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

// The ukernels that were compiled with this library, such as "argmax/rows@x86-64-v4".
constexpr absl::string_view kCompiled[] = {
#include "ukernel_names.inc"
};

// The targets for which bitcode is compiled, within an architecture the most demanding first (flags:
// kernels/ukernels.cmake).
struct UkernelTarget {
  const char* name;
  const char* archs;  // prefixes of the architectures that run it (AMD: of amd_baseline), separated by spaces
  std::vector<const char*> features;
  int least_sm = 0;
};
const std::vector<UkernelTarget>& ukernel_targets() {
  static const std::vector<UkernelTarget> kTargets = {
      {"x86-64-v4-bf16", "x86-64", {"avx512bf16", "avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma"}},
      {"x86-64-v4-vnni", "x86-64", {"avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma"}},
      {"x86-64-v4", "x86-64", {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "fma"}},
      {"x86-64-v3", "x86-64", {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt"}},
      {"aarch64", "aarch64", {"neon"}},
      {"sm_80", "sm_", {}, 80},
      {"sm_75", "sm_", {}, 75},
      {"gfx11", "gfx11 gfx12", {}},  // waves of 32
      {"gfx950", "gfx950", {}},      // matrix instructions with twice the K
      {"gfx942", "gfx942", {}},
      {"gfx90a", "gfx90a", {}},
      {"gfx9", "gfx9", {}},  // waves of 64
  };
  return kTargets;
}

bool runs(const Target& target, const UkernelTarget& bitcode) {
  const std::vector<absl::string_view> archs = absl::StrSplit(bitcode.archs, ' ');
  const auto begins = [&](absl::string_view a) { return absl::StartsWith(amd_baseline(target.arch), a); };
  return std::any_of(archs.begin(), archs.end(), begins) && sm_version(target) >= bitcode.least_sm &&
         std::all_of(bitcode.features.begin(), bitcode.features.end(),
                     [&](const char* f) { return target.has(f); });
}

// Appends the row's plans, or why there are none.
void enumerate_row(const UkernelRow& row, const CandidateContext& context, std::vector<RankedPlan>* out) {
  CompileConfig config = row.tiling(context);
  config.ukernel = {row.function, bitcode_for(row.bitcode, context.facts.target), row.attributes};
  if (config.ukernel.bitcode.empty())
    return reject(context, config, out, "no bitcode of ", row.bitcode, " for ", context.facts.target.arch,
                  " ", context.facts.target.features);
  if (std::string refusal = row.refusal(context); !refusal.empty())
    return reject(context, config, out, refusal);
  if (row.shared_bytes > 0) {
    const auto most = static_cast<int64_t>(GpuRates(context.facts).shared_memory_bytes);
    if (row.shared_bytes > most)
      return out->push_back(rejected(config, absl::StrCat("smem ", row.shared_bytes, " > ", most)));
  }
  row.price(context, config, out);
}

std::string refusal_of(const char* what, const SizeRange& range, int64_t lo, int64_t hi) {
  const std::string size = lo == hi ? absl::StrCat(what, " ", lo) : absl::StrCat(what, " ", lo, " to ", hi);
  if (lo < range.least || hi > range.most)
    return absl::StrCat(size, " is not in ", range.least, " to ", range.most);
  if (range.multiple > 1 && (lo != hi || lo % range.multiple != 0))
    return absl::StrCat(size, lo == hi ? " is not a multiple of " : " are not all multiples of ",
                        range.multiple);
  return "";
}

// Why a user's ukernel does not support a class of its op and dtypes on this target, "" if it does.
std::string refusal_of(const UserUkernel& u, const CandidateContext& context) {
  if (!u.defect.empty()) return u.defect;
  const Target& target = context.facts.target;
  for (absl::string_view feature : absl::StrSplit(u.target.features, ',', absl::SkipEmpty()))
    if (!target.has(feature.substr(1)))
      return absl::StrCat("ukernel ", u.name, ": the target has no ", feature);
  const ProblemClass& c = context.problem;
  const bool rows = has_row_lengths(c.op);
  if (std::string m = rows ? "" : refusal_of("M", u.m, c.m_lo, c.m_hi); !m.empty()) return m;
  if (std::string k = rows ? "" : refusal_of("K", u.k, c.k, c.k); !k.empty()) return k;
  return refusal_of("N", u.n, rows ? c.row_lo : c.n, rows ? c.row_hi : c.n);
}

// Operations (argmax: elements) and bytes of operands of the request at which a class is priced, as a user's
// cost counts them.
struct Work {
  explicit Work(const ProblemClass& c) {
    if (has_row_lengths(c.op)) {
      flops = static_cast<double>(representative_rows(c)) * representative_length(c);
      bytes = flops * bytes_per_element(c.a);
      return;
    }
    const auto m = static_cast<double>(representative_m(c)), n = static_cast<double>(c.n);
    const auto k = static_cast<double>(c.k);
    flops = 2 * m * n * k;
    bytes = m * k * bytes_per_element(c.a) + k * n * bytes_per_element(c.b) + m * n * bytes_per_element(c.d);
  }
  double flops, bytes;
};

// Enumerates a user's ukernel in place of the built-in row of its op and type: the same form of kernel, with
// the user's tiling, predicate and price.
void enumerate_user(const UkernelRow& row, const UserUkernel& u, const CandidateContext& context,
                    std::vector<RankedPlan>* out) {
  CompileConfig config = row.tiling(context);
  config.ukernel = {u.function, u.bitcode_name(), u.attributes};
  if (u.register_m > 0) config.set("register_m", u.register_m);
  if (u.register_n > 0) config.set("register_n", u.register_n);
  std::string refusal = refusal_of(u, context);
  if (refusal.empty()) refusal = row.refusal(context);
  if (refusal.empty() && u.register_n % config.lanes() != 0)
    refusal = absl::StrCat("register_n ", u.register_n, " is not a multiple of ", config.lanes(), " lanes");
  if (!refusal.empty()) return out->push_back(rejected(config, refusal));
  // Disables pruning: the row's prices do not apply.
  CandidateContext all = context;
  all.fastest = nullptr;
  const size_t first = out->size();
  row.price(all, config, out);
  const Work work(context.problem);
  const double seconds =
      u.fixed_seconds +
      (u.seconds_per_flop * work.flops + u.seconds_per_byte * work.bytes) / std::max(1, context.workers);
  for (size_t i = first; i < out->size(); ++i) (*out)[i].plan.predicted_seconds = seconds;
}

// Whether a user's bitcode runs on the target. NVIDIA's later GPUs run code for earlier ones, unless it is
// for one architecture only ("sm_90a").
bool is_for(const UserUkernel& u, const Target& target) {
  if (u.target.backend != target.backend) return false;
  if (u.target.arch == target.arch || u.target.arch == amd_baseline(target.arch)) return true;
  return target.backend == Backend::kCuda && !absl::EndsWith(u.target.arch, "a") &&
         sm_version(target) >= sm_version(u.target);
}

void enumerate_users(const CandidateContext& context, std::vector<RankedPlan>* out) {
  if (context.user_ukernels == nullptr) return;
  const ProblemClass& c = context.problem;
  const Target& target = context.facts.target;
  for (const UserUkernel& u : *context.user_ukernels) {
    if (u.op != c.op || u.a != c.a || !is_for(u, target)) continue;
    // Of a GPU's rows only those for a workgroup have shared memory.
    const auto stands_in = [&](const UkernelRow& r) {
      return r.op == c.op && r.backend == target.backend && r.a == c.a &&
             (u.group.empty() || (u.group == "block") == (r.shared_bytes > 0));
    };
    const auto row = std::find_if(ukernel_rows().begin(), ukernel_rows().end(), stands_in);
    if (row != ukernel_rows().end()) enumerate_user(*row, u, context, out);
  }
}

}  // namespace

const std::vector<UkernelRow>& ukernel_rows() {
  static const std::vector<UkernelRow> rows = [] {
    std::vector<UkernelRow> all;
    for (const auto* op : {&argmax_ukernels(), &matmul_ukernels(), &matmul_gpu_ukernels()})
      all.insert(all.end(), op->begin(), op->end());
    return all;
  }();
  return rows;
}

std::string bitcode_for(const std::string& bitcode, const Target& target) {
  for (const UkernelTarget& t : ukernel_targets()) {
    const std::string name = absl::StrCat(bitcode, "@", t.name);
    const bool compiled = std::find(std::begin(kCompiled), std::end(kCompiled), name) != std::end(kCompiled);
    if (compiled && runs(target, t)) return name;
  }
  return "";
}

void enumerate_ukernels(const CandidateContext& context, std::vector<RankedPlan>* out) {
  const ProblemClass& c = context.problem;
  for (const UkernelRow& row : ukernel_rows())
    if (row.op == c.op && row.backend == context.facts.target.backend && row.a == c.a)
      enumerate_row(row, context, out);
  enumerate_users(context, out);
}

}  // namespace lathe
