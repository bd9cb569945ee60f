// Reading payloads that Lathe did not generate: the dimensions of operands, fusion, and refusals with their
// location.
#include <gmock/gmock.h>

#include "inspect_payloads.h"

namespace lathe::testing {
namespace {

// kMatmul and an elementwise op on its result with a second input. `lines` compute %v from %x and %y.
std::string with_consumer(const std::string& other, const std::string& map, const std::string& lines) {
  return function(
      "%a: tensor<5x9xf32>, %b: tensor<9x7xf32>, %o: " + other, "tensor<5x7xf32>", "tensor<5x7xf32>",
      std::string(kMatmul) +
          "  %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> " +
          map +
          ">, affine_map<(i, j) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\"]}"
          " ins(%d, %o : tensor<5x7xf32>, " +
          other + ") outs(%empty : tensor<5x7xf32>) {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n" + lines +
          "    linalg.yield %v : f32\n  } -> tensor<5x7xf32>\n  return %e : tensor<5x7xf32>\n");
}

TEST(Inspect, ReadsAMatmulAndItsValues) {
  const Json program =
      inspect(function("%a: tensor<5x9xf32>, %b: tensor<9x7xf32>", "tensor<5x7xf32>", "tensor<5x7xf32>",
                       std::string(kMatmul) + "  return %d : tensor<5x7xf32>\n"));
  ASSERT_FALSE(program.contains("refused")) << program.dump(1);
  const Json& f = program["functions"][0];
  EXPECT_EQ(f["name"], "f");
  ASSERT_EQ(f["steps"].size(), 1u);
  const Json& s = f["steps"][0];
  EXPECT_EQ(s["op"], "matmul");
  EXPECT_EQ(s["location"], "p.mlir:5:8");
  EXPECT_EQ(s["a"], Json({{"value", f["arguments"][0]}, {"dims", "mk"}}));
  EXPECT_EQ(s["b"], Json({{"value", f["arguments"][1]}, {"dims", "kn"}}));
  EXPECT_EQ(s["d"], Json({{"value", f["results"][0]}, {"dims", "mn"}}));
  EXPECT_EQ(s["alpha"], 1.0);
  EXPECT_EQ(s["activation"], "none");
  EXPECT_FALSE(s.contains("c") || s.contains("bias") || s.contains("residual"));
  EXPECT_EQ(f["values"][f["arguments"][1].get<size_t>()], Json({{"dtype", "f32"}, {"shape", {9, 7}}}));
}

// The indexing maps of a contraction, and the expected dims of A, B and D.
struct OrderCase {
  const char *a, *b, *d;  // types
  const char *map_a, *map_b, *map_d, *loops;
  const char *dims_a, *dims_b, *dims_d;
  int first = 0;  // the argument that becomes A
};
class Order : public ::testing::TestWithParam<OrderCase> {};

TEST_P(Order, IsReadFromTheMaps) {
  const OrderCase& c = GetParam();
  const std::string map = std::string("affine_map<") + c.loops + " -> ";
  std::string iterators;
  for (const char* l = c.loops; *l; ++l)
    if (*l >= 'a' && *l <= 'z')
      iterators += std::string(iterators.empty() ? "" : ", ") +
                   (*l == 'k' || *l == 'l' ? "\"reduction\"" : "\"parallel\"");
  const Json steps =
      steps_of(function(std::string("%a: ") + c.a + ", %b: " + c.b, c.d, c.d,
                        "  %d = linalg.generic {indexing_maps = [" + map + c.map_a + ">, " + map + c.map_b +
                            ">, " + map + c.map_d + ">], iterator_types = [" + iterators +
                            "]} ins(%a, %b : " + c.a + ", " + c.b + ") outs(%init : " + c.d +
                            ") {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n    %p = arith.mulf %x, %y : f32\n    "
                            "%s = arith.addf %z, %p : f32\n"
                            "    linalg.yield %s : f32\n  } -> " +
                            c.d + "\n  return %d : " + c.d + "\n"));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["a"], Json({{"value", c.first}, {"dims", c.dims_a}}));
  EXPECT_EQ(steps[0]["b"], Json({{"value", 1 - c.first}, {"dims", c.dims_b}}));
  EXPECT_EQ(steps[0]["d"]["dims"], c.dims_d);
}

INSTANTIATE_TEST_SUITE_P(
    Maps, Order,
    ::testing::Values(OrderCase{"tensor<9x5xf32>", "tensor<7x9xf32>", "tensor<5x7xf32>", "(k, i)", "(j, k)",
                                "(i, j)", "(i, j, k)", "km", "nk", "mn"},
                      // The second operand has the rows.
                      OrderCase{"tensor<9x7xf32>", "tensor<5x9xf32>", "tensor<5x7xf32>", "(k, j)", "(i, k)",
                                "(i, j)", "(i, j, k)", "mk", "kn", "mn", 1},
                      // The result is transposed, so the operands change places.
                      OrderCase{"tensor<5x9xf32>", "tensor<9x7xf32>", "tensor<7x5xf32>", "(i, k)", "(k, j)",
                                "(j, i)", "(i, j, k)", "km", "nk", "mn", 1},
                      OrderCase{"tensor<3x5x9xf32>", "tensor<9x7xf32>", "tensor<3x5x7xf32>", "(h, i, k)",
                                "(k, j)", "(h, i, j)", "(h, i, j, k)", "bmk", "kn", "bmn"},
                      // Attention heads that are interleaved in the rows of A and D.
                      OrderCase{"tensor<5x3x9xf32>", "tensor<3x7x9xf32>", "tensor<5x3x7xf32>", "(i, h, k)",
                                "(h, j, k)", "(i, h, j)", "(h, i, j, k)", "mbk", "bnk", "mbn"},
                      // Adjacent loops of the same kind are merged, whatever the order of their names.
                      OrderCase{"tensor<2x3x5x9xf32>", "tensor<9x7xf32>", "tensor<2x3x5x7xf32>",
                                "(b, h, i, k)", "(k, j)", "(b, h, i, j)", "(b, h, i, j, k)", "mmmk", "kn",
                                "mmmn"},
                      OrderCase{"tensor<5x3x9xf32>", "tensor<3x9x7xf32>", "tensor<5x7xf32>", "(i, k, l)",
                                "(k, l, j)", "(i, j)", "(i, j, l, k)", "mkk", "kkn", "mn"},
                      OrderCase{"tensor<5x9xf32>", "tensor<9x2x7xf32>", "tensor<5x2x7xf32>", "(i, k)",
                                "(k, h, j)", "(i, h, j)", "(h, i, j, k)", "mk", "knn", "mnn"},
                      OrderCase{"tensor<5x9xf32>", "tensor<9xf32>", "tensor<5xf32>", "(i, k)", "(k)", "(i)",
                                "(i, k)", "k", "nk", "n", 1},
                      OrderCase{"tensor<9xf32>", "tensor<9x7xf32>", "tensor<7xf32>", "(k)", "(k, j)", "(j)",
                                "(j, k)", "k", "kn", "n"}));

// The ops after the product, and the fields of the step that they should set.
struct ConsumerCase {
  const char* name;
  const char *other, *map, *lines;
  const char* activation;
  double alpha;
  std::vector<std::string> operands;
};
class Consumer : public ::testing::TestWithParam<ConsumerCase> {};

TEST_P(Consumer, IsFused) {
  const ConsumerCase& c = GetParam();
  const Json steps = steps_of(with_consumer(c.other, c.map, c.lines));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["activation"], c.activation);
  EXPECT_EQ(steps[0]["alpha"], c.alpha);
  for (const char* name : {"c", "bias", "residual"}) {
    const bool wanted = std::find(c.operands.begin(), c.operands.end(), name) != c.operands.end();
    EXPECT_EQ(steps[0].contains(name), wanted) << name;
    if (wanted && steps[0].contains(name))
      EXPECT_EQ(steps[0][name]["dims"], std::string(c.map) == "(j)" ? "n" : "mn");
  }
}

