// A product, relu, a factor for each column, then the lower triangle. The ops after the epilogue become
// separate kernels.
func.func @scaled_mask(%a: tensor<128x96xf16>, %b: tensor<96x160xf16>, %s: tensor<160xf32>) -> tensor<128x160xf16> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : f16
  %wide = tensor.empty() : tensor<128x160xf32>
  %narrow = tensor.empty() : tensor<128x160xf16>
  %init = linalg.fill ins(%zero : f32) outs(%wide : tensor<128x160xf32>) -> tensor<128x160xf32>
  %p = linalg.matmul ins(%a, %b : tensor<128x96xf16>, tensor<96x160xf16>) outs(%init : tensor<128x160xf32>) -> tensor<128x160xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%p : tensor<128x160xf32>) outs(%wide : tensor<128x160xf32>) {
  ^bb0(%x: f32, %o: f32):
    %1 = arith.maximumf %x, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<128x160xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%r, %s : tensor<128x160xf32>, tensor<160xf32>) outs(%narrow : tensor<128x160xf16>) {
  ^bb0(%x: f32, %y: f32, %o: f16):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<128x160xf16>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%c : tensor<128x160xf16>) outs(%narrow : tensor<128x160xf16>) {
  ^bb0(%x: f16, %o: f16):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %below = arith.cmpi sge, %i, %j : index
    %1 = arith.select %below, %x, %none : f16
    linalg.yield %1 : f16
  } -> tensor<128x160xf16>
  return %d : tensor<128x160xf16>
}
