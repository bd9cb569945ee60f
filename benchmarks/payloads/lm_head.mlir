// The output layer of greedy decoding: argmax of x W^T without storing the logits. M is dynamic.
func.func @lm_head(%x: tensor<?x96xbf16>, %w: tensor<1000x96xbf16>, %l0: tensor<?x1000xf32>, %v0: tensor<?xf32>,
                   %i0: tensor<?xi64>) -> tensor<?xi64> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %first = arith.constant 0 : i64
  %li = linalg.fill ins(%zero : f32) outs(%l0 : tensor<?x1000xf32>) -> tensor<?x1000xf32>
  %l = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
       ins(%x, %w : tensor<?x96xbf16>, tensor<1000x96xbf16>) outs(%li : tensor<?x1000xf32>) -> tensor<?x1000xf32>
  %vi = linalg.fill ins(%low : f32) outs(%v0 : tensor<?xf32>) -> tensor<?xf32>
  %ii = linalg.fill ins(%first : i64) outs(%i0 : tensor<?xi64>) -> tensor<?xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
       ins(%l : tensor<?x1000xf32>) outs(%vi, %ii : tensor<?xf32>, tensor<?xi64>) {
  ^bb0(%in: f32, %best: f32, %at: i64):
    %j = linalg.index 1 : index
    %column = arith.index_cast %j : index to i64
    %take = arith.cmpf ogt, %in, %best fastmath<nnan> : f32
    %value = arith.maximumf %in, %best fastmath<nnan> : f32
    %index = arith.select %take, %column, %at : i64
    linalg.yield %value, %index : f32, i64
  } -> (tensor<?xf32>, tensor<?xi64>)
  return %r#1 : tensor<?xi64>
}