constexpr char kRow[] = "tensor<7xf32>", kWhole[] = "tensor<5x7xf32>";
INSTANTIATE_TEST_SUITE_P(
    Pieces, Consumer,
    ::testing::Values(
        ConsumerCase{"bias", kRow, "(j)", "    %v = arith.addf %x, %y : f32\n", "none", 1, {"bias"}},
        ConsumerCase{"alpha_bias_relu",
                     kRow,
                     "(j)",
                     "    %h = arith.constant 0.5 : f32\n    %1 = arith.mulf %h, %x : f32\n"
                     "    %2 = arith.addf %y, %1 : f32\n    %v = arith.maximumf %2, %zero : f32\n",
                     "relu",
                     0.5,
                     {"bias"}},
        ConsumerCase{"relu_by_select",
                     kRow,
                     "(j)",
                     "    %1 = arith.addf %x, %y : f32\n    %2 = arith.cmpf ugt, %1, %zero : f32\n"
                     "    %v = arith.select %2, %1, %zero : f32\n",
                     "relu",
                     1,
                     {"bias"}},
        ConsumerCase{"added_before",
                     kWhole,
                     "(i, j)",
                     "    %1 = arith.addf %x, %y : f32\n    %v = arith.maximumf %1, %zero : f32\n",
                     "relu",
                     1,
                     {"c"}},
        ConsumerCase{
            "silu_residual",
            kWhole,
            "(i, j)",
            "    %one = arith.constant 1.0 : f32\n    %1 = arith.negf %x : f32\n    %2 = math.exp %1 : f32\n"
            "    %3 = arith.addf %one, %2 : f32\n    %4 = arith.divf %x, %3 : f32\n"
            "    %v = arith.addf %4, %y : f32\n",
            "silu",
            1,
            {"residual"}},
        ConsumerCase{"gelu",
                     kRow,
                     "(j)",
                     "    %1 = arith.addf %x, %y : f32\n    %r = arith.constant 0.70710678118654752 : f32\n"
                     "    %h = arith.constant 0.5 : f32\n    %one = arith.constant 1.0 : f32\n"
                     "    %2 = arith.mulf %1, %r : f32\n    %3 = math.erf %2 : f32\n    %4 = arith.addf %3, "
                     "%one : f32\n"
                     "    %5 = arith.mulf %1, %4 : f32\n    %v = arith.mulf %5, %h : f32\n",
                     "gelu",
                     1,
                     {"bias"}},
        ConsumerCase{"gelu_tanh",
                     kRow,
                     "(j)",
                     "    %1 = arith.addf %x, %y : f32\n    %s = arith.constant 0.79788456080286536 : f32\n"
                     "    %c = arith.constant 0.044715 : f32\n    %h = arith.constant 0.5 : f32\n"
                     "    %one = arith.constant 1.0 : f32\n    %2 = arith.mulf %1, %1 : f32\n"
                     "    %3 = arith.mulf %2, %1 : f32\n    %4 = arith.mulf %c, %3 : f32\n"
                     "    %5 = arith.addf %1, %4 : f32\n    %6 = arith.mulf %s, %5 : f32\n    %7 = math.tanh "
                     "%6 : f32\n"
                     "    %8 = arith.addf %7, %one : f32\n    %9 = arith.mulf %h, %1 : f32\n"
                     "    %v = arith.mulf %9, %8 : f32\n",
                     "gelu_tanh",
                     1,
                     {"bias"}}),
    [](const auto& info) { return info.param.name; });

