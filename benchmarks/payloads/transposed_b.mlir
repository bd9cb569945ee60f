// B is stored as [N, K], like the weight of a Linear.
func.func @transposed_b(%a: tensor<512x1024xf32>, %b: tensor<768x1024xf32>) -> (tensor<512x768xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<512x768xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x768xf32>) -> tensor<512x768xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<512x1024xf32>, tensor<768x1024xf32>) outs(%init : tensor<512x768xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<512x768xf32>
  return %d : tensor<512x768xf32>
}
