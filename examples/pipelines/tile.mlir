// Makes one tile per workgroup: tiles the epilogue, then fuses the product, and the fill with zeros that initialises the
// product, into the loop.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(
      %payload: !transform.any_op {transform.readonly},
      %tile_m: !transform.param<i64> {lathe.parameter = "tile_m", transform.readonly},
      %tile_n: !transform.param<i64> {lathe.parameter = "tile_n", transform.readonly},
      %symbol: !transform.any_param {lathe.parameter = "symbol", transform.readonly}) {
    %product = transform.structured.match ops{["linalg.batch_matmul"]} in %payload : (!transform.any_op) -> !transform.any_op
    %epilogue = transform.get_consumers_of_result %product[0] : (!transform.any_op) -> !transform.any_op
    %tile, %loop = transform.structured.tile_using_forall %epilogue tile_sizes [1, %tile_m, %tile_n]
        (mapping = [#gpu.block<z>, #gpu.block<y>, #gpu.block<x>])
        : (!transform.any_op, !transform.param<i64>, !transform.param<i64>) -> (!transform.any_op, !transform.any_op)
    %fused, %with_product = transform.structured.fuse_into_containing_op %product into %loop
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    %zeros = transform.structured.match ops{["linalg.fill"]} in %payload : (!transform.any_op) -> !transform.any_op
    %fused_zeros, %whole = transform.structured.fuse_into_containing_op %zeros into %with_product
        : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    // Names the step of the launch recipe that runs this loop.
    transform.annotate %whole "lathe.step" = %symbol : !transform.any_op, !transform.any_param
    %function = transform.structured.match ops{["func.func"]} in %payload : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %function {
      transform.apply_patterns.tensor.fold_tensor_empty
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.yield
  }
}