TEST(Inspect, ReadsTheInitialValueOfAProductAsC) {
  const Json steps = steps_of(
      "func.func @f(%a: tensor<5x9xf16>, %b: tensor<9x7xf16>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {\n"
      "  %d = linalg.matmul ins(%a, %b : tensor<5x9xf16>, tensor<9x7xf16>) outs(%c : tensor<5x7xf32>) -> "
      "tensor<5x7xf32>\n"
      "  return %d : tensor<5x7xf32>\n}\n");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["c"], Json({{"value", 2}, {"dims", "mn"}}));
}

TEST(Inspect, ReadsTranspositionsAsLayouts) {
  const Json steps = steps_of(function(
      "%a: tensor<5x9xf32>, %w: tensor<7x9xf32>", "tensor<5x7xf32>", "tensor<5x7xf32>",
      "  %t = tensor.empty() : tensor<9x7xf32>\n"
      "  %b = linalg.transpose ins(%w : tensor<7x9xf32>) outs(%t : tensor<9x7xf32>) permutation = [1, 0]\n" +
          std::string(kMatmul) + "  return %d : tensor<5x7xf32>\n"));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["b"], Json({{"value", 1}, {"dims", "nk"}}));
}

TEST(Inspect, KeepsDynamicExtents) {
  const Json program = inspect(
      "func.func @f(%a: tensor<?x9xf32>, %b: tensor<9x7xf32>, %c: tensor<?x7xf32>) -> tensor<?x7xf32> {\n"
      "  %d = linalg.matmul ins(%a, %b : tensor<?x9xf32>, tensor<9x7xf32>) outs(%c : tensor<?x7xf32>) -> "
      "tensor<?x7xf32>\n  return %d : tensor<?x7xf32>\n}\n");
  EXPECT_EQ(program["functions"][0]["values"][0]["shape"], Json({nullptr, 9}));
}

TEST(Inspect, RefusesUnsignedIntegers) {
  const auto text = [](const std::string& cast) {
    return "func.func @f(%a: tensor<5x9xi8>, %b: tensor<9x7xi8>, %c: tensor<5x7xi32>) -> tensor<5x7xi32> {\n"
           "  %d = linalg.matmul " +
           cast +
           "ins(%a, %b : tensor<5x9xi8>, tensor<9x7xi8>) outs(%c : tensor<5x7xi32>) -> tensor<5x7xi32>\n"
           "  return %d : tensor<5x7xi32>\n}\n";
  };
  EXPECT_EQ(steps_of(text("")).size(), 1u);
  EXPECT_EQ(refusal_of(text("{cast = #linalg.type_fn<cast_unsigned>} ")),
            "p.mlir:2:8: linalg.matmul: its integers are unsigned");
}

