// Turns every launch step of a payload into a gpu.func, in the same way for CUDA, ROCm and SPIR-V.
#pragma once

#include <functional>

#include "compiler/dialect.h"
#include "compiler/emit.h"
#include "core/recipe.h"

namespace lathe::emit {

// Properties of a kernel that its emitter decides and the launch recipe needs. They are kept in an attribute of
// the module, by symbol, until the recipe is made (launch_facts.h).
struct LaunchFacts {
  int64_t shared_bytes = 0;  // dynamic shared memory
  std::vector<TensorMap> tensor_maps;
  std::vector<std::string> attributes;  // launch attributes, such as "pdl"
  llvm::SmallVector<int64_t, 3> cluster = {1, 1, 1};
  int64_t ptx = 0;  // CUDA: the lowest PTX version with the kernel's instructions, such as 84; 0: the default
  // Attributes of the LLVM function, such as {"nvvm.minctasm", "1"}.
  std::vector<std::pair<std::string, std::string>> function_attributes;
};

// The kernel into which the body of a step is emitted.
class GpuKernel {
 public:
  GpuKernel(Emit& e, mlir::gpu::GPUFuncOp function, ir::KernelConfigAttr config);

  int64_t threads() const { return config_.threads(); }    // of the workgroup, all along x
  ir::KernelConfigAttr config() const { return config_; }  // of the payload; a merge step has the same
  // The struct of the kernel's family: config<SimtConfig>().
  template <typename Config>
  const Config& config() const {
    return config_.as<Config>();
  }
  Value thread() const { return thread_; }        // index in [0, threads)
  llvm::StringRef arch() const { return arch_; }  // "sm_90a", "gfx942"
  mlir::ModuleOp module() const { return function_->getParentOfType<mlir::ModuleOp>(); }
  bool rocm() const { return device_scope_ == "agent"; }
  Alignment alignment() const { return alignment_; }  // of every operand

  // Static shared memory for `elements`, 16-byte aligned. CUDA limits the sum to 48 KB.
  Value shared(Type element, int64_t elements);
  // Shared memory of any size, 1024-byte aligned, as an !llvm.ptr<3>. On CUDA it is dynamic. On ROCm it is
  // static, so that the code object has its size. Call it at most once per kernel.
  Value dynamic_shared(int64_t bytes);
  // CUDA: adds a tensor map parameter, which the runtime encodes at each launch. Returns its !llvm.ptr.
  Value tensor_map(const TensorMap& map);
  // Waits until the previous kernel in the stream has ended, if the request allows dependent launch; otherwise
  // emits nothing. All threads must run this before any of them accesses global memory (B may be read before
  // it if reads_b_early()). Only the first call has an effect. If an emitter does not call it, the wait is put
  // at the start of the kernel.
  void wait_for_earlier_kernel();
  // Whether the caller promises that no kernel that still runs writes B.
  bool reads_b_early() const { return dependent_launch_ == DependentLaunch::kConstantB; }
  // A barrier of all workers. It makes their earlier stores to shared memory visible to each other.
  void barrier();
  // The same for their earlier accesses to global memory, atomic ones included.
  void barrier_for_global_memory();
  // Code emitted after this call runs only in the first `threads` threads; `barrier` emits their barrier.
  void narrow(int64_t threads, std::function<void()> barrier) {
    workers_ = threads, barrier_ = std::move(barrier);
  }
  int64_t workers() const { return workers_; }  // the number of threads that run the emitted code
  // Takes a ticket from the 32-bit counter at `counter` (an !llvm.ptr), which `tickets` (index) workgroups use.
  // Returns an i1, the same in all threads: whether this workgroup is the last. Everything that the other
  // workgroups wrote to global memory before is then visible to all workers of the last one, and the counter is
  // 0 again. All workers must run this.
  Value last_arrival(Value counter, Value tickets);
  // The same for the calling thread only. It publishes the writes of this thread, and those of its workgroup if
  // a barrier precedes.
  Value take_ticket(Value counter, Value tickets);
  // LLVM's name of the atomic scope of a workgroup.
  llvm::StringRef workgroup_scope() const { return device_scope_ == "device" ? "block" : "workgroup"; }
  // A relaxed atomic operation with device scope. `memory` must be device memory that no other device uses.
  Value atomic(mlir::LLVM::AtomicBinOp operation, Value memory, Value operand) const;

  LaunchFacts facts;

