// Reading elementwise ops of payloads as programs: merged loops, layouts of inputs, and the reason if the host
// must compute the op.
#include "inspect_payloads.h"

namespace lathe::testing {
namespace {

struct Operand {
  std::string type, map;
};

// A function with one linalg.generic over parallel loops. `lines` of its body compute %v from %x0, %x1... (f32).
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

TEST(InspectElementwise, MergesAdjacentLoops) {
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

TEST(InspectElementwise, DoesNotMergeLoopsAcrossABroadcast) {
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

TEST(InspectElementwise, ReadsTransposedInputsAsContiguousAlongM) {
  const Json step = step_of(
      generic("i, j", {{"tensor<4x5xf32>", "i, j"}, {"tensor<5x4xf32>", "j, i"}}, "tensor<4x5xf32>", kSum));
  EXPECT_EQ(program_of(step)["inputs"][1]["dims"], "nm");
  EXPECT_EQ(step["in1"]["dims"], "nm");
  // The batch may be between rows and columns.
  const Json between =
      step_of(generic("g, i, j", {{"tensor<3x4x5xf32>", "g, i, j"}, {"tensor<4x3x5xf32>", "i, g, j"}},
                      "tensor<3x4x5xf32>", kSum));
  EXPECT_EQ(between["in1"]["dims"], "mbn");
  EXPECT_EQ(program_of(between)["inputs"][1]["dims"], "bmn");
}

TEST(InspectElementwise, DoesNotMergeALoopWhoseIndexIsUsed) {
  const Json step =
      step_of(generic("i, j", {{"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>",
                      "    %i = linalg.index 1 : index\n    %c = arith.index_cast %i : index to i32\n"
                      "    %y = arith.sitofp %c : i32 to f32\n    %v = arith.addf %x0, %y : f32\n"));
  EXPECT_EQ(step["in0"]["dims"], "mn");
  EXPECT_EQ(program_of(step)["nodes"][0], Json::parse(R"(["index","index",2])"));
}

TEST(InspectElementwise, IgnoresLoopsOfExtentOne) {
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

TEST(InspectElementwise, MakesOneInputOfATensorThatIsReadTwice) {
  std::string text =
      generic("i, j", {{"tensor<4x5xf32>", "i, j"}, {"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>", kSum);
  text.replace(text.find("%a0, %a1 :"), 10, "%a0, %a0 :");
  const Json program = program_of(step_of(text));
  EXPECT_EQ(program["inputs"].size(), 1u);
  EXPECT_EQ(program["nodes"], Json::parse(R"([["arith.addf","f32",0,0]])"));
}

// A function that adds an i64 tensor and %i, which `line` computes.
std::string sum_of_integers(const std::string& line) {
  return "func.func @f(%x: tensor<4x5xi64>, %o: tensor<4x5xi64>) -> tensor<4x5xi64> {\n" + line +
         "  %r = linalg.add ins(%x, %i : tensor<4x5xi64>, tensor<4x5xi64>) outs(%o : tensor<4x5xi64>) -> "
         "tensor<4x5xi64>\n  return %r : tensor<4x5xi64>\n}\n";
}

TEST(InspectElementwise, KeepsAllBitsOfIntegerConstants) {
  for (const char* number :
       {"9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808"}) {
    const Json step = step_of(sum_of_integers(
        "  %c = arith.constant " + std::string(number) +
        " : i64\n  %i = linalg.fill ins(%c : i64) outs(%o : tensor<4x5xi64>) -> tensor<4x5xi64>\n"));
    EXPECT_EQ(program_of(step)["nodes"][0].dump(), "[\"number\",\"i64\"," + std::string(number) + "]");
  }
}

// This includes integers, and floats that JSON cannot write as a number.
TEST(InspectElementwise, WritesASplatAsAFillInTheMeaning) {
  const std::pair<const char*, const char*> splats[] = {
      {"dense<9007199254740993> : tensor<4x5xi64>", "9007199254740993"},
      {"dense<-1> : tensor<4x5xi32>", "-1"},
      {"dense<true> : tensor<4x5xi1>", "-1"},
      {"dense<0xFF800000> : tensor<4x5xf32>", "\"-inf\""},
      {"dense<1.5> : tensor<4x5xbf16>", "1.5"}};
  for (const auto& [splat, number] : splats) {
    const Json program =
        inspect("func.func @f(%x: tensor<5xf32>) -> tensor<5xf32> {\n  %c = arith.constant " +
                std::string(splat) + "\n  return %x : tensor<5xf32>\n}\n");
    ASSERT_TRUE(program.contains("functions")) << program;
    EXPECT_EQ(program["functions"][0]["meaning"]["ops"][0]["fill"].dump(), number) << program;
  }
}

TEST(InspectElementwise, RefusesUnknownOperationsByName) {
  const std::string place = "p.mlir:2:9: linalg.generic: ";
  const std::pair<const char*, const char*> cases[] = {
      {"    %1 = arith.fptosi %x0 : f32 to i64\n    %v = arith.uitofp %1 : i64 to f32\n",
       "arith.fptosi is not an operation that Lathe can evaluate"},
      {"    %c = arith.constant 3 : i32\n    %1 = arith.shli %c, %c : i32\n    %v = arith.sitofp %1 : i32 to "
       "f32\n",
       "arith.shli is not an operation that Lathe can evaluate"},
      {"    %c = arith.constant 3 : i64\n    %1 = arith.extsi %c : i64 to i128\n    %2 = arith.cmpi slt, %1, "
       "%1 : i128\n"
       "    %v = arith.select %2, %x0, %z : f32\n",
       "arith.extsi has type i128, which is wider than 64 bits"}};
  for (const auto& [lines, why] : cases)
    EXPECT_EQ(refusal_of(generic("i, j", {{"tensor<4x5xf32>", "i, j"}}, "tensor<4x5xf32>", lines)),
              place + why);
  EXPECT_EQ(
      refusal_of("func.func @f(%x: tensor<5xf64>) -> tensor<5xf64> {\n  return %x : tensor<5xf64>\n}\n"),
      "p.mlir:1:1: func.func: argument 0 has elements of type f64, which Lathe does not support");
}

TEST(InspectElementwise, GivesTheReasonIfNoKernelCanComputeAnOp) {
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
       "an input has an index that is not a single loop"},
      {generic("i, j", {{"tensor<?x?xf32>", "i, j"}, {"tensor<?xf32>", "j"}}, "tensor<?x?xf32>", kSum),
       "several of its extents are dynamic"},
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