// MLIR itself accepts all of these bodies as contractions.
TEST(Inspect, RefusesContractionsThatAreNotSumsOfProducts) {
  const auto of = [](const std::string& in, const std::string& out, const std::string& body) {
    const std::string a = "tensor<5x9x" + in + ">", b = "tensor<9x7x" + in + ">",
                      c = "tensor<5x7x" + out + ">";
    return "func.func @f(%a: " + a + ", %b: " + b + ", %c: " + c + ") -> " + c +
           " {\n  %d = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, "
           "affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = "
           "[\"parallel\", "
           "\"parallel\", \"reduction\"]} ins(%a, %b : " +
           a + ", " + b + ") outs(%c : " + c + ") {\n  ^bb0(%x: " + in + ", %y: " + in + ", %z: " + out +
           "):\n" + body + "    linalg.yield %v : " + out + "\n  } -> " + c + "\n  return %d : " + c +
           "\n}\n";
  };
  const std::string place = "p.mlir:2:8: linalg.generic: ";
  for (const char* one : {"arith.negf", "math.exp", "math.absf", "math.rsqrt", "math.sin"}) {
    const std::string name = one, why = place + "'" + name + "' is not allowed in a sum of products";
    const std::string lines = "    %2 = arith.mulf %1, %y : f32\n    %v = arith.addf %z, %2 : f32\n";
    EXPECT_EQ(refusal_of(of("f32", "f32", "    %1 = " + name + " %x : f32\n" + lines)), why);
  }
  const std::string negated = place + "'arith.negf' is not allowed in a sum of products";
  EXPECT_EQ(refusal_of(of("f32", "f32",
                          "    %1 = arith.mulf %x, %y : f32\n    %2 = arith.negf %1 : f32\n"
                          "    %v = arith.addf %z, %2 : f32\n")),
            negated);
  EXPECT_EQ(refusal_of(of("f32", "f32",
                          "    %1 = arith.mulf %x, %y : f32\n    %2 = arith.negf %z : f32\n"
                          "    %v = arith.addf %2, %1 : f32\n")),
            negated);
  EXPECT_EQ(refusal_of(of("f32", "f32",
                          "    %1 = arith.mulf %x, %y : f32\n    %2 = arith.addf %z, %1 : f32\n"
                          "    %v = arith.negf %2 : f32\n")),
            negated);
  // Rounding an operand to fewer bits, or to an integer, and back.
  EXPECT_EQ(
      refusal_of(of("f32", "f32",
                    "    %1 = arith.truncf %x : f32 to f8E4M3FN\n    %2 = arith.extf %1 : f8E4M3FN to f32\n"
                    "    %3 = arith.mulf %2, %y : f32\n    %v = arith.addf %z, %3 : f32\n")),
      place + "'arith.truncf' is not allowed in a sum of products");
  EXPECT_EQ(refusal_of(of("f32", "f32",
                          "    %1 = arith.fptosi %x : f32 to i32\n    %2 = arith.sitofp %1 : i32 to f32\n"
                          "    %3 = arith.mulf %2, %y : f32\n    %v = arith.addf %z, %3 : f32\n")),
            place + "'arith.fptosi' is not allowed in a sum of products");
  // Bitwise ops, and i8 products that are widened only after they may have wrapped around.
  EXPECT_EQ(refusal_of(of("i8", "i32",
                          "    %1 = arith.extsi %x : i8 to i32\n    %2 = arith.extsi %y : i8 to i32\n"
                          "    %3 = arith.andi %1, %2 : i32\n    %v = arith.ori %z, %3 : i32\n")),
            place + "'arith.andi' is not allowed in a sum of products");
  EXPECT_EQ(refusal_of(of("i8", "i32",
                          "    %1 = arith.muli %x, %y : i8\n    %2 = arith.extsi %1 : i8 to i32\n"
                          "    %v = arith.addi %z, %2 : i32\n")),
            place + "it is not a sum of products of two tensors, widened before the multiplication");
  EXPECT_EQ(refusal_of(of("i8", "f32",
                          "    %1 = arith.sitofp %x : i8 to f8E5M2\n    %2 = arith.extf %1 : f8E5M2 to f32\n"
                          "    %3 = arith.sitofp %y : i8 to f32\n    %4 = arith.mulf %2, %3 : f32\n"
                          "    %v = arith.addf %z, %4 : f32\n")),
            place + "it is not a sum of products of two tensors, widened before the multiplication");
  // These are products: operands may be widened; the product and the sum may be widened or rounded to a float.
  const char* bodies[][3] = {{"i8", "i32",
                              "    %1 = arith.extsi %y : i8 to i32\n    %2 = arith.extsi %x : i8 to i32\n"
                              "    %3 = arith.muli %1, %2 : i32\n    %v = arith.addi %3, %z : i32\n"},
                             {"i8", "f32",
                              "    %1 = arith.sitofp %x : i8 to f32\n    %2 = arith.sitofp %y : i8 to f32\n"
                              "    %3 = arith.mulf %1, %2 : f32\n    %v = arith.addf %z, %3 : f32\n"},
                             {"f16", "f32",
                              "    %1 = arith.mulf %x, %y : f16\n    %2 = arith.extf %1 : f16 to f32\n    %v "
                              "= arith.addf %z, %2 : f32\n"},
                             {"bf16", "bf16",
                              "    %1 = arith.extf %x : bf16 to f32\n    %2 = arith.extf %y : bf16 to f32\n"
                              "    %3 = arith.mulf %1, %2 : f32\n    %4 = arith.extf %z : bf16 to f32\n"
                              "    %5 = arith.addf %4, %3 : f32\n    %v = arith.truncf %5 : f32 to bf16\n"}};
  for (const auto& [in, out, body] : bodies) EXPECT_EQ(steps_of(of(in, out, body)).size(), 1u) << body;
}

