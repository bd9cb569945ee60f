// Sizes that are not multiples of any tile.
func.func @irregular(%a: tensor<821x294xf32>, %b: tensor<294x592xf32>) -> tensor<821x592xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<821x592xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<821x592xf32>) -> tensor<821x592xf32>
  %d = linalg.matmul ins(%a, %b : tensor<821x294xf32>, tensor<294x592xf32>) outs(%init : tensor<821x592xf32>) -> tensor<821x592xf32>
  return %d : tensor<821x592xf32>
}
