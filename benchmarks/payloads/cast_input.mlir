// f32 activations are rounded to f16, the dtype of the weights, before the product. M is dynamic.
func.func @cast_input(%x: tensor<?x96xf32>, %h0: tensor<?x96xf16>, %w: tensor<96x48xf16>, %d0: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %zero = arith.constant 0.0 : f32
  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%x : tensor<?x96xf32>) outs(%h0 : tensor<?x96xf16>) {
  ^bb0(%p: f32, %o: f16):
    %1 = arith.truncf %p : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<?x96xf16>
  %init = linalg.fill ins(%zero : f32) outs(%d0 : tensor<?x48xf32>) -> tensor<?x48xf32>
  %d = linalg.matmul ins(%h, %w : tensor<?x96xf16>, tensor<96x48xf16>) outs(%init : tensor<?x48xf32>) -> tensor<?x48xf32>
  return %d : tensor<?x48xf32>
}
