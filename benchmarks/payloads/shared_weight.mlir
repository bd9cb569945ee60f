// A three-dimensional tensor times one matrix.
func.func @shared_weight(%a: tensor<16x128x512xf32>, %b: tensor<512x192xf32>) -> (tensor<16x128x192xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x128x192xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x128x192xf32>) -> tensor<16x128x192xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<16x128x512xf32>, tensor<512x192xf32>) outs(%init : tensor<16x128x192xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<16x128x192xf32>
  return %d : tensor<16x128x192xf32>
}
