// A is stored as [K, M].
func.func @transposed_a(%a: tensor<1024x512xf32>, %b: tensor<1024x768xf32>) -> (tensor<512x768xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x768xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x768xf32>) -> tensor<512x768xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<1024x512xf32>, tensor<1024x768xf32>) outs(%init : tensor<512x768xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<512x768xf32>
  return %d : tensor<512x768xf32>
}
