// int8 matmul with exact 32-bit sums.
func.func @bytes(%a: tensor<512x1024xi8>, %b: tensor<1024x512xi8>) -> tensor<512x512xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<512x512xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<512x512xi32>) -> tensor<512x512xi32>
  %d = linalg.matmul ins(%a, %b : tensor<512x1024xi8>, tensor<1024x512xi8>) outs(%init : tensor<512x512xi32>) -> tensor<512x512xi32>
  return %d : tensor<512x512xi32>
}