TEST(Inspect, NamesAnUnsupportedOpWithItsLocation) {
  EXPECT_EQ(refusal_of(with_consumer(kWhole, "(i, j)", "    %v = math.sin %x : f32\n")),
            "p.mlir:6:8: linalg.generic: math.sin is not an operation that Lathe can evaluate");
  EXPECT_EQ(
      refusal_of("func.func @f(%a: tensor<5xf32>) -> tensor<5xf32> {\n  %e = math.exp %a : tensor<5xf32>\n"
                 "  return %e : tensor<5xf32>\n}\n"),
      "p.mlir:2:8: math.exp: Lathe does not support this op");
  EXPECT_NE(refusal_of("module {}\n").find("no function"), std::string::npos);
}

// An exporter may give ops no locations, or names as locations.
TEST(Inspect, LocatesAnOpWithoutALocationByItsPlaceInTheText) {
  const auto text = [](const std::string& location, const std::string& result) {
    return "func.func @f(%a: tensor<5x9xf32>, %b: tensor<9x7xf32>, %c: tensor<5x7xf32>) -> tensor<" + result +
           "xf32> {\n"
           "  %d = linalg.matmul ins(%a, %b : tensor<5x9xf32>, tensor<9x7xf32>) outs(%c : tensor<5x7xf32>) "
           "-> "
           "tensor<5x7xf32> " +
           location + "\n  %e = math.exp %d : tensor<5x7xf32> " + location +
           "\n  return %e : tensor<5x7xf32> " + location + "\n} " + location + "\n";
  };
  for (const char* location : {"loc(unknown)", "loc(\"block.0\")", "loc(fused<\"pass\">[unknown])"}) {
    EXPECT_EQ(refusal_of(text(location, "5x7")), "p.mlir:3:8: math.exp: Lathe does not support this op");
    EXPECT_THAT(refusal_of(text(location, "7")),
                ::testing::StartsWith("p.mlir:4:3: type of return operand 0"));
  }
  // A location in the text is kept.
  EXPECT_EQ(refusal_of(text("loc(\"net.py\":30:4)", "5x7")),
            "net.py:30:4: math.exp: Lathe does not support this op");
  // The region of a named op is not in the text. Its operands make the region ill-typed here.
  EXPECT_THAT(
      refusal_of("func.func @f(%a: tensor<5xf32>, %c: tensor<5xi32>) -> tensor<5xi32> {\n"
                 "  %d = linalg.exp ins(%a : tensor<5xf32>) outs(%c : tensor<5xi32>) -> tensor<5xi32> "
                 "loc(unknown)\n  return %d : tensor<5xi32>\n}\n"),
      ::testing::StartsWith("p.mlir:2:8: "));
}

TEST(Inspect, MakesASeparateStepOfAnElementwiseOpThatIsNoEpilogue) {
  // A product of two tensors; a mask; an op that reads the result of the matmul twice.
  const std::string bodies[] = {
      with_consumer(kWhole, "(i, j)", "    %v = arith.mulf %x, %y : f32\n"),
      with_consumer(kWhole, "(i, j)",
                    "    %r = linalg.index 0 : index\n    %c = linalg.index 1 : index\n"
                    "    %t = arith.cmpi sge, %r, %c : index\n    %v = arith.select %t, %x, %y : f32\n"),
      function("%a: tensor<5x9xf32>, %b: tensor<9x7xf32>", "tensor<5x7xf32>", "tensor<5x7xf32>",
               std::string(kMatmul) +
                   "  %e = linalg.add ins(%d, %d : tensor<5x7xf32>, tensor<5x7xf32>) outs(%empty : "
                   "tensor<5x7xf32>) -> tensor<5x7xf32>\n  return %e : tensor<5x7xf32>\n")};
  for (const std::string& text : bodies) {
    const Json steps = steps_of(text);
    ASSERT_EQ(steps.size(), 2u) << text;
    EXPECT_EQ(steps[0]["op"], "matmul");
    EXPECT_EQ(steps[1]["op"], "elementwise");
    EXPECT_EQ(steps[1]["reads"][0], steps[0]["d"]["value"]);
  }
}

