// A layer of an MLP: x W1^T + b1, gelu, then times W2^T plus the residual. M is dynamic.
func.func @mlp(%x: tensor<?x64xf32>, %w1: tensor<256x64xf32>, %b1: tensor<256xf32>, %w2: tensor<64x256xf32>,
               %h0: tensor<?x256xf32>, %y0: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.70710678 : f32
  %hi = linalg.fill ins(%zero : f32) outs(%h0 : tensor<?x256xf32>) -> tensor<?x256xf32>
  %h = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
       ins(%x, %w1 : tensor<?x64xf32>, tensor<256x64xf32>) outs(%hi : tensor<?x256xf32>) -> tensor<?x256xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%h, %b1 : tensor<?x256xf32>, tensor<256xf32>) outs(%h0 : tensor<?x256xf32>) {
  ^bb0(%p: f32, %b: f32, %o: f32):
    %1 = arith.addf %p, %b : f32
    %2 = arith.mulf %1, %root : f32
    %3 = math.erf %2 : f32
    %4 = arith.addf %3, %one : f32
    %5 = arith.mulf %1, %half : f32
    %6 = arith.mulf %5, %4 : f32
    linalg.yield %6 : f32
  } -> tensor<?x256xf32>
  %yi = linalg.fill ins(%zero : f32) outs(%y0 : tensor<?x64xf32>) -> tensor<?x64xf32>
  %y = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
       ins(%g, %w2 : tensor<?x256xf32>, tensor<64x256xf32>) outs(%yi : tensor<?x64xf32>) -> tensor<?x64xf32>
  %r = linalg.add ins(%y, %x : tensor<?x64xf32>, tensor<?x64xf32>) outs(%y0 : tensor<?x64xf32>) -> tensor<?x64xf32>
  return %r : tensor<?x64xf32>
}
