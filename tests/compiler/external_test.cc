// Outlining of products that external libraries compute. Covers modules that Lathe's own payloads never contain:
// several products, several libraries, and modules that must be refused.
#include "compiler/external.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/dialect.h"
#include "compiler/mlir.h"

namespace lathe {
namespace {

using namespace mlir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Text that computes %NAME = 2 * (%LHS * %RHS), with the product assigned to a library.
std::string product(const std::string& name, const std::string& lhs, const std::string& rhs,
                    const std::string& library, const std::string& routine) {
  const std::string type = "tensor<4x4xf32>", made = "%" + name + "_";
  return made + "e = tensor.empty() : " + type + "\n" + made + "z = arith.constant 0.0 : f32\n" + made +
         "i = linalg.fill ins(" + made + "z : f32) outs(" + made + "e : " + type + ") -> " + type + "\n" +
         made + "p = linalg.matmul {lathe.external = #lathe.external<library = \"" + library +
         "\", routine = \"" + routine + "\">} ins(" + lhs + ", " + rhs + " : " + type + ", " + type +
         ") outs(" + made + "i : " + type + ") -> " + type + "\n%" + name +
         " = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], "
         "iterator_types = [\"parallel\", \"parallel\"]} ins(" +
         made + "p : " + type + ") outs(" + made + "e : " + type +
         ") {\n^bb0(%in: f32, %out: f32):\n%sum = arith.addf %in, %in : f32\nlinalg.yield %sum : f32\n} -> " +
         type + "\n";
}
std::string function(const std::string& name, const std::string& body, const std::string& result) {
  return "func.func @" + name +
         "(%a: tensor<4x4xf32> {lathe.operand = \"a\"}, %b: tensor<4x4xf32> {lathe.operand = \"b\"}) -> "
         "tensor<4x4xf32> {\n" +
         body + "return %" + result + " : tensor<4x4xf32>\n}\n";
}

class External : public testing::Test {
 protected:
  External() {
    DialectRegistry registry;
    registry.insert<ir::LatheDialect, affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                    linalg::LinalgDialect, tensor::TensorDialect>();
    context_.appendDialectRegistry(registry);
    context_.loadAllAvailableDialects();
  }

  ModuleOp parse(const std::string& text) {
    module_ = parseSourceString<ModuleOp>(text, ParserConfig(&context_));
    EXPECT_TRUE(module_) << text;
    return *module_;
  }
  // Runs a pass. Returns its error, or an empty string if it succeeds.
  std::string run(std::unique_ptr<Pass> pass) {
    std::string complaint;
    ScopedDiagnosticHandler handler(&context_, [&](Diagnostic& d) {
      complaint += d.str();
      return success();
    });
    PassManager passes(&context_);
    passes.addPass(std::move(pass));
    const bool ok = succeeded(passes.run(*module_));
    EXPECT_EQ(ok, complaint.empty()) << complaint;
    return complaint;
  }
  absl::StatusOr<Recipe> recipe(const Target& target = {}) { return external_recipe(*module_, {}, target); }

