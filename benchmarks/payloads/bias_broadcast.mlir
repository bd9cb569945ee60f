// A layer with bias as graph compilers write it with named ops: the bias row is broadcast, then added.
func.func @bias_broadcast(%a: tensor<128x256xf32>, %b: tensor<256x192xf32>, %o: tensor<192xf32>) -> tensor<128x192xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<128x192xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x192xf32>) -> tensor<128x192xf32>
  %d = linalg.matmul ins(%a, %b : tensor<128x256xf32>, tensor<256x192xf32>) outs(%init : tensor<128x192xf32>) -> tensor<128x192xf32>
  %row = linalg.broadcast ins(%o : tensor<192xf32>) outs(%empty : tensor<128x192xf32>) dimensions = [0]
  %e = linalg.add ins(%d, %row : tensor<128x192xf32>, tensor<128x192xf32>) outs(%empty : tensor<128x192xf32>) -> tensor<128x192xf32>
  return %e : tensor<128x192xf32>
}
