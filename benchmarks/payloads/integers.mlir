// Integers above 2^53, which a double cannot represent: a product that wraps around, a clamp and a conversion.
func.func @integers(%x: tensor<64x100xi64>, %y: tensor<64x100xi64>, %z: tensor<64x100xi32>)
    -> (tensor<64x100xi64>, tensor<64x100xf32>, tensor<64x100xi64>) {
  %odd = arith.constant 9007199254740993 : i64
  %low = arith.constant -4611686018427387905 : i64
  %high = arith.constant 4611686018427387905 : i64
  %e = tensor.empty() : tensor<64x100xi64>
  %f = tensor.empty() : tensor<64x100xf32>
  %hash = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                          iterator_types = ["parallel", "parallel"]}
       ins(%x, %y, %z : tensor<64x100xi64>, tensor<64x100xi64>, tensor<64x100xi32>) outs(%e : tensor<64x100xi64>) {
  ^bb0(%a: i64, %b: i64, %c: i32, %o: i64):
    %p = arith.muli %a, %odd : i64
    %s = arith.addi %p, %b : i64
    %w = arith.extui %c : i32 to i64
    %h = arith.subi %s, %w : i64
    linalg.yield %h : i64
  } -> tensor<64x100xi64>
  %float = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
       ins(%hash : tensor<64x100xi64>) outs(%f : tensor<64x100xf32>) {
  ^bb0(%a: i64, %o: f32):
    %c = arith.maxsi %a, %low : i64
    %d = arith.minsi %c, %high : i64
    %v = arith.sitofp %d : i64 to f32
    linalg.yield %v : f32
  } -> tensor<64x100xf32>
  // Reads the rows in reverse order. No kernel does this, so the host does.
  %last = linalg.generic {indexing_maps = [affine_map<(i, j) -> (63 - i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                          iterator_types = ["parallel", "parallel"]}
       ins(%hash, %y : tensor<64x100xi64>, tensor<64x100xi64>) outs(%e : tensor<64x100xi64>) {
  ^bb0(%a: i64, %b: i64, %o: i64):
    %less = arith.cmpi ult, %a, %b : i64
    %odder = arith.addi %a, %odd : i64
    %v = arith.select %less, %odder, %b : i64
    linalg.yield %v : i64
  } -> tensor<64x100xi64>
  return %hash, %float, %last : tensor<64x100xi64>, tensor<64x100xf32>, tensor<64x100xi64>
}
