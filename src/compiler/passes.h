// Lathe's own MLIR passes. They are registered by name, so that YAML pipelines can use them.
#pragma once

#include <memory>

namespace mlir {
class Pass;
}

namespace lathe {

std::unique_ptr<mlir::Pass> make_distribute_pass();    // lathe-distribute
std::unique_ptr<mlir::Pass> make_expand_math_pass();   // lathe-expand-math
std::unique_ptr<mlir::Pass> make_native_math_pass();   // lathe-native-math
std::unique_ptr<mlir::Pass> make_fix_launch_pass();    // lathe-fix-launch
std::unique_ptr<mlir::Pass> make_gpu_to_spirv_pass();  // lathe-gpu-to-spirv

}  // namespace lathe
