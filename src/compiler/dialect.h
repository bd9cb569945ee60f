// The lathe dialect (lathe.td) and the names of the attributes of payloads.
#pragma once

#include "core/plan.h"
#include "lathe_dialect.h.inc"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"

namespace lathe {
llvm::hash_code hash_value(const KernelConfig& c);
}

#define GET_ATTRDEF_CLASSES
#include "lathe_attributes.h.inc"

namespace lathe::ir {

// On the payload op: the plan's config and, if one was chosen, its ukernel. The ukernel attribute is also on
// the declaration of its function.
inline constexpr char kConfigAttr[] = "lathe.config", kUkernelAttr[] = "lathe.ukernel";
// On an op that an external library computes; on the function outlined from it; on that function's
// declaration.
inline constexpr char kExternalAttr[] = "lathe.external", kCompilerAttr[] = "lathe.compiler",
                      kExternAttr[] = "lathe.extern";
// On an argument of a payload function: its field of the argument block ("a", "k_chunk", ...).
inline constexpr char kOperandAttr[] = "lathe.operand";
// The block format of an operand, by name: "q4_0". Its tensor has the element type i4, whatever the format.
inline constexpr char kBlocksAttr[] = "lathe.blocks";
// On the module: the target's backend ("cuda"), architecture ("sm_90a") and features.
inline constexpr char kBackendAttr[] = "lathe.backend", kArchAttr[] = "lathe.arch",
                      kFeaturesAttr[] = "lathe.features";
// On the module: the class's Alignment and DependentLaunch (core/problem.h), as integers.
inline constexpr char kAlignmentAttr[] = "lathe.alignment", kDependentLaunchAttr[] = "lathe.dependent_launch";
// On the module of a generic kernel, whose launches pass `form` (core/generic.h).
inline constexpr char kGenericAttr[] = "lathe.generic";
// On the module of a class whose rows are not plain: its Rows (core/problem.h), as an integer. On a grouped module
// whose groups have one row in the mean: a unit attribute.
inline constexpr char kRowsAttr[] = "lathe.rows", kTilePerSlotAttr[] = "lathe.tile_per_slot";
// On an scf.forall: the symbol of its step in the launch recipe.
inline constexpr char kStepAttr[] = "lathe.step";

}  // namespace lathe::ir
