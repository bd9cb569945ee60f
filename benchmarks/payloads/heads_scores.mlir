// Attention scores q k^T of heads that are stored side by side.
func.func @heads_scores(%a: tensor<128x8x64xf16>, %b: tensor<128x8x64xf16>) -> (tensor<8x128x128xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x128x128xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x128x128xf32>) -> tensor<8x128x128xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(h, m, n, k) -> (m, h, k)>, affine_map<(h, m, n, k) -> (n, h, k)>, affine_map<(h, m, n, k) -> (h, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<128x8x64xf16>, tensor<128x8x64xf16>) outs(%init : tensor<8x128x128xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %0 = arith.extf %x : f16 to f32
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x128x128xf32>
  return %d : tensor<8x128x128xf32>
}
