// Small K: writing the result dominates.
func.func @small_k(%a: tensor<2048x32xf32>, %b: tensor<32x2048xf32>) -> tensor<2048x2048xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2048x2048xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  %d = linalg.matmul ins(%a, %b : tensor<2048x32xf32>, tensor<32x2048xf32>) outs(%init : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %d : tensor<2048x2048xf32>
}
