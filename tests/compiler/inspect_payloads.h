// Helpers for the tests that read payloads: the program of a text, its steps, or the reason for its refusal.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compiler_process.h"
#include "core/json.h"

namespace lathe::testing {

inline Json inspect(const std::string& text) {
  const CompilerAnswer answer =
      compile_bytes(canonical_text({{"inspect", {{"name", "p.mlir"}, {"text", text}}}}));
  EXPECT_EQ(answer.code, 0) << answer.error;
  EXPECT_EQ(answer.programs, 1);
  auto program = parse_json(answer.program, "program");
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : Json::object();
}

// The steps of the only function. A refusal fails the test.
inline Json steps_of(const std::string& text) {
  const Json program = inspect(text);
  if (program.contains("refused")) {
    ADD_FAILURE() << program.dump(1);
    return Json::array();
  }
  return program["functions"][0]["steps"];
}

// The refusal, in the form "p.mlir:3:8: linalg.matmul: reason".
inline std::string refusal_of(const std::string& text) {
  const Json program = inspect(text);
  if (!program.contains("refused")) {
    ADD_FAILURE() << program.dump(1);
    return "";
  }
  return program["refused"]["location"].get<std::string>() + ": " +
         program["refused"]["reason"].get<std::string>();
}

// A function over f32 tensors. %init holds zeros of `type`, the initial value of a product.
inline std::string function(const std::string& arguments, const std::string& type, const std::string& result,
                            const std::string& body) {
  return "func.func @f(" + arguments + ") -> " + result +
         " {\n  %zero = arith.constant 0.0 : f32\n  %empty = tensor.empty() : " + type +
         "\n  %init = linalg.fill ins(%zero : f32) outs(%empty : " + type + ") -> " + type + "\n" + body +
         "}\n";
}

inline constexpr char kMatmul[] =
    "  %d = linalg.matmul ins(%a, %b : tensor<5x9xf32>, tensor<9x7xf32>) outs(%init : tensor<5x7xf32>) -> "
    "tensor<5x7xf32>\n";
}  // namespace lathe::testing
