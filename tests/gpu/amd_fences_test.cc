// Checks the fences of a split that the last workgroup merges, on AMD. Before taking its ticket, every wave must
// release its stores at device scope; after the ticket it must acquire before it loads the sums of others. An emulator
// with strong memory cannot test this, so the test reads the machine code. LLVM's AMDGPUUsage (memory model, scope
// agent) says what a release and an acquire are on each target.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compile_client/compiler_library.h"
#include "core/facts.h"

namespace lathe {
namespace {

struct TargetRow {
  const char* arch;
  std::vector<const char*> release, acquire;  // the first instruction of an acquire waits for loads
  const char* barrier;
  const char* returns;  // the modifier of an atomic that returns the old value
};
void PrintTo(const TargetRow& row, std::ostream* out) { *out << row.arch; }
const TargetRow kTargets[] = {
    {"gfx90a", {"s_waitcnt vmcnt(0)"}, {"s_waitcnt vmcnt(0)", "buffer_wbinvl1_vol"}, "s_barrier", " glc"},
    {"gfx942",
     {"buffer_wbl2 sc1", "s_waitcnt vmcnt(0)"},
     {"s_waitcnt vmcnt(0)", "buffer_inv sc1"},
     "s_barrier",
     " sc0"},
    {"gfx950",
     {"buffer_wbl2 sc1", "s_waitcnt vmcnt(0)"},
     {"s_waitcnt vmcnt(0)", "buffer_inv sc1"},
     "s_barrier",
     " sc0"},
    {"gfx1030",
     {"s_waitcnt_vscnt null, 0x0"},
     {"s_waitcnt vmcnt(0)", "buffer_gl1_inv", "buffer_gl0_inv"},
     "s_barrier",
     " glc"},
    {"gfx1100",
     {"s_waitcnt_vscnt null, 0x0"},
     {"s_waitcnt vmcnt(0)", "buffer_gl1_inv", "buffer_gl0_inv"},
     "s_barrier",
     " glc"},
    {"gfx1201",
     {"s_wait_storecnt 0x0"},
     {"s_wait_loadcnt 0x0", "global_inv scope:SCOPE_DEV"},
     "s_barrier_wait",
     " th:TH_ATOMIC_RETURN"},
};

ProblemClass f32_class() {
  ProblemClass c;
  c.op = Op::kMatmul;
  c.a = c.b = c.d = DType::kF32;
  c.m_lo = c.m_hi = 8;
  c.n = 40, c.k = 300;
  c.trans_b = 1;
  return c;
}

CompileConfig merged_by_the_last() {
  SimtConfig c;
  c.tile_m = 8, c.tile_n = 64, c.tile_k = 32;
  c.register_m = 2, c.register_n = 2, c.threads = 128;
  c.split = kMergeLast;
  return c;
}

std::vector<std::string> instructions_of(absl::string_view assembly) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(assembly, '\n'))
    if (absl::StartsWith(line, "\t") && !absl::StartsWith(line, "\t.")) lines.emplace_back(line.substr(1));
  return lines;
}

// The first line from `at` on that starts with the prefix, or `lines.size()`.
size_t find(const std::vector<std::string>& lines, size_t at, absl::string_view prefix) {
  while (at < lines.size() && !absl::StartsWith(lines[at], prefix)) ++at;
  return at;
}

class LastArrival : public testing::TestWithParam<TargetRow> {
 protected:
  // The instructions of the kernel.
  static std::vector<std::string> compile(const std::string& arch) {
    CompilerLibrary compiler(LATHE_COMPILER_PATH);
    std::vector<std::string> lines;
    const ProblemClass problem = f32_class();
    const CompileConfig config = merged_by_the_last();
    const Target target{Backend::kRocm, arch, ""};
    const absl::Status status = compiler.dump({problem, config, target, nullptr}, "",
                                              [&](absl::string_view name, absl::string_view text) {
                                                if (name == "assembly.s") lines = instructions_of(text);
                                              });
    EXPECT_TRUE(status.ok()) << status;
    return lines;
  }
};

TEST_P(LastArrival, ReleasesBeforeTheTicketAndAcquiresAfterIt) {
  const TargetRow& target = GetParam();
  const std::vector<std::string> lines = compile(target.arch);
  const size_t ticket = find(lines, 0, "global_atomic_inc");
  ASSERT_LT(ticket, lines.size()) << "there is no native increment";
  EXPECT_TRUE(absl::StrContains(lines[ticket], target.returns)) << lines[ticket];
  EXPECT_EQ(find(lines, ticket + 1, "global_atomic"), lines.size());

  // After the last store of partial sums: every wave releases, then the barrier, then the ticket.
  size_t store = ticket;
  while (store > 0 && !absl::StartsWith(lines[store], "global_store")) --store;
  ASSERT_GT(store, 0u);
  const std::string text = absl::StrJoin(lines.begin() + store, lines.end(), "\n");
  size_t at = store;
  for (const char* instruction : target.release) at = find(lines, at, instruction);
  at = find(lines, at, target.barrier);
  EXPECT_LT(at, ticket) << "there is no release between the stores and the barrier before the ticket:\n"
                        << text;

  // After the ticket: its thread acquires, then the barrier, then every wave acquires, and only then come loads.
  at = ticket;
  for (const char* instruction : target.acquire) at = find(lines, at, instruction);
  at = find(lines, at, target.barrier);
  ASSERT_LT(at, lines.size()) << "there is no acquire between the ticket and the barrier after it:\n" << text;
  for (size_t i = 1; i < target.acquire.size(); ++i) at = find(lines, at, target.acquire[i]);
  const size_t load = find(lines, ticket, "global_load");
  ASSERT_LT(load, lines.size());
  EXPECT_LT(at, load) << "the sums of others are read before every wave has acquired:\n" << text;
}

INSTANTIATE_TEST_SUITE_P(Amd, LastArrival, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.arch); });

}  // namespace
}  // namespace lathe
