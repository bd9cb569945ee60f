// Pipelines are data: leaving a stage out or misspelling one fails, naming the stage or what is missing.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "compiler_process.h"

namespace lathe::testing {
namespace {

struct PipelineCase {
  const char* file;
  ProblemClass problem;
  CompileConfig config;
};

std::string read(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The stages of a pipeline file as text, the first element what comes before them.
std::vector<std::string> split_stages(const std::string& yaml) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = yaml.find("  - name:", from + 1)) != std::string::npos; from = at)
    parts.push_back(yaml.substr(from, at - from));
  parts.push_back(yaml.substr(from));
  return parts;
}

Target target() { return *parse_target("x86-64-avx512"); }

ProblemClass gelu_class() {
  ProblemClass c = matmul_class(20, 64, 96);
  c.d = DType::kBF16;
  c.activation = Activation::kGelu;
  return c;
}

ProblemClass argmax_class() {
  ProblemClass c;
  c.op = Op::kArgmax;
  c.a = DType::kBF16;
  c.d = DType::kI64;
  c.row_lo = 1, c.row_hi = 1024;
  return c;
}

std::vector<PipelineCase> cases() {
  CompileConfig rows;
  rows.kernel = "rows";
  rows.tile_m = rows.register_m = 1;
  rows.lanes = 16;
  rows.register_n = rows.tile_n = 64;
  return {{"matmul/cpu.yaml", gelu_class(), cpu_config("panel", target())},
          {"argmax/cpu.yaml", argmax_class(), rows}};
}

std::string path(const PipelineCase& c) { return std::string(LATHE_KERNELS_DIR) + "/" + c.file; }

TEST(PipelineTest, TheFileGivesWhatTheLibraryHasBuiltIn) {
  for (const PipelineCase& c : cases())
    EXPECT_EQ(code_of(compile(c.problem, c.config, target(), false, read(path(c)))),
              code_of(compile(c.problem, c.config, target())))
        << c.file;
}

TEST(PipelineTest, LeavingOutAnyStageFailsLoudly) {
  for (const PipelineCase& c : cases()) {
    std::vector<std::string> parts = split_stages(read(path(c)));
    ASSERT_GE(parts.size(), 3u) << c.file;
    for (size_t left_out = 1; left_out < parts.size(); ++left_out) {
      std::string yaml;
      for (size_t i = 0; i < parts.size(); ++i)
        if (i != left_out) yaml += parts[i];
      CompilerAnswer answer = compile(c.problem, c.config, target(), false, yaml);
      EXPECT_NE(answer.code, 0) << c.file << " without " << parts[left_out];
      EXPECT_EQ(answer.artifacts, 0);
      EXPECT_GT(answer.error.size(), 10u);
    }
  }
}

TEST(PipelineTest, DefectsOfTheTextAreNamed) {
  const ProblemClass c = gelu_class();
  const CompileConfig config = cpu_config("panel", target());
  auto error = [&](const std::string& yaml) { return compile(c, config, target(), false, yaml).error; };
  EXPECT_NE(error("stages: [").find("pipeline matmul.cpu"), std::string::npos);
  EXPECT_NE(error("stages: []").find("no stages"), std::string::npos);
  EXPECT_NE(error("steps:\n  - name: x\n    passes: cse\n").find("stages"), std::string::npos);
  EXPECT_NE(error("stages:\n  - name: x\n").find("needs either passes or an emitter"), std::string::npos);
  EXPECT_NE(error("stages:\n  - name: x\n    passes: cse\n    emitter: matmul.cpu\n").find("either"),
            std::string::npos);
  EXPECT_NE(error("stages:\n  - name: x\n    colour: red\n    passes: cse\n").find("colour"),
            std::string::npos);
  EXPECT_NE(error("stages:\n  - name: first\n    emitter: nobody\n").find("'nobody'"), std::string::npos);
  EXPECT_NE(error("stages:\n  - name: first\n    passes: no-such-pass\n").find("stage first"),
            std::string::npos);
}

TEST(PipelineTest, EveryStageIsDumped) {
  CompilerAnswer answer = compile(gelu_class(), cpu_config("panel", target()), target(), true);
  EXPECT_EQ(answer.code, 0) << answer.error;
  for (const char* name : {"00-payload.mlir", "01-distribute.mlir", "02-kernel.mlir", "03-llvm.mlir",
                           "llvm.ll", "assembly.s"})
    EXPECT_GT(answer.dumps[name].size(), 100u) << name;
  // The plan stands on the payload's op, and the distributed form is a mapped forall.
  EXPECT_NE(answer.dumps["00-payload.mlir"].find("lathe.config = #lathe.kernel_config<kernel = \"panel\""),
            std::string::npos);
  EXPECT_NE(answer.dumps["01-distribute.mlir"].find("#gpu.block<x>"), std::string::npos);
}

}  // namespace
}  // namespace lathe::testing
