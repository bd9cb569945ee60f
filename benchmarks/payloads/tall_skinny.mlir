// A tall matrix times a narrow one.
func.func @tall_skinny(%a: tensor<8192x32xf32>, %b: tensor<32x32xf32>) -> tensor<8192x32xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8192x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  %d = linalg.matmul ins(%a, %b : tensor<8192x32xf32>, tensor<32x32xf32>) outs(%init : tensor<8192x32xf32>) -> tensor<8192x32xf32>
  return %d : tensor<8192x32xf32>
}
