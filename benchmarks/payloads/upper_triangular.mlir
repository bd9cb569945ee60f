// The product of the upper triangles of two matrices.
func.func @upper_triangular(%a: tensor<160x160xf32>, %b: tensor<160x160xf32>) -> tensor<160x160xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<160x160xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<160x160xf32>) -> tensor<160x160xf32>
  %ua = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%a : tensor<160x160xf32>) outs(%empty : tensor<160x160xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %above = arith.cmpi sle, %i, %j : index
    %1 = arith.select %above, %x, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<160x160xf32>
  %ub = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%b : tensor<160x160xf32>) outs(%empty : tensor<160x160xf32>) {
  ^bb0(%x: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %above = arith.cmpi sle, %i, %j : index
    %1 = arith.select %above, %x, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<160x160xf32>
  %d = linalg.matmul ins(%ua, %ub : tensor<160x160xf32>, tensor<160x160xf32>) outs(%init : tensor<160x160xf32>) -> tensor<160x160xf32>
  return %d : tensor<160x160xf32>
}
