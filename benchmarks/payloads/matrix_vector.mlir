// A matrix times a vector.
func.func @matrix_vector(%a: tensor<4096x4096xf32>, %b: tensor<4096xf32>) -> (tensor<4096xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4096xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4096xf32>) -> tensor<4096xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>],
                       iterator_types = ["parallel", "reduction"]}
       ins(%a, %b : tensor<4096x4096xf32>, tensor<4096xf32>) outs(%init : tensor<4096xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4096xf32>
  return %d : tensor<4096xf32>
}
