// Pipelines are data. A missing or misspelled stage is an error that names the stage or the missing part.
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

// Splits the text of a pipeline file into its stages. The first element is the text before them.
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
  CpuRowsConfig rows;
  rows.tile_m = rows.register_m = 1;
  rows.lanes = 16;
  rows.register_n = rows.tile_n = 64;
  return {{"matmul/cpu.yaml", gelu_class(), cpu_config("panel", target())},
          {"argmax/cpu.yaml", argmax_class(), rows}};
}

std::string path(const PipelineCase& c) { return std::string(LATHE_KERNELS_DIR) + "/" + c.file; }

TEST(PipelineTest, FileGivesTheSameCodeAsTheBuiltInPipeline) {
  for (const PipelineCase& c : cases())
    EXPECT_EQ(code_of(compile(c.problem, c.config, target(), false, read(path(c)))),
              code_of(compile(c.problem, c.config, target())))
        << c.file;
}

TEST(PipelineTest, FailsWithoutAnyOneStage) {
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

// Compiles with a pipeline in the form of a request.
CompilerAnswer compile_with(const Json& pipeline) {
  return compile_bytes(Json{
      {"class", to_json(gelu_class())},
      {"config", to_json(cpu_config("panel", target()))},
      {"target", to_json(target())},
      {"pipeline",
       pipeline}}.dump());
}

TEST(PipelineTest, NamesTheLineOfADefectInTheYaml) {
  const auto error = [&](const std::string& yaml) {
    return compile_with({{"name", "p.yaml"}, {"text", yaml}}).error;
  };
  const std::string head = "for: matmul.cpu\nstages:\n";
  const std::pair<std::string, const char*> cases[] = {
      {"for: matmul.cpu\nstages: [", "p.yaml:2: "},
      {"for: matmul.cpu\nstages: []", "p.yaml:1: 'stages' is missing or empty"},
      {"stages:\n  - name: x\n    passes: cse\n", "p.yaml:1: 'for' is missing"},
      {"for: argmax.cpu\nstages:\n  - name: x\n    passes: cse\n",
       "p.yaml:1: it is for argmax.cpu, not for matmul.cpu"},
      {"for: matmul.cpu\nsteps:\n  - name: x\n    passes: cse\n", "p.yaml:2: unknown key 'steps'"},
      {head + "  - name: x\n", "p.yaml:3: stage 'x' needs exactly one of passes, emitter and schedule"},
      {head + "  - name: x\n    passes: cse\n    emitter: matmul.cpu\n",
       "p.yaml:3: stage 'x' needs exactly one of"},
      {head + "  - name: x\n    colour: red\n    passes: cse\n", "p.yaml:4: unknown key 'colour'"},
      {head + "  - name: x\n    passes: cse\n  - name: x\n    passes: cse\n",
       "p.yaml:5: two stages have the name 'x'"},
      {head + "  - name: x\n    passes: cse\n    passes: cse\n", "p.yaml:5: duplicate key 'passes'"},
      {head + "  - name: x\n    passes: cse\n    parameters: {a: 1}\n",
       "p.yaml:3: stage 'x' has parameters but no schedule"},
      {head + "  - name: x\n    passes: cse\n  - passes: cse\n", "p.yaml:5: a stage has no name"},
      {head + "  - name: first\n    passes: cse\n  - name: y\n    emitter: nobody\n",
       "p.yaml:6: stage 'y': unknown emitter 'nobody'"},
      {head + "  - name: first\n    passes: no-such-pass\n", "p.yaml:4: stage 'first': bad pass pipeline"},
      {head + "  - name: x\n    passes: cse{${plan.colour}}\n",
       "p.yaml:4: stage 'x': unknown value 'plan.colour'"},
      {head + "  - name: x\n    schedule: s.mlir\n", "p.yaml:4: schedule 's.mlir' is not among"},
      {std::string(8000, '['), "p.yaml:"},
      {std::string(100000, '['), "p.yaml:1: the text is longer"},
      {"", "p.yaml:1: "},
      {std::string("\0\1\2", 3), "p.yaml:"}};
  for (const auto& [yaml, wanted] : cases)
    EXPECT_EQ(error(yaml).rfind(wanted, 0), 0u) << wanted << "\n"
                                                << error(yaml) << "\n"
                                                << yaml.substr(0, 200);
}

std::string tiled_yaml(const std::string& parameters) {
  std::string yaml = read(LATHE_EXAMPLE_PIPELINE);
  const size_t from = yaml.find("    parameters:"), to = yaml.find("  - name: tidy");
  return yaml.substr(0, from) + parameters + yaml.substr(to);
}
std::string tile_schedule() {
  const std::string path = LATHE_EXAMPLE_PIPELINE;
  return read(path.substr(0, path.rfind('/')) + "/tile.mlir");
}

TEST(PipelineTest, BindsScheduleParametersFromThePlanAFileOrANumber) {
  const auto compiled = [&](const std::string& tile_n, const Json& more) {
    Json pipeline = {
        {"name", "p.yaml"},
        {"text", tiled_yaml("    parameters: {tile_m: plan.tile_m, symbol: kernel.symbol, tile_n: " + tile_n +
                            "}\n")},
        {"schedules", {{"tile.mlir", tile_schedule()}}}};
    pipeline.update(more);
    return compile_with(pipeline);
  };
  const Json file = {
      {"parameters",
       {{"name", "p.json"}, {"text", "{\"lathe_params\": 1,\n\"parameters\": {\"width\": 128}}"}}}};
  const std::string plan = code_of(compiled("plan.tile_n", Json::object()));
  EXPECT_TRUE(code_of(compiled("128", Json::object())) == plan) << "the plan's own tile, as a number";
  EXPECT_TRUE(code_of(compiled("params.width", file)) == plan);
  EXPECT_EQ(compiled("128", file).error, "p.json:2: parameter 'width' is used by no stage of p.yaml");
  EXPECT_NE(compiled("params.depth", file).error.find("p.yaml:8: 'params.depth' is unbound"),
            std::string::npos)
      << compiled("params.depth", file).error;
  // With other tile sizes than the launch assumes, part of the result would not be written.
  EXPECT_EQ(compiled("32", Json::object()).error,
            "p.yaml: it makes 12 tiles with m = 17 and batch = 3, but the launch runs 6: use the plan's "
            "tile sizes");
  EXPECT_NE(compiled("kernel.symbol", Json::object())
                .error.find("p.yaml:7: tile.mlir:7:7: parameter 'tile_n' is a whole number"),
            std::string::npos)
      << compiled("kernel.symbol", Json::object()).error;
}

TEST(PipelineTest, NamesTheLocationOfADefectInASchedule) {
  const std::string all = "    parameters: {tile_m: plan.tile_m, symbol: kernel.symbol, tile_n: plan.tile_n";
  const auto error = [&](const std::string& parameters, const std::string& schedule) {
    return compile_with({{"name", "p.yaml"},
                         {"text", tiled_yaml(parameters)},
                         {"schedules", {{"tile.mlir", schedule}}}})
        .error;
  };
  const std::string schedule = tile_schedule();
  EXPECT_EQ(error(all + "}\n", schedule), "");
  EXPECT_EQ(error(all + ", depth: 3}\n", schedule), "p.yaml:8: tile.mlir has no parameter 'depth'");
  EXPECT_EQ(error("    parameters: {tile_m: 3, symbol: kernel.symbol}\n", schedule),
            "p.yaml:7: stage 'tile' leaves parameter 'tile_n' of tile.mlir:7:7 unbound");
  EXPECT_EQ(error(all + "}\n", schedule + "x").rfind("tile.mlir:", 0), 0u);
  EXPECT_EQ(error(all + "}\n", "module {}"), "tile.mlir:1: the file has no named sequence @__transform_main");
  // A schedule that finds no op to transform is an error that names its stage.
  std::string lost = schedule;
  lost.replace(lost.find("linalg.batch_matmul"), 19, "linalg.conv_2d");
  EXPECT_NE(error(all + "}\n", lost).find("pipeline p.yaml, stage tile:"), std::string::npos)
      << error(all + "}\n", lost);
}

TEST(PipelineTest, DumpsEveryStage) {
  CompilerAnswer answer = compile(gelu_class(), cpu_config("panel", target()), target(), true);
  EXPECT_EQ(answer.code, 0) << answer.error;
  for (const char* name :
       {"00-payload.mlir", "01-distribute.mlir", "02-kernel.mlir", "03-llvm.mlir", "llvm.ll", "assembly.s"})
    EXPECT_GT(answer.dumps[name].size(), 100u) << name;
  // The plan is an attribute of the payload op, and the distributed form is a forall mapped to workgroups.
  EXPECT_NE(answer.dumps["00-payload.mlir"].find(
                "lathe.config = #lathe.kernel_config<family = \"panel\", kernel = \"panel\""),
            std::string::npos);
  EXPECT_NE(answer.dumps["01-distribute.mlir"].find("#gpu.block<x>"), std::string::npos);
}

}  // namespace
}  // namespace lathe::testing