// `line` computes %v from %x, an element of %a, and so %h from %a. Then %h is multiplied by %b.
std::string with_producer(const std::string& element, const std::string& line, const std::string& wide) {
  const std::string a = "tensor<5x9x" + element + ">";
  return function(
      "%a: " + a + ", %b: tensor<9x7xf32>", "tensor<5x7xf32>", "tensor<5x7xf32>",
      "  %e = tensor.empty() : tensor<5x9xf32>\n"
      "  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], "
      "iterator_types = [\"parallel\", \"parallel\"]} ins(%a : " +
          a + ") outs(%e : tensor<5x9xf32>) {\n  ^bb0(%x: " + element + ", %z: f32):\n" + line +
          "    linalg.yield %v : f32\n  } -> tensor<5x9xf32>\n"
          "  %d = linalg.matmul ins(%h, " +
          wide +
          " : tensor<5x9xf32>, tensor<9x7xf32>) outs(%init : tensor<5x7xf32>) -> tensor<5x7xf32>\n"
          "  return %d : tensor<5x7xf32>\n");
}

TEST(Inspect, ReadsAConstantFactorOfAnOperandAsAlpha) {
  const Json steps = steps_of(
      with_producer("f32", "    %c = arith.constant 0.125 : f32\n    %v = arith.mulf %x, %c : f32\n", "%b"));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["alpha"], 0.125);
  EXPECT_EQ(steps[0]["a"], Json({{"value", 0}, {"dims", "mk"}}));
}

TEST(Inspect, MakesAStepForAnOperandThatIsComputedFirst) {
  for (const char* line :
       {"    %v = arith.maximumf %x, %zero : f32\n", "    %v = arith.mulf %x, %x : f32\n"}) {
    const Json steps = steps_of(with_producer("f32", line, "%b"));
    ASSERT_EQ(steps.size(), 2u) << line;
    EXPECT_EQ(steps[0]["op"], "elementwise");
    EXPECT_EQ(steps[1]["a"]["value"], steps[0]["d"]["value"]);
    EXPECT_EQ(steps[1]["alpha"], 1.0);
  }
  // The operands of a product cannot have different types, so a widening of one operand is a step.
  EXPECT_EQ(steps_of(with_producer("f16", "    %v = arith.extf %x : f16 to f32\n", "%b")).size(), 2u);
}

TEST(Inspect, ReadsADiagonalMatrixTimesAMatrixAsABatchOfRows) {
  const std::string head =
      "func.func @f(%a: tensor<5xf32>, %b: tensor<5x7xf32>, %o: tensor<5x7xf32>) -> tensor<5x7xf32> {\n"
      "  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> ";
  const std::string tail =
      ", affine_map<(i, j) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\"]} ins(";
  const std::string body =
      ") outs(%o : tensor<5x7xf32>) {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n"
      "    %p = arith.mulf %x, %y : f32\n    linalg.yield %p : f32\n  } -> tensor<5x7xf32>\n"
      "  return %d : tensor<5x7xf32>\n}\n";
  for (const std::string& text :
       {head + "(i)>, affine_map<(i, j) -> (i, j)>" + tail + "%a, %b : tensor<5xf32>, tensor<5x7xf32>" + body,
        head + "(i, j)>, affine_map<(i, j) -> (i)>" + tail + "%b, %a : tensor<5x7xf32>, tensor<5xf32>" +
            body}) {
    const Json steps = steps_of(text);
    ASSERT_EQ(steps.size(), 1u) << text;
    EXPECT_EQ(steps[0]["a"], Json({{"value", 0}, {"dims", "b"}}));
    EXPECT_EQ(steps[0]["b"], Json({{"value", 1}, {"dims", "bn"}}));
    EXPECT_EQ(steps[0]["d"]["dims"], "bn");
  }
}

