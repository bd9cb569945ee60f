// The heads are combined: two dimensions, adjacent in both operands, are reduced.
func.func @two_reduced(%a: tensor<200x8x32xf32>, %b: tensor<8x32x256xf32>) -> tensor<200x256xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<200x256xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<200x256xf32>) -> tensor<200x256xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(m, n, h, k) -> (m, h, k)>, affine_map<(m, n, h, k) -> (h, k, n)>, affine_map<(m, n, h, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
       ins(%a, %b : tensor<200x8x32xf32>, tensor<8x32x256xf32>) outs(%init : tensor<200x256xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<200x256xf32>
  return %d : tensor<200x256xf32>
}
