// The lower triangle of a product, with zeros above it.
func.func @lower_triangular(%a: tensor<192x192xf32>, %b: tensor<192x192xf32>) -> tensor<192x192xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<192x192xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<192x192xf32>) -> tensor<192x192xf32>
  %p = linalg.matmul ins(%a, %b : tensor<192x192xf32>, tensor<192x192xf32>) outs(%init : tensor<192x192xf32>) -> tensor<192x192xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%p : tensor<192x192xf32>) outs(%empty : tensor<192x192xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %below = arith.cmpi sge, %i, %j : index
    %1 = arith.select %below, %x, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<192x192xf32>
  return %d : tensor<192x192xf32>
}