TEST(Inspect, MergesAdjacentBatchLoops) {
  const auto text = [](const char* second) {
    return std::string(
               "func.func @f(%a: tensor<2x3x5x9xf32>, %b: tensor<2x3x9x7xf32>, %c: tensor<2x3x5x7xf32>) -> "
               "tensor<2x3x5x7xf32> {\n"
               "  %d = linalg.generic {indexing_maps = [affine_map<(g, h, i, j, k) -> (g, h, i, k)>, "
               "affine_map<(g, h, i, j, k) -> ") +
           second +
           ">, affine_map<(g, h, i, j, k) -> (g, h, i, j)>], iterator_types = [\"parallel\", \"parallel\", "
           "\"parallel\", \"parallel\", \"reduction\"]} ins(%a, %b : tensor<2x3x5x9xf32>, "
           "tensor<2x3x9x7xf32>) outs(%c : "
           "tensor<2x3x5x7xf32>) {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n    %p = arith.mulf %x, %y : f32\n   "
           " %s = arith.addf "
           "%z, %p : f32\n    linalg.yield %s : f32\n  } -> tensor<2x3x5x7xf32>\n  return %d : "
           "tensor<2x3x5x7xf32>\n}\n";
  };
  const Json steps = steps_of(text("(g, h, k, j)"));
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]["a"]["dims"], "bbmk");
  EXPECT_EQ(steps[0]["b"]["dims"], "bbkn");
  std::string apart = text("(g, k, h, j)");
  for (size_t at; (at = apart.find("tensor<2x3x9x7xf32>")) != std::string::npos;)
    apart.replace(at, 19, "tensor<2x9x3x7xf32>");
  EXPECT_NE(refusal_of(apart).find("2 loops are 'b' but not adjacent"), std::string::npos)
      << refusal_of(apart);
}

TEST(Inspect, RefusesLoopsThatCannotBeMerged) {
  EXPECT_EQ(
      refusal_of("func.func @f(%a: tensor<4x5x9xf32>, %b: tensor<4x9x7xf32>, %c: tensor<5x7xf32>) -> "
                 "tensor<5x7xf32> {\n"
                 "  %d = linalg.batch_reduce_matmul ins(%a, %b : tensor<4x5x9xf32>, tensor<4x9x7xf32>) "
                 "outs(%c : tensor<5x7xf32>) -> tensor<5x7xf32>\n  return %d : tensor<5x7xf32>\n}\n"),
      "p.mlir:2:8: linalg.batch_reduce_matmul: 2 loops are 'k' but not adjacent in every operand, so they "
      "cannot be merged");
}

// Products of %a and %b with two batch dimensions, and an addend %o with the indexing map `map`. `before`
// computes %b from %w.
std::string two_batches(const std::string& before, const std::string& map) {
  const std::string type = "tensor<2x2x5x7xf32>", loops = "affine_map<(g, h, i, j, k) -> ";
  return "func.func @f(%a: tensor<2x2x5x9xf32>, %w: tensor<2x2x9x7xf32>, %o: " + type + ") -> " + type +
         " {\n  %zero = arith.constant 0.0 : f32\n  %empty = tensor.empty() : " + type +
         "\n  %init = linalg.fill ins(%zero : f32) outs(%empty : " + type + ") -> " + type + "\n" + before +
         "  %d = linalg.generic {indexing_maps = [" + loops + "(g, h, i, k)>, " + loops + "(g, h, k, j)>, " +
         loops +
         "(g, h, i, j)>], iterator_types = [\"parallel\", \"parallel\", \"parallel\", \"parallel\", "
         "\"reduction\"]} ins(%a, %b : tensor<2x2x5x9xf32>, tensor<2x2x9x7xf32>) outs(%init : " +
         type +
         ") {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n    %p = arith.mulf %x, %y : f32\n    %s = arith.addf "
         "%z, %p : f32\n    linalg.yield %s : f32\n  } -> " +
         type +
         "\n  %e = linalg.generic {indexing_maps = [affine_map<(g, h, i, j) -> (g, h, i, j)>, "
         "affine_map<(g, h, i, j) -> " +
         map +
         ">, affine_map<(g, h, i, j) -> (g, h, i, j)>], iterator_types = [\"parallel\", \"parallel\", "
         "\"parallel\", \"parallel\"]} ins(%d, %o : " +
         type + ", " + type + ") outs(%empty : " + type +
         ") {\n  ^bb0(%x: f32, %y: f32, %z: f32):\n    %s = arith.addf %x, %y : f32\n    linalg.yield %s : "
         "f32\n  } -> " +
         type + "\n  return %e : " + type + "\n}\n";
}

TEST(Inspect, DoesNotMergeDimensionsInAnotherOrder) {
  const std::string plain = "  %b = tensor.cast %w : tensor<2x2x9x7xf32> to tensor<2x2x9x7xf32>\n";
  const std::string transposed =
      "  %t = tensor.empty() : tensor<2x2x9x7xf32>\n  %b = linalg.transpose ins(%w : tensor<2x2x9x7xf32>) "
      "outs(%t : "
      "tensor<2x2x9x7xf32>) permutation = [1, 0, 2, 3]\n";
  const Json fused = steps_of(two_batches(plain, "(g, h, i, j)"));
  ASSERT_EQ(fused.size(), 1u);
  EXPECT_EQ(fused[0]["c"]["dims"], "bbmn");
  // An addend in the other order is not part of the epilogue. An operand in the other order is refused.
  const Json apart = steps_of(two_batches(plain, "(h, g, i, j)"));
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[1]["op"], "elementwise");
  EXPECT_NE(refusal_of(two_batches(transposed, "(g, h, i, j)")).find("must merge are transposed"),
            std::string::npos);
}

