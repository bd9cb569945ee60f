// One matrix times a batch of weights.
func.func @shared_input(%a: tensor<64x512xf32>, %b: tensor<12x512x128xf32>) -> (tensor<12x64x128xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<12x64x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<12x64x128xf32>) -> tensor<12x64x128xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<64x512xf32>, tensor<12x512x128xf32>) outs(%init : tensor<12x64x128xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<12x64x128xf32>
  return %d : tensor<12x64x128xf32>
}
