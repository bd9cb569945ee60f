// A matmul with three different sizes.
func.func @standard(%a: tensor<512x2048xf32>, %b: tensor<2048x1024xf32>) -> tensor<512x1024xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x1024xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %d = linalg.matmul ins(%a, %b : tensor<512x2048xf32>, tensor<2048x1024xf32>) outs(%init : tensor<512x1024xf32>) -> tensor<512x1024xf32>
  return %d : tensor<512x1024xf32>
}