TEST(Inspect, ReadsABroadcastRowThatIsAddedAsABias) {
  const auto text = [](const std::string& sum, const std::string& results, const std::string& returned) {
    return function(
        "%a: tensor<5x9xf32>, %b: tensor<9x7xf32>, %o: tensor<7xf32>", "tensor<5x7xf32>", "(" + results + ")",
        std::string(kMatmul) +
            "  %r = linalg.broadcast ins(%o : tensor<7xf32>) outs(%empty : tensor<5x7xf32>) dimensions = "
            "[0]\n  %e = linalg.add ins(" +
            sum +
            " : tensor<5x7xf32>, tensor<5x7xf32>) outs(%empty : tensor<5x7xf32>) -> tensor<5x7xf32>\n  "
            "return " +
            returned + " : " + results + "\n");
  };
  for (const char* sum : {"%d, %r", "%r, %d"}) {
    const Json steps = steps_of(text(sum, "tensor<5x7xf32>", "%e"));
    ASSERT_EQ(steps.size(), 1u) << sum;
    EXPECT_EQ(steps[0]["bias"]["dims"], "n");
    EXPECT_FALSE(steps[0].contains("c"));
  }
  // If something else reads the broadcast row too, a step computes it.
  const Json both = steps_of(text("%d, %r", "tensor<5x7xf32>, tensor<5x7xf32>", "%e, %r"));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0]["op"], "elementwise");
  EXPECT_EQ(both[1]["bias"]["value"], both[0]["reads"][0]);
}

TEST(Inspect, DropsOpsWhoseResultNothingReads) {
  EXPECT_EQ(steps_of(function("%a: tensor<5x7xf32>", "tensor<5x7xf32>", "tensor<5x7xf32>",
                              "  %e = linalg.exp ins(%a : tensor<5x7xf32>) outs(%empty : tensor<5x7xf32>) -> "
                              "tensor<5x7xf32>\n  return %a : tensor<5x7xf32>\n"))
                .size(),
            0u);
}

TEST(Inspect, RefusesToReturnAValueThatIsNotATensor) {
  EXPECT_NE(refusal_of("func.func @f(%a: tensor<5x7xf32>) -> index {\n  %i = arith.constant 1 : index\n"
                       "  return %i : index\n}\n")
                .find("it returns a value that is neither"),
            std::string::npos);
}

// Each line squares the previous one, so the number of factors doubles 60 times.
TEST(Inspect, ReadsNestedSquaresInLinearTime) {
  std::string lines = "    %p0 = arith.mulf %x, %y : f32\n";
  for (int i = 0; i < 60; ++i)
    lines += "    %p" + std::to_string(i + 1) + " = arith.mulf %p" + std::to_string(i) + ", %p" +
             std::to_string(i) + " : f32\n";
  lines += "    %v = arith.mulf %p60, %x : f32\n";
  EXPECT_EQ(steps_of(with_consumer(kWhole, "(i, j)", lines)).size(), 2u);
}

TEST(Inspect, RefusesMalformedTextsWithLineAndColumn) {
  for (const std::string& text :
       {std::string("func.func @f( {"), std::string("\0\1\2", 3), std::string("module {")}) {
    const Json program = inspect(text);
    ASSERT_TRUE(program.contains("refused")) << program.dump(1);
    EXPECT_EQ(program["refused"]["malformed"], true);
    EXPECT_EQ(program["refused"]["location"].get<std::string>().rfind("p.mlir:", 0), 0u) << program.dump(1);
  }
  const Json deep = inspect(std::string(100000, '('));
  EXPECT_EQ(deep["refused"]["malformed"], true);
  const Json ill_typed =
      inspect("func.func @f(%a: tensor<5xf32>) -> tensor<6xf32> {\n  return %a : tensor<5xf32>\n}\n");
  EXPECT_EQ(ill_typed["refused"]["malformed"], true);
  // A matmul of f16 into bf16 implies an addition of different types, which does not verify.
  const Json sum = inspect(
      "func.func @f(%a: tensor<4x4xf16>, %c: tensor<4x4xbf16>) -> tensor<4x4xbf16> {\n"
      "  %d = linalg.matmul ins(%a, %a : tensor<4x4xf16>, tensor<4x4xf16>)\n"
      "      outs(%c : tensor<4x4xbf16>) -> tensor<4x4xbf16>\n  return %d : tensor<4x4xbf16>\n}\n");
  EXPECT_EQ(sum["refused"]["malformed"], true);
  EXPECT_EQ(sum["refused"]["location"], "p.mlir:2:8") << sum.dump(1);
}

}  // namespace
}  // namespace lathe::testing
