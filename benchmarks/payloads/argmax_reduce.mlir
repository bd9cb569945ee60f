// Argmax of each row as a reduction over values and column numbers, as StableHLO lowers JAX's argmax.
func.func @argmax_reduce(%x: tensor<96x5000xf32>) -> (tensor<96xf32>, tensor<96xi32>) {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %ec = tensor.empty() : tensor<96x5000xi32>
  %columns = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
             outs(%ec : tensor<96x5000xi32>) {
  ^bb0(%unused: i32):
    %j = linalg.index 1 : index
    %c = arith.index_cast %j : index to i32
    linalg.yield %c : i32
  } -> tensor<96x5000xi32>
  %ev = tensor.empty() : tensor<96xf32>
  %ei = tensor.empty() : tensor<96xi32>
  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<96xf32>) -> tensor<96xf32>
  %ii = linalg.fill ins(%none : i32) outs(%ei : tensor<96xi32>) -> tensor<96xi32>
  %r:2 = linalg.reduce ins(%x, %columns : tensor<96x5000xf32>, tensor<96x5000xi32>)
                       outs(%iv, %ii : tensor<96xf32>, tensor<96xi32>) dimensions = [1]
  (%in: f32, %column: i32, %best: f32, %at: i32) {
    %greater = arith.cmpf ogt, %best, %in : f32
    %nan = arith.cmpf une, %best, %best : f32
    %keep = arith.ori %greater, %nan : i1
    %equal = arith.cmpf oeq, %best, %in : f32
    %before = arith.cmpi slt, %at, %column : i32
    %tie = arith.andi %equal, %before : i1
    %stay = arith.ori %keep, %tie : i1
    %value = arith.select %keep, %best, %in : f32
    %index = arith.select %stay, %at, %column : i32
    linalg.yield %value, %index : f32, i32
  }
  return %r#0, %r#1 : tensor<96xf32>, tensor<96xi32>
}
