// Hopper's instructions (sm_90a) as short functions: barriers in shared memory, tensor copies, warpgroup
// products, clusters. All are inline PTX; codegen.cc marks it convergent. Addresses in shared memory are i32,
// as the instructions take them.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// One piece of inline PTX with side effects; results (none, one, or several as a struct) as the constraints
// say.
Value inline_ptx(Emit& e, llvm::StringRef text, llvm::StringRef constraints, ValueRange operands,
                 Type result = Type());

// --- threads
// The warp's number in the workgroup, i32, which the assembler knows to be the same in all of its lanes.
Value uniform_warp(Emit& e, Value thread_i32);
// i1: true in one lane of the warp, all of whose lanes must come here.
Value elect_lane(Emit& e);
void sync_warp(Emit& e);
// A barrier (1 to 15) of `threads` threads, whole warps.
void named_barrier(Emit& e, int64_t barrier, int64_t threads);
// Registers of each thread of this warpgroup from here on, a multiple of 8.
void increase_registers(Emit& e, int64_t count);
void decrease_registers(Emit& e, int64_t count);

// --- barriers in shared memory, 8 bytes each
void init_barrier(Emit& e, Value barrier, int64_t arrivals);
// Makes the initialised barriers visible to the copy engine and to the cluster.
void fence_barrier_init(Emit& e);
// Arrives, and the phase waits for `bytes` more of copies.
void arrive_expecting(Emit& e, Value barrier, int64_t bytes);
void arrive(Emit& e, Value barrier);
// The barrier at the same address in workgroup `rank` of the cluster. Orders no memory there: enough to say
// that products and copies which have been waited for are over (with .release.cluster ptxas adds a fence of
// the whole GPU).
void arrive_at(Emit& e, Value barrier, Value rank);
// Until the phase of that parity (i32) has completed. A fresh barrier is past the phase of parity 1.
void wait_barrier(Emit& e, Value barrier, Value parity);

// --- tensor copies
using Coordinates = std::array<Value, 3>;  // i32: along the map's columns, rows, batch
void prefetch_map(Emit& e, Value map);
// Global to shared memory; its bytes count on `barrier`. With a mask (i16) the copy goes to the same place in
// every workgroup of the cluster whose bit is set, and counts there.
void copy_in(Emit& e, Value shared, Value map, const Coordinates& at, Value barrier, Value mask = Value());
// Shared to global memory, in groups that one thread commits and waits for.
void copy_out(Emit& e, Value map, const Coordinates& at, Value shared);
void commit_copies_out(Emit& e);
// Until at most `groups` of this thread's may still read shared memory.
void wait_copies_read(Emit& e, int64_t groups);
// Generic writes to shared memory before it are visible to copies out after it.
void fence_copies(Emit& e);

// --- shared memory as f32 (or i32), beside memrefs: `at` is the address, `offset` bytes more. 1, 2 or 4
// elements.
void store_shared(Emit& e, Value at, int64_t offset, ValueRange values);
Values load_shared(Emit& e, Value at, int64_t offset, int64_t count, Type element = Type());
// Of another workgroup of the cluster, an address that `address_at` made.
Values load_cluster(Emit& e, Value at, int64_t offset, int64_t count, Type element = Type());
Value address_at(Emit& e, Value shared, Value rank);

// Four 8 by 8 matrices of 16-bit elements, a lane's two neighbours of each in one i32, to the rows whose
// addresses lanes hold, eight lanes a matrix.
void store_matrices(Emit& e, Value row, ValueRange registers);

// --- clusters
Value cluster_rank(Emit& e);  // i32
// All threads of the cluster: what was written to shared memory before is visible after.
void cluster_barrier(Emit& e);

// --- warpgroup products: D (in registers) += A B with both in shared memory
// A warpgroup's sums of blocks x (64 by n) as one struct: 64 by n is n / 2 registers of a thread, of columns
// j * 8 + lane % 4 * 2 + {0, 1} in rows warp * 16 + lane / 4 + {0, 8}, in the order column, row, j.
struct WarpgroupProduct {
  Type a, b;           // elements: f16 or bf16, both the same; fp8 of either kind; i8
  Type sum;            // f32, of i8 i32
  int64_t n = 0;       // columns
  int64_t blocks = 1;  // of 64 rows
  int64_t steps = 0;   // instructions along K, of 32 bytes of a row each
  bool a_k_major = true, b_k_major = true;
  // Bytes from the first step's operand to that of step `s` (and of block `r`).
  std::function<int64_t(int64_t r, int64_t s)> a_offset;
  std::function<int64_t(int64_t s)> b_offset;

  int64_t registers() const { return blocks * n / 2; }
};
// Whether there is an instruction for such elements.
bool multiplies_in_warpgroup(Type a, Type b);
// Descriptor (i64) of an operand whose first byte is at `shared`, 128-byte swizzled; bytes between groups of
// 8 rows (stride) and between 64-element columns (leading: where rows lie along K alone).
Value operand_descriptor(Emit& e, Value shared, int64_t leading, int64_t stride);
// `descriptor` moved by `bytes` (i32).
Value move_descriptor(Emit& e, Value descriptor, Value bytes);
Value undefined_sums(Emit& e, const WarpgroupProduct& p);
Value zero_sums(Emit& e, const WarpgroupProduct& p);
// Starts one group of products, to which `sums` are added if `accumulate` (i32) is not 0, and waits until at
// most `in_flight` groups are under way. The result must not be read before wait_sums.
Value multiply_warpgroup(Emit& e, const WarpgroupProduct& p, Value sums, Value a, Value b, Value accumulate,
                         int64_t in_flight);
Values wait_sums(Emit& e, const WarpgroupProduct& p, Value sums);
// The single sums of products that are over (in_flight 0).
Values sums_of(Emit& e, const WarpgroupProduct& p, Value sums);

}  // namespace lathe::emit
