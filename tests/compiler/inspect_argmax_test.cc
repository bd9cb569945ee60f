// Reading argmax from payloads: all forms of Lathe's rule, and rules that differ from it.
#include "inspect_payloads.h"

namespace lathe::testing {
namespace {

// An argmax of the rows of %x, which has the type `type`. `compare` computes %take.
std::string argmax_of(const std::string& x, const std::string& type, const std::string& compare) {
  return "  %low = arith.constant 0xFF800000 : f32\n  %no = arith.constant 0 : i64\n"
         "  %ev = tensor.empty() : tensor<5xf32>\n  %ei = tensor.empty() : tensor<5xi64>\n"
         "  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<5xf32>) -> tensor<5xf32>\n"
         "  %ii = linalg.fill ins(%no : i64) outs(%ei : tensor<5xi64>) -> tensor<5xi64>\n"
         "  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, "
         "affine_map<(i, j) -> (i)>], iterator_types = [\"parallel\", \"reduction\"]} ins(" +
         x + " : " + type +
         ") outs(%iv, %ii : tensor<5xf32>, tensor<5xi64>) {\n"
         "  ^bb0(%in: f32, %best: f32, %at: i64):\n    %j = linalg.index 1 : index\n"
         "    %column = arith.index_cast %j : index to i64\n" +
         compare +
         "    %value = arith.select %take, %in, %best : f32\n    %index = arith.select %take, %column, %at : "
         "i64\n"
         "    linalg.yield %value, %index : f32, i64\n  } -> (tensor<5xf32>, tensor<5xi64>)\n";
}
constexpr char kRule[] =
    "    %g = arith.cmpf ugt, %in, %best : f32\n    %o = arith.cmpf ord, %best, %best : f32\n"
    "    %take = arith.andi %g, %o : i1\n";

TEST(Inspect, ReadsAnArgmax) {
  const Json steps = steps_of("func.func @f(%x: tensor<5x7xf32>) -> (tensor<5xf32>, tensor<5xi64>) {\n" +
                              argmax_of("%x", "tensor<5x7xf32>", kRule) +
                              "  return %r#0, %r#1 : tensor<5xf32>, tensor<5xi64>\n}\n");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["op"], "argmax");
  EXPECT_EQ(steps[0]["x"], Json({{"value", 0}, {"dims", "rn"}}));
  EXPECT_TRUE(steps[0].contains("values"));
  EXPECT_EQ(steps[0]["index_offset"], 0);
}

TEST(Inspect, MergesAProductIntoTheArgmaxThatIsItsOnlyReader) {
  const std::string text =
      function("%a: tensor<5x9xf32>, %b: tensor<9x7xf32>", "tensor<5x7xf32>", "tensor<5xi64>",
               kMatmul + argmax_of("%d", "tensor<5x7xf32>", kRule) + "  return %r#1 : tensor<5xi64>\n");
  const Json steps = steps_of(text);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["op"], "matmul_argmax");
  EXPECT_EQ(steps[0]["logits"], "f32");
  EXPECT_FALSE(steps[0].contains("values")) << "nothing reads the maxima";
}

TEST(Inspect, RefusesAnotherNanRuleUnlessThereAreNoNans) {
  const auto text = [](const std::string& flags) {
    return "func.func @f(%x: tensor<5x7xf32>) -> tensor<5xi64> {\n" +
           argmax_of("%x", "tensor<5x7xf32>", "    %take = arith.cmpf ogt, %in, %best" + flags + " : f32\n") +
           "  return %r#1 : tensor<5xi64>\n}\n";
  };
  EXPECT_NE(refusal_of(text("")).find("NaN"), std::string::npos) << refusal_of(text(""));
  EXPECT_EQ(steps_of(text(" fastmath<nnan>")).size(), 1u);
}

// An argmax of the rows of %x in the form of StableHLO: a reduction of the elements and their columns. `rule`
// computes %take and %move: whether the value and the index are replaced.
std::string argmax_of_pairs(const std::string& rule, const std::string& yields = "%value, %index",
                            const std::string& dimension = "1") {
  return "func.func @f(%x: tensor<5x7xf32>) -> tensor<5xi64> {\n"
         "  %low = arith.constant 0xFF800000 : f32\n  %no = arith.constant 0 : i64\n"
         "  %ec = tensor.empty() : tensor<5x7xi64>\n"
         "  %columns = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = "
         "[\"parallel\", "
         "\"parallel\"]} outs(%ec : tensor<5x7xi64>) {\n  ^bb0(%z: i64):\n    %j = linalg.index " +
         dimension +
         " : index\n    %c = arith.index_cast %j : index to i64\n    linalg.yield %c : i64\n  } -> "
         "tensor<5x7xi64>\n"
         "  %ev = tensor.empty() : tensor<5xf32>\n  %ei = tensor.empty() : tensor<5xi64>\n"
         "  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<5xf32>) -> tensor<5xf32>\n"
         "  %ii = linalg.fill ins(%no : i64) outs(%ei : tensor<5xi64>) -> tensor<5xi64>\n"
         "  %r:2 = linalg.reduce ins(%x, %columns : tensor<5x7xf32>, tensor<5x7xi64>) outs(%iv, %ii : "
         "tensor<5xf32>, "
         "tensor<5xi64>) dimensions = [1]\n  (%in: f32, %column: i64, %best: f32, %at: i64) {\n" +
         rule +
         "    %value = arith.select %take, %in, %best : f32\n    %index = arith.select %move, %column, %at : "
         "i64\n"
         "    %old_value = arith.select %take, %best, %in : f32\n"
         "    %old_index = arith.select %move, %at, %column : i64\n    linalg.yield " +
         yields + " : f32, i64\n  }\n  return %r#1 : tensor<5xi64>\n}\n";
}

