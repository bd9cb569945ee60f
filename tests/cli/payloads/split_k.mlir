// The shape that wants K split: 123x51234 by 51234x456.
func.func @split_k(%a: tensor<123x51234xf32>, %b: tensor<51234x456xf32>) -> tensor<123x456xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<123x456xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<123x456xf32>) -> tensor<123x456xf32>
  %d = linalg.matmul ins(%a, %b : tensor<123x51234xf32>, tensor<51234x456xf32>) outs(%i : tensor<123x456xf32>) -> tensor<123x456xf32>
  return %d : tensor<123x456xf32>
}
