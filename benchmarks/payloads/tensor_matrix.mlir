// A four-dimensional tensor times a matrix. The three outer dimensions become the rows.
func.func @tensor_matrix(%a: tensor<4x16x32x64xf32>, %b: tensor<64x96xf32>) -> tensor<4x16x32x96xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x16x32x96xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x16x32x96xf32>) -> tensor<4x16x32x96xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(b, i, j, n, k) -> (b, i, j, k)>, affine_map<(b, i, j, n, k) -> (k, n)>, affine_map<(b, i, j, n, k) -> (b, i, j, n)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
       ins(%a, %b : tensor<4x16x32x64xf32>, tensor<64x96xf32>) outs(%init : tensor<4x16x32x96xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %1 = arith.mulf %x, %y : f32
    %2 = arith.addf %s, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<4x16x32x96xf32>
  return %d : tensor<4x16x32x96xf32>
}
