// The lathe dialect (lathe.td) and the names of the attributes that payloads carry.
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

// On the op that the plan is about; the ukernel where one was chosen, and on the declaration of its function.
inline constexpr char kConfigAttr[] = "lathe.config", kUkernelAttr[] = "lathe.ukernel";
// On the op that an external library does; on the function that is made of it, and on its declaration.
inline constexpr char kExternalAttr[] = "lathe.external", kCompilerAttr[] = "lathe.compiler",
                      kExternAttr[] = "lathe.extern";
// On a payload function's argument: the argument-block field it stands for ("a", "k_chunk", ...).
inline constexpr char kOperandAttr[] = "lathe.operand";
// On the module: the target's backend ("cuda") and architecture ("sm_90a").
inline constexpr char kBackendAttr[] = "lathe.backend", kArchAttr[] = "lathe.arch",
                      kFeaturesAttr[] = "lathe.features";
// On the module: what every operand of the class is aligned to (core/problem.h's Alignment, as an integer).
inline constexpr char kAlignmentAttr[] = "lathe.alignment", kDependentLaunchAttr[] = "lathe.dependent_launch";
// On the module of a generic kernel: what the class leaves open the launch's form says (core/generic.h).
inline constexpr char kGenericAttr[] = "lathe.generic";
// On an scf.forall: the launch recipe's step (its kernel symbol).
inline constexpr char kStepAttr[] = "lathe.step";

}  // namespace lathe::ir