// The rule that JAX generates for argmax, with the element as the first operand of the comparisons. `nan` and
// `tie` are the comparisons for a NaN and for the index.
std::string rule_of_element(const std::string& nan, const std::string& tie, const std::string& flags = "") {
  return "    %greater = arith.cmpf ogt, %in, %best" + flags + " : f32\n    %nan = arith.cmpf " + nan +
         " : f32\n    %take = arith.ori %greater, %nan : i1\n    %equal = arith.cmpf oeq, %in, %best : f32\n"
         "    %before = arith.cmpi " +
         tie +
         " : i64\n    %tie = arith.andi %equal, %before : i1\n"
         "    %move = arith.ori %take, %tie : i1\n";
}
// The same with the maximum so far as the first operand, as the lowering of stablehlo.reduce gives it.
constexpr char kRuleOfMaximum[] =
    "    %greater = arith.cmpf ogt, %best, %in : f32\n    %nan = arith.cmpf une, %best, %best : f32\n"
    "    %take = arith.ori %greater, %nan : i1\n    %equal = arith.cmpf oeq, %best, %in : f32\n"
    "    %before = arith.cmpi slt, %at, %column : i64\n    %tie = arith.andi %equal, %before : i1\n"
    "    %move = arith.ori %take, %tie : i1\n";

TEST(Inspect, ReadsAnArgmaxOfElementsAndTheirColumns) {
  const std::string rule =
      "    %take = arith.cmpf ogt, %in, %best fastmath<nnan> : f32\n"
      "    %move = arith.cmpf ogt, %in, %best fastmath<nnan> : f32\n";
  const std::string tie = "slt, %column, %at", nnan = " fastmath<nnan>";
  for (const std::string& text :
       {argmax_of_pairs(kRuleOfMaximum, "%old_value, %old_index"), argmax_of_pairs(rule),
        argmax_of_pairs(rule_of_element("une, %in, %in", tie, nnan))}) {
    const Json steps = steps_of(text);
    ASSERT_EQ(steps.size(), 1u) << text;
    EXPECT_EQ(steps[0]["op"], "argmax");
    EXPECT_EQ(steps[0]["x"], Json({{"value", 0}, {"dims", "rn"}}));
    EXPECT_EQ(steps[0]["index_offset"], 0);
  }
}

TEST(Inspect, RefusesAnArgmaxOfColumnsWithAnotherRule) {
  const auto why = [](const std::string& rule) { return refusal_of(argmax_of_pairs(rule)); };
  // The last NaN wins.
  EXPECT_NE(why(rule_of_element("une, %in, %in", "slt, %column, %at")).find("NaN"), std::string::npos);
  // The last of equal maxima wins.
  EXPECT_NE(why(rule_of_element("une, %in, %in", "sgt, %column, %at")).find("the first of equal maxima"),
            std::string::npos);
  // The smallest element wins.
  const std::string least =
      "    %take = arith.cmpf olt, %in, %best fastmath<nnan> : f32\n"
      "    %move = arith.cmpf olt, %in, %best fastmath<nnan> : f32\n";
  EXPECT_NE(why(least).find("the first of equal maxima"), std::string::npos);
  // The second input holds the number of the row, not of the column.
  EXPECT_NE(refusal_of(argmax_of_pairs(kRuleOfMaximum, "%old_value, %old_index", "0"))
                .find("not the index along the reduced dimension"),
            std::string::npos);
}

TEST(Inspect, RefusesAMaximumThatIgnoresTheMaximumSoFar) {
  std::string text = "func.func @f(%x: tensor<5x7xf32>) -> tensor<5xi64> {\n" +
                     argmax_of("%x", "tensor<5x7xf32>", kRule) + "  return %r#1 : tensor<5xi64>\n}\n";
  const std::string kept = "arith.select %take, %in, %best : f32";
  text.replace(text.find(kept), kept.size(), "arith.maximumf %in, %in : f32");
  EXPECT_NE(refusal_of(text).find("its maximum is not selected by a comparison"), std::string::npos);
}

TEST(Inspect, ReadsAnArgmaxOverAnyDimension) {
  std::string text = "func.func @f(%x: tensor<7x5xf32>) -> tensor<5xi64> {\n" +
                     argmax_of("%x", "tensor<7x5xf32>", kRule) + "  return %r#1 : tensor<5xi64>\n}\n";
  const auto swap = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  swap("affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>",
       "affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (j)>");
  swap("\"parallel\", \"reduction\"", "\"reduction\", \"parallel\"");
  swap("linalg.index 1", "linalg.index 0");
  const Json steps = steps_of(text);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["x"], Json({{"value", 0}, {"dims", "nr"}}));
}
}  // namespace
}  // namespace lathe::testing
