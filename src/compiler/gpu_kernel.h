// The frame of GPU kernels: every scf.forall of a payload becomes a gpu.func, the same for CUDA and ROCm.
#pragma once

#include <functional>

#include "compiler/dialect.h"
#include "compiler/emit.h"

namespace lathe::emit {

// The kernel that a step's body is emitted into.
class GpuKernel {
 public:
  GpuKernel(Emit& e, mlir::gpu::GPUFuncOp function, ir::KernelConfigAttr config);

  int64_t threads() const { return config_.getThreads(); }  // of the workgroup, all along x
  ir::KernelConfigAttr config() const { return config_; }   // the payload's; a merge step has it too
  Value thread() const { return thread_; }                  // index, [0, threads)

  // `elements` in memory that the workgroup shares, 16-byte aligned; lives as long as the kernel.
  Value shared(Type element, int64_t elements);
  // Every thread of the workgroup must come here: what each stored to shared memory before is visible after.
  void barrier();

 private:
  Emit& e_;
  mlir::gpu::GPUFuncOp function_;
  ir::KernelConfigAttr config_;
  Value thread_;
};

// Emits one step's body.
using GpuStepEmitter = std::function<mlir::LogicalResult(Emit&, GpuKernel&, const Arguments&, TileProgram&)>;

// Replaces the module's payload functions by one gpu.module of kernels, one per forall, named by its
// lathe.step attribute. The parameters are the argument block's fields; the workgroup's size is fixed to the
// kernel_config's threads and its place in the grid is the forall's place.
mlir::LogicalResult emit_gpu_kernels(mlir::ModuleOp module, const GpuStepEmitter& emitter);

}  // namespace lathe::emit
