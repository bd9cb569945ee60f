// A diagonal matrix times a matrix: each row is multiplied by its own factor.
func.func @diagonal(%a: tensor<512xf32>, %b: tensor<512x384xf32>) -> tensor<512x384xf32> {
  %empty = tensor.empty() : tensor<512x384xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
       ins(%a, %b : tensor<512xf32>, tensor<512x384xf32>) outs(%empty : tensor<512x384xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %1 = arith.mulf %x, %y : f32
    linalg.yield %1 : f32
  } -> tensor<512x384xf32>
  return %d : tensor<512x384xf32>
}
