// The frame of GPU kernels: every launch step of a payload becomes a gpu.func, the same for CUDA and ROCm.
#pragma once

#include <functional>

#include "compiler/dialect.h"
#include "compiler/emit.h"
#include "core/recipe.h"

namespace lathe::emit {

// What the launch recipe must say of a kernel beyond its grid, as its emitter decided it. Kept as kLaunchAttr
// on the module, by symbol, until the recipe is made (launch_facts.h).
struct LaunchFacts {
  int64_t shared_bytes = 0;  // of dynamic shared memory
  std::vector<TensorMap> tensor_maps;
  std::vector<std::string> attributes;  // launch attributes, "pdl"
  llvm::SmallVector<int64_t, 3> cluster = {1, 1, 1};
  int64_t ptx =
      0;  // CUDA: the least version of PTX that has the kernel's instructions, 84; 0: the target's first
  // Attributes of LLVM's function: {"nvvm.minctasm", "1"}.
  std::vector<std::pair<std::string, std::string>> function_attributes;
};

// The kernel that a step's body is emitted into.
class GpuKernel {
 public:
  GpuKernel(Emit& e, mlir::gpu::GPUFuncOp function, ir::KernelConfigAttr config);

  int64_t threads() const { return config_.threads(); }    // of the workgroup, all along x
  ir::KernelConfigAttr config() const { return config_; }  // the payload's; a merge step has it too
  Value thread() const { return thread_; }                 // index, [0, threads)
  llvm::StringRef arch() const { return arch_; }           // "sm_90a", "gfx942"
  bool rocm() const { return device_scope_ == "agent"; }
  Alignment alignment() const { return alignment_; }  // of every operand

  // `elements` in memory that the workgroup shares, 16-byte aligned; lives as long as the kernel. At most 48
  // KB in all on CUDA.
  Value shared(Type element, int64_t elements);
  // The workgroup's shared memory of any size, `bytes` long and 1024-byte aligned, as an !llvm.ptr<3>: on
  // CUDA dynamic, on ROCm as static as `shared`, so that the code object says how much there is. Once a
  // kernel.
  Value dynamic_shared(int64_t bytes);
  // CUDA: a tensor map, encoded by the runtime at each launch, as the !llvm.ptr of a parameter.
  Value tensor_map(const TensorMap& map);
  // Until the kernel before this one in the stream is over, where the request lets this one start beside it;
  // nothing otherwise. All threads, before any of them touches global memory (but for B, if it
  // reads_b_early()). Once a kernel; where an emitter does not say where, the frame does it first of all.
  void wait_for_earlier_kernel();
  // Whether the caller promises that nothing still running writes B.
  bool reads_b_early() const { return dependent_launch_ == DependentLaunch::kConstantB; }
  // Every worker must come here: what each stored to shared memory before is visible after.
  void barrier();
  // From here on the code that is emitted runs in the first `threads` threads alone, which meet at `barrier`.
  void narrow(int64_t threads, std::function<void()> barrier) {
    workers_ = threads, barrier_ = std::move(barrier);
  }
  int64_t workers() const { return workers_; }  // the threads that run what is emitted
  // Takes a ticket from the 32-bit counter at `counter` (an !llvm.ptr) that `tickets` (index) workgroups
  // take: i1, the same in all threads, whether this workgroup's is the last one. What the others wrote to
  // global memory before theirs is then visible to all workers of the last, and the counter is 0 again. Every
  // worker must come here.
  Value last_arrival(Value counter, Value tickets);
  // The same for the calling thread alone: its ticket, and what it (or, before a barrier, its workgroup)
  // wrote.
  Value take_ticket(Value counter, Value tickets);
  // What the back ends call atomics among the threads of a workgroup.
  llvm::StringRef workgroup_scope() const { return device_scope_ == "device" ? "block" : "workgroup"; }
  // An atomic operation among all workgroups of the device, itself in no order with others; `memory` is the
  // launch's own, in the device.
  Value atomic(mlir::LLVM::AtomicBinOp operation, Value memory, Value operand) const;

  LaunchFacts facts;  // what the launch recipe must say

 private:
  void fence();  // of all memory, on the device

  Emit& e_;
  mlir::gpu::GPUFuncOp function_;
  ir::KernelConfigAttr config_;
  DependentLaunch dependent_launch_;
  bool has_waited_ = false;
  Value thread_;
  int64_t workers_;
  std::function<void()> barrier_;
  llvm::StringRef arch_, device_scope_;
  Alignment alignment_;
};

// One launch step: the forall it stands for and, with kMergeLast or kMergeCluster, the one that merges its
// partial results in the same kernel.
class GpuStep {
 public:
  GpuStep(mlir::scf::ForallOp forall, mlir::scf::ForallOp merge, const Arguments& arguments)
      : forall_(forall), merge_(merge), arguments_(arguments) {}

  const Arguments& arguments() const { return arguments_; }
  // This workgroup's place in the launched grid, and how many tiles the step has along each dimension (what a
  // persistent kernel walks).
  GridPosition block(Emit& e) const;
  GridPosition tiles(Emit& e) const { return grid_of(e, forall_, arguments_); }
  // The place of the workgroup at `block` where `ranks` of them, a cluster along z, hold the splits of one
  // matrix of the batch: a position's z counts the batch inside the splits (distribute.cc).
  GridPosition place_in_cluster(Emit& e, GridPosition block, int64_t ranks) const;
  // The step's program at a place, its index computations emitted at the insertion point.
  llvm::FailureOr<TileProgram> at(Emit& e, const GridPosition& position) const {
    return instantiate(e, forall_, arguments_, position);
  }
  bool merges() const { return merge_ != nullptr; }  // within this kernel
  bool is_merge() const;                             // a merge step of its own
  // The merge of the tile that the step computes part of at `position`.
  llvm::FailureOr<TileProgram> merge_at(Emit& e, const GridPosition& position) const;

 private:
  mlir::scf::ForallOp forall_, merge_;
  const Arguments& arguments_;
};

// Emits one step's body.
using GpuStepEmitter = std::function<mlir::LogicalResult(Emit&, GpuKernel&, const GpuStep&)>;

// Replaces the module's payload functions by one gpu.module of kernels, one per step, named by its lathe.step
// attribute. The parameters are the argument block's fields, then the kernel's tensor maps; the workgroup's
// size is fixed to the kernel_config's threads.
mlir::LogicalResult emit_gpu_kernels(mlir::ModuleOp module, const GpuStepEmitter& emitter);

}  // namespace lathe::emit
