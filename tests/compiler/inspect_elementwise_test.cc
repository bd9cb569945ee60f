// Elementwise ops of payloads as programs: loops collapsed, inputs as they lie in memory, or why the host
// does it.
#include "inspect_payloads.h"

namespace lathe::testing {
namespace {

struct Operand {
  std::string type, map;
};

// One generic over parallel loops of %0, %1... whose body's `lines` compute %v of %x0, %x1... (f32).
std::string generic(const std::string& loops, const std::vector<Operand>& inputs, const std::string& result,
                    const std::string& lines) {
  std::string arguments, maps, ins, types, body, iterators;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string comma = i == 0 ? "" : ", ", n = std::to_string(i);
    arguments += comma + "%a" + n + ": " + inputs[i].type;
    maps += "affine_map<(" + loops + ") -> (" + inputs[i].map + ")>, ";
    ins += comma + "%a" + n;
    types += comma + inputs[i].type;
    body += "%x" + n + ": f32, ";
  }
  for (char c : loops)
    if (c >= 'a' && c <= 'z') iterators += std::string(iterators.empty() ? "" : ", ") + "\"parallel\"";
  return "func.func @f(" + arguments + ", %o: " + result + ") -> " + result +
         " {\n  %v0 = linalg.generic {indexing_maps = [" + maps + "affine_map<(" + loops + ") -> (" + loops +
         ")>], iterator_types = [" + iterators + "]} ins(" + ins + " : " + types + ") outs(%o : " + result +
         ") {\n  ^bb0(" + body + "%z: f32):\n" + lines + "    linalg.yield %v : f32\n  } -> " + result +
         "\n  return %v0 : " + result + "\n}\n";
}
Json step_of(const std::string& text) {
  const Json steps = steps_of(text);
  EXPECT_EQ(steps.size(), 1u) << text;
  return steps.empty() ? Json::object() : steps[0];
}
Json program_of(const Json& step) {
  EXPECT_TRUE(step.contains("program")) << step.dump(1);
  return Json::parse(step.value("program", "{}"));
}
constexpr char kSum[] = "    %v = arith.addf %x0, %x1 : f32\n";

TEST(InspectElementwise, LoopsThatLieTogetherAreOne) {
  const Json step =
      step_of(generic("i, j, k", {{"tensor<4x5x6xf32>", "i, j, k"}, {"tensor<4x5x6xf32>", "i, j, k"}},
                      "tensor<4x5x6xf32>", kSum));
  EXPECT_EQ(step["in0"]["dims"], "nnn");
  EXPECT_EQ(step["d"]["dims"], "nnn");
  const Json program = program_of(step);
  EXPECT_EQ(program["inputs"], Json::parse(R"([{"dims":"n","dtype":"f32"},{"dims":"n","dtype":"f32"}])"));
  EXPECT_EQ(program["nodes"], Json::parse(R"([["arith.addf","f32",0,1]])"));
  EXPECT_EQ(program["yield"], 2);
}

TEST(InspectElementwise, ABroadcastKeepsLoopsApart) {
  const Json step = step_of(generic("i, j, k", {{"tensor<4x5x6xf32>", "i, j, k"}, {"tensor<6xf32>", "k"}},
                                    "tensor<4x5x6xf32>", kSum));
  EXPECT_EQ(step["in0"]["dims"], "mmn");
  EXPECT_EQ(step["in1"]["dims"], "n");
  EXPECT_EQ(step["d"]["dims"], "mmn");
  const Json rows = step_of(generic(
      "i, j, k", {{"tensor<4x5x6xf32>", "i, j, k"}, {"tensor<4x6xf32>", "i, k"}}, "tensor<4x5x6xf32>", kSum));
  EXPECT_EQ(rows["in0"]["dims"], "bmn");
  EXPECT_EQ(rows["in1"]["dims"], "bn");
  EXPECT_EQ(program_of(rows)["inputs"][1]["dims"], "bn");
}

TEST(InspectElementwise, TransposedInputsLieAlongM) {
  const Json step = step_of(
      generic("i, j", {{"tensor<4x5xf32>", "i, j"}, {"tensor<5x4xf32>", "j, i"}}, "tensor<4x5xf32>", kSum));
  EXPECT_EQ(program_of(step)["inputs"][1]["dims"], "nm");
  EXPECT_EQ(step["in1"]["dims"], "nm");
  // The batch may lie between rows.
  const Json between =
      step_of(generic("g, i, j", {{"tensor<3x4x5xf32>", "g, i, j"}, {"tensor<4x3x5xf32>", "i, g, j"}},
                      "tensor<3x4x5xf32>", kSum));
  EXPECT_EQ(between["in1"]["dims"], "mbn");
  EXPECT_EQ(program_of(between)["inputs"][1]["dims"], "bmn");
}

TEST(InspectElementwise, AnIndexedLoopStaysAlone) {
  const Json step =
      step_of(generic("i, j", {{"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>",
                      "    %i = linalg.index 1 : index\n    %c = arith.index_cast %i : index to i32\n"
                      "    %y = arith.sitofp %c : i32 to f32\n    %v = arith.addf %x0, %y : f32\n"));
  EXPECT_EQ(step["in0"]["dims"], "mn");
  EXPECT_EQ(program_of(step)["nodes"][0], Json::parse(R"(["index","index",2])"));
}

TEST(InspectElementwise, AnExtentOfOneIsNoLoop) {
  const Json step =
      step_of(generic("i, j", {{"tensor<1x5xf32>", "i, j"}, {"tensor<1x5xf32>", "0, j"}}, "tensor<1x5xf32>",
                      "    %i = linalg.index 0 : index\n    %c = arith.index_cast %i : index to i32\n"
                      "    %y = arith.sitofp %c : i32 to f32\n    %w = arith.addf %x0, %y : f32\n"
                      "    %v = arith.addf %w, %x1 : f32\n"));
  EXPECT_EQ(step["in0"]["dims"], "nn");
  const Json program = program_of(step);
  EXPECT_EQ(program["inputs"], Json::parse(R"([{"dims":"n","dtype":"f32"},{"dims":"n","dtype":"f32"}])"));
  EXPECT_EQ(program["nodes"][0], Json::parse(R"(["number","index",0])"));
}

TEST(InspectElementwise, WhatIsReadTwiceIsOneInput) {
  std::string text =
      generic("i, j", {{"tensor<4x5xf32>", "i, j"}, {"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>", kSum);
  text.replace(text.find("%a0, %a1 :"), 10, "%a0, %a0 :");
  const Json program = program_of(step_of(text));
  EXPECT_EQ(program["inputs"].size(), 1u);
  EXPECT_EQ(program["nodes"], Json::parse(R"([["arith.addf","f32",0,0]])"));
}

TEST(InspectElementwise, WhatNoKernelDoesSaysWhy) {
  const struct {
    std::string text, why;
  } cases[] = {
      {generic("a, b, c, d", {{"tensor<2x3x4x5xf32>", "a, b, c, d"}, {"tensor<2x4xf32>", "a, c"}},
               "tensor<2x3x4x5xf32>", kSum),
       "its loops do not collapse to three"},
      {generic("g, i, j",
               {{"tensor<3x4x5xf32>", "g, i, j"}, {"tensor<4x5x3xf32>", "i, j, g"}, {"tensor<4xf32>", "i"}},
               "tensor<3x4x5xf32>",
               "    %w = arith.addf %x0, %x1 : f32\n    %v = arith.addf %w, %x2 : f32\n"),
       "an input's innermost dimension is the batch"},
      {generic("i, j", {{"tensor<4x5xf32>", "i, j"}, {"tensor<8xf32>", "i + j"}}, "tensor<4x5xf32>", kSum),
       "an input is not indexed by loops alone"},
      {generic("i, j", {{"tensor<?x?xf32>", "i, j"}, {"tensor<?xf32>", "j"}}, "tensor<?x?xf32>", kSum),
       "several of its extents are open"},
      {generic("i, j", {{"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>",
               "    %w = arith.extf %x0 : f32 to f64\n    %u = arith.addf %w, %w : f64\n"
               "    %v = arith.truncf %u : f64 to f32\n"),
       "type \"f64\""}};
  for (const auto& c : cases) {
    const Json step = step_of(c.text);
    EXPECT_FALSE(step.contains("program")) << c.text;
    EXPECT_NE(step.value("on_host", "").find(c.why), std::string::npos) << step.dump(1);
    EXPECT_FALSE(step["reads"].empty());
  }
}

}  // namespace
}  // namespace lathe::testing
