// Argmax of logits in bf16.
func.func @argmax_bf16(%x: tensor<8x128256xbf16>) -> (tensor<8xf32>, tensor<8xi64>) {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %ev = tensor.empty() : tensor<8xf32>
  %ei = tensor.empty() : tensor<8xi64>
  %iv = linalg.fill ins(%low : f32) outs(%ev : tensor<8xf32>) -> tensor<8xf32>
  %ii = linalg.fill ins(%none : i64) outs(%ei : tensor<8xi64>) -> tensor<8xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, n) -> (i, n)>, affine_map<(i, n) -> (i)>, affine_map<(i, n) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
       ins(%x : tensor<8x128256xbf16>) outs(%iv, %ii : tensor<8xf32>, tensor<8xi64>) {
  ^bb0(%x0: bf16, %best: f32, %at: i64):
    %in = arith.extf %x0 : bf16 to f32
    %c = linalg.index 1 : index
    %column = arith.index_cast %c : index to i64
    %greater = arith.cmpf ugt, %in, %best : f32
    %open = arith.cmpf ord, %best, %best : f32
    %take = arith.andi %greater, %open : i1
    %value = arith.select %take, %in, %best : f32
    %index = arith.select %take, %column, %at : i64
    linalg.yield %value, %index : f32, i64
  } -> (tensor<8xf32>, tensor<8xi64>)
  return %r#0, %r#1 : tensor<8xf32>, tensor<8xi64>
}
