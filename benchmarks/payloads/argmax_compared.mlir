// Argmax of each row, and whether it lies in the last 1000 columns.
func.func @argmax_compared(%x: tensor<64x5000xf32>) -> (tensor<64xf32>, tensor<64xi32>) {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %ev = tensor.empty() : tensor<64xf32>
  %ei = tensor.empty() : tensor<64xi64>
  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<64xf32>) -> tensor<64xf32>
  %ii = linalg.fill ins(%none : i64) outs(%ei : tensor<64xi64>) -> tensor<64xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, n) -> (i, n)>, affine_map<(i, n) -> (i)>, affine_map<(i, n) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
       ins(%x : tensor<64x5000xf32>) outs(%iv, %ii : tensor<64xf32>, tensor<64xi64>) {
  ^bb0(%in: f32, %best: f32, %at: i64):
    %c = linalg.index 1 : index
    %column = arith.index_cast %c : index to i64
    %greater = arith.cmpf ugt, %in, %best : f32
    %open = arith.cmpf ord, %best, %best : f32
    %take = arith.andi %greater, %open : i1
    %value = arith.select %take, %in, %best : f32
    %index = arith.select %take, %column, %at : i64
    linalg.yield %value, %index : f32, i64
  } -> (tensor<64xf32>, tensor<64xi64>)
  %limit = arith.constant 4000 : i64
  %flags = tensor.empty() : tensor<64xi32>
  %late = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
       ins(%r#1 : tensor<64xi64>) outs(%flags : tensor<64xi32>) {
  ^bb0(%at: i64, %o: i32):
    %is = arith.cmpi sge, %at, %limit : i64
    %flag = arith.extui %is : i1 to i32
    linalg.yield %flag : i32
  } -> tensor<64xi32>
  return %r#0, %late : tensor<64xf32>, tensor<64xi32>
}
