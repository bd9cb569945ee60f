// A producer before the product: half of the positive part of an argument.
func.func @relu_input(%x: tensor<64x96xf32>, %w: tensor<96x48xf32>) -> tensor<64x48xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %ex = tensor.empty() : tensor<64x96xf32>
  %h = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%x : tensor<64x96xf32>) outs(%ex : tensor<64x96xf32>) {
  ^bb0(%p: f32, %o: f32):
    %1 = arith.maximumf %p, %zero : f32
    %2 = arith.mulf %1, %half : f32
    linalg.yield %2 : f32
  } -> tensor<64x96xf32>
  %empty = tensor.empty() : tensor<64x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x48xf32>) -> tensor<64x48xf32>
  %d = linalg.matmul ins(%h, %w : tensor<64x96xf32>, tensor<96x48xf32>) outs(%init : tensor<64x48xf32>) -> tensor<64x48xf32>
  return %d : tensor<64x48xf32>
}
