// Scores of 8 heads that lie side by side: q k^T / sqrt(64), in f16, 128 tokens.
func.func @scores(%q: tensor<128x8x64xf16>, %k: tensor<128x8x64xf16>) -> tensor<8x128x128xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<8x128x128xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<8x128x128xf32>) -> tensor<8x128x128xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(h, m, n, k) -> (m, h, k)>, affine_map<(h, m, n, k) -> (n, h, k)>,
                                        affine_map<(h, m, n, k) -> (h, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
       ins(%q, %k : tensor<128x8x64xf16>, tensor<128x8x64xf16>) outs(%i : tensor<8x128x128xf32>) {
  ^bb0(%x: f16, %y: f16, %s: f32):
    %0 = arith.extf %x : f16 to f32
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x128x128xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(h, m, n) -> (h, m, n)>, affine_map<(h, m, n) -> (h, m, n)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
       ins(%p : tensor<8x128x128xf32>) outs(%e : tensor<8x128x128xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.mulf %x, %scale : f32
    linalg.yield %0 : f32
  } -> tensor<8x128x128xf32>
  return %r : tensor<8x128x128xf32>
}
