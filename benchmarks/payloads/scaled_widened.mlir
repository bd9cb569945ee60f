// Both operands are converted to f32 and the queries are scaled. The f16 product includes both.
func.func @scaled_widened(%q: tensor<64x96xf16>, %k: tensor<96x48xf16>) -> tensor<64x48xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %eq = tensor.empty() : tensor<64x96xf32>
  %ek = tensor.empty() : tensor<96x48xf32>
  %wq = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%q : tensor<64x96xf16>) outs(%eq : tensor<64x96xf32>) {
  ^bb0(%p: f16, %o: f32):
    %1 = arith.extf %p : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<64x96xf32>
  %wk = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%k : tensor<96x48xf16>) outs(%ek : tensor<96x48xf32>) {
  ^bb0(%p: f16, %o: f32):
    %1 = arith.extf %p : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<96x48xf32>
  %sq = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%wq : tensor<64x96xf32>) outs(%eq : tensor<64x96xf32>) {
  ^bb0(%p: f32, %o: f32):
    %1 = arith.mulf %p, %scale : f32
    linalg.yield %1 : f32
  } -> tensor<64x96xf32>
  %empty = tensor.empty() : tensor<64x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x48xf32>) -> tensor<64x48xf32>
  %d = linalg.matmul ins(%sq, %wk : tensor<64x96xf32>, tensor<96x48xf32>) outs(%init : tensor<64x48xf32>) -> tensor<64x48xf32>
  return %d : tensor<64x48xf32>
}