 private:
  void fence();  // for all memory, with device scope

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

class GpuStep;

// The threads that fill the lists of a tile's rows (GroupRows), and the lists that they read. `thread` is an index in
// [0, threads).
struct RowReaders {
  Value thread;
  int64_t threads = 0;
  std::function<void()> barrier;
  bool a = false, d = false;  // rows of A and their scales; rows of D and of the residual
};

// The tiles of a grouped product that the schedule on the device lists.
class GroupTiles {
 public:
  virtual ~GroupTiles() = default;
  virtual Value count() = 0;  // index
  // The step for tile `number` (index), in the threads of `readers`. It must not outlive this object.
  virtual GpuStep tile(Value number, const RowReaders& readers) = 0;
};

// One launch step: its forall and, with kMergeLast or kMergeCluster, the forall that merges its partial results
// in the same kernel.
class GpuStep {
 public:
  GpuStep(mlir::scf::ForallOp forall, mlir::scf::ForallOp merge, const Arguments& arguments)
      : forall_(forall), merge_(merge), arguments_(arguments) {}

  const Arguments& arguments() const { return arguments_; }
  // The same step for the tile of a grouped product whose rows are `rows`; they must outlive the step. `scales`: listed
  // rows whose scales are apart: the first scale of each of the tile's rows of A, a memref of index.
  GpuStep of_group(const GroupRows& rows, Value scales) const {
    GpuStep step = *this;
    step.rows_ = &rows;
    step.scales_ = scales;
    return step;
  }
  const GroupRows* rows() const { return rows_; }  // null unless of_group() made the step
  // The same step for a persistent kernel, which takes its tiles from `tiles`; they must outlive the step.
  GpuStep of_tiles(GroupTiles& tiles) const {
    GpuStep step = *this;
    step.group_tiles_ = &tiles;
    return step;
  }
  GroupTiles* group_tiles() const { return group_tiles_; }  // null unless of_tiles() made the step
  Value scales_of_rows() const { return scales_; }
  bool has_scales_apart() const;  // A or B is in blocks whose scales are an array of their own
  // The same step with other arguments, which must outlive it.
  GpuStep with(const Arguments& arguments) const { return GpuStep(forall_, merge_, arguments); }
  bool is_grouped() const { return rows_ != nullptr || group_tiles_ != nullptr; }
  // The position of this workgroup in the launched grid (of a grouped product: {0, y, group}), and the step's number of
  // tiles along each dimension, over which a persistent kernel iterates.
  GridPosition block(Emit& e) const;
  GridPosition tiles(Emit& e) const { return grid_of(e, forall_, arguments_); }
  // The position of the workgroup at `block` if the `ranks` workgroups of a cluster along z compute the splits
  // of one matrix of the batch. In a position, z is split * batch + matrix (distribute.cc).
  GridPosition place_in_cluster(Emit& e, GridPosition block, int64_t ranks) const;
  // The step's program at a position. Emits its index computations at the insertion point.
  llvm::FailureOr<TileProgram> at(Emit& e, const GridPosition& position) const {
    if (rows_) return instantiate(e, forall_, arguments_, position, *rows_);
    return instantiate(e, forall_, arguments_, position);
  }
  bool merges() const { return merge_ != nullptr; }  // partial results are merged in this kernel
  bool is_merge() const;                             // this step is a separate merge step
  // The merge of the tile to which the partial result at `position` belongs.
  llvm::FailureOr<TileProgram> merge_at(Emit& e, const GridPosition& position) const;

 private:
  mlir::scf::ForallOp forall_, merge_;
  const Arguments& arguments_;
  const GroupRows* rows_ = nullptr;
  GroupTiles* group_tiles_ = nullptr;
  Value scales_;
};

// The config of the payload's op; null if it has none.
ir::KernelConfigAttr config_of(mlir::func::FuncOp payload);

// Emits the body of one step.
using GpuStepEmitter = std::function<mlir::LogicalResult(Emit&, GpuKernel&, const GpuStep&)>;

// Adds a kernel of its own to the module's gpu.module, with the workgroup size of `config`.
using GpuKernelEmitter = std::function<void(Emit&, GpuKernel&, const Arguments&)>;
mlir::LogicalResult add_gpu_kernel(mlir::ModuleOp module, llvm::StringRef symbol, ir::KernelConfigAttr config,
                                   const GpuKernelEmitter& emitter);

// Replaces the payload functions by one gpu.module with a kernel per step, named by the step's lathe.step
// attribute. The parameters are the fields of the argument block, then the tensor maps. The workgroup size is
// `threads` of the kernel_config.
mlir::LogicalResult emit_gpu_kernels(mlir::ModuleOp module, const GpuStepEmitter& emitter);

}  // namespace lathe::emit
