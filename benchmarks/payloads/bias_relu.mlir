// A layer with bias and relu.
func.func @bias_relu(%a: tensor<256x512xf32>, %b: tensor<1024x512xf32>, %o: tensor<1024xf32>) -> (tensor<256x1024xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<256x1024xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<256x1024xf32>) -> tensor<256x1024xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<256x512xf32>, tensor<1024x512xf32>) outs(%init : tensor<256x1024xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %2 = arith.mulf %x, %y : f32
    %3 = arith.addf %s, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<256x1024xf32>
  %e = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
       ins(%d, %o : tensor<256x1024xf32>, tensor<1024xf32>) outs(%empty : tensor<256x1024xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32):
    %4 = arith.addf %p, %q : f32
    %v = arith.maximumf %4, %zero : f32
    linalg.yield %v : f32
  } -> tensor<256x1024xf32>
  return %e : tensor<256x1024xf32>
}