  // The outlined functions, each as "symbol library".
  std::vector<std::string> outlined() {
    std::vector<std::string> all;
    for (auto f : module_->getOps<func::FuncOp>())
      if (auto by = f->getAttrOfType<ir::ExternalAttr>(ir::kCompilerAttr))
        all.push_back(f.getName().str() + " " + by.getLibrary().str());
    return all;
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
};

// One function has two products by two libraries, where the second reads the result of the first. Another
// function has a third product.
TEST_F(External, OutlinesAllProductsOfAModule) {
  parse(function("f",
                 product("x", "%a", "%b", "openblas", "cblas_sgemm") +
                     product("y", "%x", "%b", "onednn", "dnnl_sgemm"),
                 "y") +
        function("g", product("x", "%b", "%a", "openblas", "cblas_sgemm"), "x"));
  ASSERT_EQ(run(make_outline_external_pass()), "");
  EXPECT_THAT(outlined(), ElementsAre("f_call openblas", "f_call_0 onednn", "g_call openblas"));
  for (auto f : module_->getOps<func::FuncOp>()) {
    int products = 0, marks = 0, calls = 0;
    f.walk([&](Operation* op) {
      products += isa<linalg::MatmulOp>(op);
      marks += op->hasAttr(ir::kExternalAttr);
      calls += isa<func::CallOp>(op);
    });
    const bool is_outlined = f->hasAttr(ir::kCompilerAttr);
    EXPECT_EQ(products, is_outlined ? 1 : 0) << f.getName().str();
    EXPECT_EQ(marks, 0);
    EXPECT_EQ(calls, is_outlined ? 0 : f.getName() == "f" ? 2 : 1);
    EXPECT_EQ(f.isPrivate(), is_outlined);
  }
  // A parameter keeps its field of the argument block, even if its position changes.
  auto first = module_->lookupSymbol<func::FuncOp>("f_call");
  EXPECT_EQ(first.getArgAttrOfType<StringAttr>(0, ir::kOperandAttr), "a");
  EXPECT_EQ(first.getArgAttrOfType<StringAttr>(1, ir::kOperandAttr), "b");
  auto swapped = module_->lookupSymbol<func::FuncOp>("g_call");
  EXPECT_EQ(swapped.getArgAttrOfType<StringAttr>(0, ir::kOperandAttr), "b");

  ASSERT_EQ(run(make_declare_external_pass()), "");
  for (auto f : module_->getOps<func::FuncOp>()) {
    EXPECT_EQ(f.isExternal(), f->hasAttr(ir::kCompilerAttr)) << f.getName().str();
    EXPECT_EQ(f->hasAttr(ir::kExternAttr), f->hasAttr(ir::kCompilerAttr));
  }
  const absl::StatusOr<Recipe> made = recipe();
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::string> steps;
  for (const Step& s : made->steps) {
    EXPECT_EQ(s.kind, StepKind::kHostExtern);
    steps.push_back(s.symbol + " " + s.external.provider + " " + s.external.routine);
  }
  EXPECT_THAT(steps, ElementsAre("f_call openblas cblas_sgemm", "f_call_0 onednn dnnl_sgemm",
                                 "g_call openblas cblas_sgemm"));
}

TEST_F(External, ChoosesAnUnusedSymbol) {
  parse("func.func private @f_call()\n" +
        function("f", product("x", "%a", "%b", "openblas", "cblas_sgemm"), "x"));
  ASSERT_EQ(run(make_outline_external_pass()), "");
  EXPECT_THAT(outlined(), ElementsAre("f_call_0 openblas"));
}

TEST_F(External, RefusesAProductWithoutAnEpilogue) {
  parse(
      "func.func @f(%a: tensor<4x4xf32>, %c: tensor<4x4xf32>) -> tensor<4x4xf32> {\n"
      "%p = linalg.matmul {lathe.external = #lathe.external<library = \"openblas\", routine = \"r\">} "
      "ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%c : tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "return %p : tensor<4x4xf32>\n}");
  EXPECT_THAT(run(make_outline_external_pass()), HasSubstr("expected one linalg.generic epilogue"));
}

// Nothing could run ops other than the calls.
TEST_F(External, RefusesARecipeOfAnythingButCalls) {
  parse(function("f", product("x", "%a", "%b", "openblas", "cblas_sgemm"), "x"));
  EXPECT_THAT(recipe().status().message(), HasSubstr("remains beside an external call"));
  parse(function("f", "%x = call @g(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>\n", "x") +
        "func.func private @g(tensor<4x4xf32>) -> tensor<4x4xf32> attributes {lathe.extern}");
  EXPECT_THAT(recipe().status().message(), HasSubstr("'g' is called but is not an extern function"));
  parse(function("f", "", "a"));
  EXPECT_THAT(recipe().status().message(), HasSubstr("leaves no external call"));
  parse("module @inner {}");
  EXPECT_EQ(recipe().status().code(), absl::StatusCode::kAborted);
}

TEST_F(External, GivesAGpuLibraryAWorkspace) {
  parse(function("f", product("x", "%a", "%b", "cublaslt", "cublasLtMatmul"), "x"));
  ASSERT_EQ(run(make_outline_external_pass()), "");
  ASSERT_EQ(run(make_declare_external_pass()), "");
  Target target;
  target.backend = Backend::kCuda;
  const absl::StatusOr<Recipe> made = recipe(target);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(evaluate(made->workspace_bytes, VarValues()), int64_t{32} << 20);
  EXPECT_EQ(evaluate(recipe()->workspace_bytes, VarValues()), 0);
}

}  // namespace
}  // namespace lathe
