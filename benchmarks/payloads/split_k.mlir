// The odd split-K shape 123 x 456 x 51234.
func.func @split_k(%a: tensor<123x51234xf32>, %b: tensor<51234x456xf32>) -> tensor<123x456xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<123x456xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<123x456xf32>) -> tensor<123x456xf32>
  %d = linalg.matmul ins(%a, %b : tensor<123x51234xf32>, tensor<51234x456xf32>) outs(%init : tensor<123x456xf32>) -> tensor<123x456xf32>
  return %d : tensor<123x456xf32>
}
