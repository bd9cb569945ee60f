// A product times a diagonal matrix: each column is multiplied by its own factor.
func.func @diagonal_right(%a: tensor<96x64xf32>, %b: tensor<64x80xf32>, %s: tensor<80xf32>) -> tensor<96x80xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<96x80xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<96x80xf32>) -> tensor<96x80xf32>
  %p = linalg.matmul ins(%a, %b : tensor<96x64xf32>, tensor<64x80xf32>) outs(%init : tensor<96x80xf32>) -> tensor<96x80xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
       ins(%p, %s : tensor<96x80xf32>, tensor<80xf32>) outs(%empty : tensor<96x80xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %1 = arith.mulf %x, %y : f32
    linalg.yield %1 : f32
  } -> tensor<96x80xf32>
  return %d : tensor<96x80xf32>
}
