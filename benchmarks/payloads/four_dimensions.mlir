// Two batch dimensions, which become one.
func.func @four_dimensions(%a: tensor<2x6x48x64xf32>, %b: tensor<2x6x64x40xf32>) -> tensor<2x6x48x40xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x6x48x40xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x6x48x40xf32>) -> tensor<2x6x48x40xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(b, h, m, n, k) -> (b, h, m, k)>, affine_map<(b, h, m, n, k) -> (b, h, k, n)>, affine_map<(b, h, m, n, k) -> (b, h, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<2x6x48x64xf32>, tensor<2x6x64x40xf32>) outs(%init : tensor<2x6x48x40xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2x6x48x40xf32>
  return %d : tensor<2x6x48x40xf32>
}
