// Hopper's instructions (sm_90a) as functions: mbarriers, TMA copies, wgmma, clusters. All are inline PTX, which
// codegen.cc marks convergent. Addresses in shared memory are i32, as the instructions take them.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// Inline PTX with side effects. The result is null, one value, or a struct of several values, as the constraints
// say.
Value inline_ptx(Emit& e, llvm::StringRef text, llvm::StringRef constraints, ValueRange operands,
                 Type result = Type());

// --- threads
// The index of the warp in the workgroup, i32. It is computed so that the assembler knows that all lanes have
// the same value.
Value uniform_warp(Emit& e, Value thread_i32);
// An i1 that is true in exactly one lane. All lanes of the warp must run this.
Value elect_lane(Emit& e);
void sync_warp(Emit& e);
// Barrier number `barrier` (1 to 15) of `threads` threads, which must be whole warps.
void named_barrier(Emit& e, int64_t barrier, int64_t threads);
// Changes the number of registers per thread of this warpgroup (setmaxnreg). `count` is a multiple of 8.
void increase_registers(Emit& e, int64_t count);
void decrease_registers(Emit& e, int64_t count);

// --- mbarriers: barriers in shared memory, 8 bytes each
void init_barrier(Emit& e, Value barrier, int64_t arrivals);
// Makes the initialised barriers visible to the copy engine and to the cluster.
void fence_barrier_init(Emit& e);
// Arrives, and makes the phase also wait for `bytes` bytes of copies.
void arrive_expecting(Emit& e, Value barrier, int64_t bytes);
void arrive(Emit& e, Value barrier);
// Arrives at the barrier at the same address in workgroup `rank` of the cluster. Does not order memory. That is
// enough to signal that products and copies, for which this workgroup has waited, are done. With
// .release.cluster ptxas would add a fence for the whole GPU.
void arrive_at(Emit& e, Value barrier, Value rank);
// Waits until the phase with this parity (i32) has completed. On a new barrier, the phase with parity 1 counts
// as completed.
void wait_barrier(Emit& e, Value barrier, Value parity);

// --- TMA copies
using Coordinates = std::array<Value, 3>;  // i32: along the map's columns, rows, batch
void prefetch_map(Emit& e, Value map);
// Copies from global to shared memory and counts the bytes on `barrier`. With a mask (i16) it copies to the same
// address in every workgroup of the cluster whose bit is set, and counts on the barrier there.
void copy_in(Emit& e, Value shared, Value map, const Coordinates& at, Value barrier, Value mask = Value());
// Copies from shared to global memory. One thread commits such copies as groups and waits for the groups.
void copy_out(Emit& e, Value map, const Coordinates& at, Value shared);
void commit_copies_out(Emit& e);
// Waits until at most `groups` groups of this thread may still read shared memory.
void wait_copies_read(Emit& e, int64_t groups);
// Makes earlier ordinary writes to shared memory visible to later copy_out.
void fence_copies(Emit& e);

// --- shared memory as f32 or i32, without memrefs. The address is `at` plus `offset` bytes; 1, 2 or 4 elements.
void store_shared(Emit& e, Value at, int64_t offset, ValueRange values);
Values load_shared(Emit& e, Value at, int64_t offset, int64_t count, Type element = Type());
// Loads from another workgroup of the cluster. `at` comes from address_at.
Values load_cluster(Emit& e, Value at, int64_t offset, int64_t count, Type element = Type());
Value address_at(Emit& e, Value shared, Value rank);

// stmatrix: stores four 8 by 8 matrices of 16-bit elements. Each i32 holds two neighbours of one matrix. `row`
// holds the address of one row per lane, eight lanes for each matrix.
void store_matrices(Emit& e, Value row, ValueRange registers);

// --- clusters
Value cluster_rank(Emit& e);  // i32
// A barrier of all threads of the cluster. It makes earlier writes to shared memory visible to all of them.
void cluster_barrier(Emit& e);

// --- wgmma: D (in registers) += A * B with both operands in shared memory
// The accumulators of a warpgroup are `blocks` tiles of 64 by n, held in one struct. A tile has n / 2 registers
// per thread: columns j * 8 + lane % 4 * 2 + {0, 1} of rows warp * 16 + lane / 4 + {0, 8}, ordered by column,
// then row, then j.
struct WarpgroupProduct {
  Type a, b;           // element types: both f16, both bf16, both i8, or any two fp8 types
  Type sum;            // f32; i32 for i8
  int64_t n = 0;       // columns
  int64_t blocks = 1;  // blocks of 64 rows
  int64_t steps = 0;   // instructions along K; each takes 32 bytes of a row
  bool a_k_major = true, b_k_major = true;
  // The offset in bytes of the operand of step `s` (and block `r`) from the operand of the first step.
  std::function<int64_t(int64_t r, int64_t s)> a_offset;
  std::function<int64_t(int64_t s)> b_offset;

  int64_t registers() const { return blocks * n / 2; }
};
// Whether wgmma supports these element types.
bool multiplies_in_warpgroup(Type a, Type b);
// The matrix descriptor (i64) of an operand at `shared` with the 128-byte swizzle. `stride` is the distance in
// bytes between groups of 8 rows. `leading` is the distance between panels of 64 elements along the contiguous
// dimension; it matters only if that dimension is not K.
Value operand_descriptor(Emit& e, Value shared, int64_t leading, int64_t stride);
// Adds `bytes` (i32) to the address in a descriptor.
Value move_descriptor(Emit& e, Value descriptor, Value bytes);
Value undefined_sums(Emit& e, const WarpgroupProduct& p);
Value zero_sums(Emit& e, const WarpgroupProduct& p);
// Starts one group of products, added to `sums` if `accumulate` (i32) is not 0. Then waits until at most
// `in_flight` groups are running. The result must not be read before wait_sums.
Value multiply_warpgroup(Emit& e, const WarpgroupProduct& p, Value sums, Value a, Value b, Value accumulate,
                         int64_t in_flight);
Values wait_sums(Emit& e, const WarpgroupProduct& p, Value sums);
// The single sums, once all products have ended (after in_flight 0).
Values sums_of(Emit& e, const WarpgroupProduct& p, Value sums);

}  // namespace lathe::emit
