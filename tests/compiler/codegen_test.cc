// The generated code follows the plan, uses vectors and keeps accumulators in registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "compiler_process.h"
#include "oracle/oracle.h"

namespace lathe::testing {
namespace {

// The lines of the innermost loop that contains `instruction` most often, from its label to the jump back.
std::vector<std::string> hottest_loop(const std::string& assembly, const std::string& instruction) {
  std::vector<std::string> lines, best;
  std::stringstream in(assembly);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  long most = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i][0] != '.' || lines[i].find(':') == std::string::npos) continue;
    const std::string label = lines[i].substr(0, lines[i].find(':'));
    for (size_t j = i + 1; j < lines.size() && lines[j].find("LBB") != 0; ++j) {
      if (!lines[j].empty() && lines[j][0] == '.' && lines[j].find(':') != std::string::npos) break;
      std::stringstream words(lines[j]);
      std::string op, last, word;
      words >> op;
      while (words >> word) last = word;
      if (last != label) continue;
      std::vector<std::string> body(lines.begin() + i + 1, lines.begin() + j + 1);
      long count = std::count_if(body.begin(), body.end(), [&](const std::string& l) {
        return l.find(instruction) != std::string::npos;
      });
      if (count > most) most = count, best = body;
      break;
    }
  }
  return best;
}

long count(const std::vector<std::string>& lines, const std::string& pattern) {
  std::regex regex(pattern);
  return std::count_if(lines.begin(), lines.end(),
                       [&](const std::string& l) { return std::regex_search(l, regex); });
}

TEST(CodegenTest, ObjectChangesWithEveryTileField) {
  const Target target = *parse_target("x86-64-avx512");
  const ProblemClass c = matmul_class(100, 300, 2000);
  const CompileConfig base = cpu_config("panel", target);
  const std::string object = code_of(compile(c, base, target));
  auto changed = [&](void (*change)(PanelConfig*)) {
    PanelConfig config = base.as<PanelConfig>();
    change(&config);
    return code_of(compile(c, config, target));
  };
  EXPECT_NE(object, changed([](PanelConfig* x) { x->tile_m = 24; }));
  EXPECT_NE(object, changed([](PanelConfig* x) { x->tile_n = 96; }));
  EXPECT_NE(object, changed([](PanelConfig* x) { x->tile_k = 128; }));
  EXPECT_NE(object, changed([](PanelConfig* x) { x->register_m = 8; }));
  EXPECT_NE(object, changed([](PanelConfig* x) { x->register_n = 64; }));
  EXPECT_NE(object, changed([](PanelConfig* x) { x->split = 1; }));
}

struct LoopCase {
  const char* target;
  int64_t register_m, register_n;
  const char* fma;     // one vector multiply-add
  const char* memory;  // accesses to the stack, which would be spills
};

// The loop of the micro-kernel has exactly register_m * vectors multiply-adds and does not access the stack.
TEST(CodegenTest, PanelLoopKeepsAccumulatorsInRegisters) {
  for (const LoopCase& l : {LoopCase{"x86-64-avx512", 14, 32, "vfmadd.*%zmm", "\\tv.*\\(%rsp\\)"},
                            LoopCase{"x86-64-avx2", 6, 16, "vfmadd.*%ymm", "\\tv.*\\(%rsp\\)"},
                            LoopCase{"aarch64-neon", 8, 8, "fmla.*v[0-9]+\\.4s", "\\[sp"}}) {
    const Target target = *parse_target(l.target);
    PanelConfig config = cpu_config("panel", target).as<PanelConfig>();
    config.register_m = l.register_m, config.register_n = l.register_n;
    config.tile_m = 4 * l.register_m, config.tile_n = 4 * l.register_n;
    CompilerAnswer answer = compile(matmul_class(1000, 1024, 1024), config, target, true);
    ASSERT_EQ(answer.code, 0) << answer.error;
    std::vector<std::string> loop =
        hottest_loop(answer.dumps["assembly.s"], target.arch == "aarch64" ? "fmla" : "vfmadd");
    EXPECT_EQ(count(loop, l.fma), l.register_m * l.register_n / vector_lanes(target)) << l.target;
    EXPECT_EQ(count(loop, l.memory), 0) << l.target << ": accumulators are spilled";
  }
}

