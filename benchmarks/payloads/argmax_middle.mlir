// Argmax along a dimension in the middle.
func.func @argmax_middle(%x: tensor<12x500x33xf32>) -> (tensor<12x33xf32>, tensor<12x33xi32>) {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %ev = tensor.empty() : tensor<12x33xf32>
  %ei = tensor.empty() : tensor<12x33xi32>
  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<12x33xf32>) -> tensor<12x33xf32>
  %ii = linalg.fill ins(%none : i32) outs(%ei : tensor<12x33xi32>) -> tensor<12x33xi32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, n, j) -> (i, n, j)>, affine_map<(i, n, j) -> (i, j)>, affine_map<(i, n, j) -> (i, j)>],
                         iterator_types = ["parallel", "reduction", "parallel"]}
       ins(%x : tensor<12x500x33xf32>) outs(%iv, %ii : tensor<12x33xf32>, tensor<12x33xi32>) {
  ^bb0(%in: f32, %best: f32, %at: i32):
    %c = linalg.index 1 : index
    %column = arith.index_cast %c : index to i32
    %greater = arith.cmpf ugt, %in, %best : f32
    %open = arith.cmpf ord, %best, %best : f32
    %take = arith.andi %greater, %open : i1
    %value = arith.select %take, %in, %best : f32
    %index = arith.select %take, %column, %at : i32
    linalg.yield %value, %index : f32, i32
  } -> (tensor<12x33xf32>, tensor<12x33xi32>)
  return %r#0, %r#1 : tensor<12x33xf32>, tensor<12x33xi32>
}