TEST(CodegenTest, DotLoopUsesFullVectorsAndDoesNotSpill) {
  const Target target = *parse_target("x86-64-avx512");
  DotConfig config = cpu_config("dot", target).as<DotConfig>();
  config.register_m = 4, config.register_n = 4;
  CompilerAnswer answer = compile(matmul_class(4, 64, 4096), config, target, true);
  ASSERT_EQ(answer.code, 0) << answer.error;
  std::vector<std::string> loop = hottest_loop(answer.dumps["assembly.s"], "vfmadd");
  EXPECT_EQ(count(loop, "vfmadd.*%zmm"), 16);
  EXPECT_EQ(count(loop, "\\(%rsp\\)"), 0);
}

TEST(CodegenTest, WritesElfObjectsForAArch64) {
  const Target target = *parse_target("aarch64-neon");
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16})
    for (const char* kernel : {"dot", "panel"}) {
      ProblemClass c = matmul_class(5, 60, 77);
      c.a = c.b = c.d = t;
      const std::string object = code_of(compile(c, cpu_config(kernel, target), target));
      ASSERT_GT(object.size(), 64u);
      EXPECT_EQ(object.substr(0, 4), "\177ELF");
      EXPECT_EQ(static_cast<uint8_t>(object[18]), 183) << "e_machine EM_AARCH64";
    }
}

TEST(CodegenTest, CompilesForEveryNamedTarget) {
  for (const char* name :
       {"x86-64-avx2", "x86-64-avx512", "aarch64-neon", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a",
        "sm_100a", "sm_120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    const Target target = *parse_target(name);
    const CompileConfig config =
        target.backend == Backend::kCpu ? cpu_config("panel", target) : simt_config();
    EXPECT_GT(code_of(compile(matmul_class(33, 50, 70), config, target)).size(), 100u) << name;
  }
}

// A processor with only some features of an x86-64 level must not get the other instructions of that level.
TEST(CodegenTest, UsesOnlyInstructionsThatTheTargetHas) {
  Target target = *parse_target("x86-64-avx512");
  auto assembly = [&] {
    CompilerAnswer answer = compile(matmul_class(33, 50, 70), cpu_config("panel", target), target, true);
    EXPECT_EQ(answer.code, 0) << target.features << ": " << answer.error;
    return answer.dumps["assembly.s"];
  };
  target.features = "";
  std::string plain = assembly();
  EXPECT_EQ(plain.find("%ymm"), std::string::npos);
  EXPECT_EQ(plain.find("vfmadd"), std::string::npos);
  target.features = "+avx,+avx2";
  std::string without_fma = assembly();
  EXPECT_NE(without_fma.find("%ymm"), std::string::npos);
  EXPECT_EQ(without_fma.find("vfmadd"), std::string::npos);
}

// Conversions and math functions must not become library calls on any CPU target.
TEST(CodegenTest, NeedsNoLibraryForAnyDtypeOrActivation) {
  for (const char* name : {"x86-64-avx2", "x86-64-avx512", "aarch64-neon"}) {
    const Target target = *parse_target(name);
    for (DType in : {DType::kF32, DType::kF16, DType::kBF16})
      for (DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
        ProblemClass c = matmul_class(33, 50, 70);
        c.a = c.b = in;
        c.c = c.d = c.residual = c.bias = out;
        c.activation = in == DType::kF32   ? Activation::kGelu
                       : in == DType::kF16 ? Activation::kGeluTanh
                                           : Activation::kSilu;
        CompilerAnswer answer = compile(c, cpu_config("panel", target), target);
        EXPECT_EQ(answer.code, 0) << name << ": " << answer.error;
      }
  }
}

}  // namespace
}  // namespace lathe::testing
