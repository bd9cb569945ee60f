// The state of a running grid: threads with their own registers and pc, blocks, clusters, and which thread waits
// for what.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tests/gpu/emulator/ptx/launch.h"
#include "tests/gpu/emulator/ptx/module.h"
#include "tests/gpu/emulator/ptx/visibility.h"

namespace lathe::ptx {

class Machine;
struct Block;
struct Cluster;
struct ThreadCopies;  // async_copy.h
struct WarpgroupMma;  // wgmma.cc
struct TensorMemory;  // tcgen05.h

enum class Wait : uint8_t { none, warp, warpgroup, barrier, cluster, mbarrier, registers, exited };

// Executes a warp-wide operation for all lanes at once; `t` is the lane that arrived last.
using Collective = Step (*)(Thread& t, const Instruction& i, uint32_t lanes);

struct Thread {
  uint64_t* r = nullptr;
  Block* block = nullptr;
  uint32_t pc = 0;
  uint16_t index = 0;  // linear index in the block
  uint8_t lane = 0, warp = 0;
  Wait wait = Wait::none;
  bool tracked = false;      // has a wgmma in flight: the registers of every instruction are checked
  bool wait_failed = false;  // the next poll of an mbarrier must report "not complete"
  bool cluster_arrived = false,
       cluster_waits = false;  // arrived at the cluster barrier; must still wait there
  uint64_t cluster_phase = 0;  // the cluster's phase when it arrived
  uint32_t lanes = 0;          // the lanes of the warp-wide operation that it waits for
  Collective action = nullptr;
  uint64_t proxy_fence = 0;  // time of its last fence.proxy.async
  std::unique_ptr<uint8_t[]> local;
  std::unique_ptr<ThreadCopies> copies;
  Thread();
  Thread(Thread&&) noexcept;
  ~Thread();
};

struct Warp {
  uint32_t live = 0;
};

struct Barrier {
  uint32_t arrived = 0, expected = 0;  // expected 0: all live threads
  uint32_t count = 0;                  // true predicates, for bar.red
  std::vector<Thread*> waiting;
};

// An mbarrier. Its bytes in shared memory hold a pattern, so that an overwritten mbarrier is detected.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t transactions = 0;
  uint64_t phase = 0;
  std::vector<Thread*> waiters;
};

// A copy in flight. `perform` moves the bytes and signals the mbarrier; it returns false after an error.
struct AsyncOp {
  Block* target = nullptr;        // the block whose shared memory is written, or null
  Block* signal_block = nullptr;  // where completion is signalled
  uint32_t signal = kNone;        // the mbarrier there
  std::function<bool()> perform;
};

struct Block {
  Machine* machine = nullptr;
  Cluster* cluster = nullptr;
  std::array<uint32_t, 3> id = {0, 0, 0};
  uint32_t rank = 0;  // rank in the cluster
  std::vector<uint8_t> shared;
  // For every 16 bytes of shared memory: the time (shifted left by 16) and the thread of the last ordinary store.
  // The asynchronous proxy sees that store only after a fence.proxy.async.
  std::vector<uint64_t> written;
  std::vector<uint64_t> registers;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint16_t> runnable;
  uint32_t live = 0;
  std::array<Barrier, 16> barriers;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;
  std::vector<std::unique_ptr<WarpgroupMma>> products;  // one per warpgroup, created at first use
  std::unique_ptr<TensorMemory> tensor;                 // created at first use
  uint32_t free_registers = 0;                          // registers released by setmaxnreg.dec
  std::vector<uint32_t> warpgroup_registers;
  Block();
  ~Block();

  void wake(Thread& t) {
    t.wait = Wait::none;
    runnable.push_back(t.index);
  }
  // Wakes the thread at the instruction after the one it waited at.
  void release(Thread& t) {
    ++t.pc;
    wake(t);
  }
};

struct Cluster {
  std::array<uint32_t, 3> id = {0, 0, 0};
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<AsyncOp> pending;
  uint32_t arrived = 0;  // threads that arrived at the cluster barrier
  uint64_t phase = 0;
  uint32_t live = 0;      // live threads
  uint64_t number = 0;    // clusters are numbered in the order they start
  uint64_t acquired = 0;  // time of the last acquire at gpu scope by one of its threads
  bool stalled = false;   // does not run while any other cluster can
  StoredLines stores;     // its stores to global memory that other clusters do not see yet
};

class Machine {
 public:
  Machine(const Module& module, const Kernel& kernel, const LaunchConfig& config, const AddressMap& memory,
          const LaunchOptions& options);
  absl::Status run();

  // Records an error. The first one is kept.
  Step fault(const Thread& t, const Instruction& i, absl::StatusCode code, absl::string_view why);
  bool failed() const { return !status_.ok(); }

  // Warp-wide operations: the thread waits until all of `lanes` that have not exited are at this instruction.
  Step converge(Thread& t, const Instruction& i, uint32_t lanes, Collective action);
  // The same for the 128 threads of a warpgroup. It is an error if one of them has exited.
  Step converge_warpgroup(Thread& t, const Instruction& i, Collective action);
  void complete_barrier(Block& block, Barrier& barrier);
  void check_cluster_barrier(Cluster& cluster);

  // Takes an asynchronous copy and performs it now or later, as the policy says.
  Step issue(Thread& t, AsyncOp op);
  // Whether an operation takes effect at once; `random` flips a coin for each operation.
  bool early(AsyncPolicy policy);

  template <typename F>
  void for_clusters(const F& f) {
    for (auto& cluster : resident_) f(*cluster);
  }

  uint64_t random() { return random_(); }
  // Lets another thread run sometimes. Called wherever the order of threads can be observed.
  Step maybe_yield() { return (random_() & 3) == 0 ? Step::yield : Step::next; }
  // Called after a fence or an atomic. May halt this cluster while the others go on, to widen the window between
  // a store, its fence and its ticket.
  Step maybe_stall(Cluster& cluster);

  const Module& module;
  const Kernel& kernel;
  const LaunchConfig& config;
  const AddressMap& memory;
  const LaunchOptions& options;
  AsyncPolicy load_policy, store_policy, product_policy, visible_policy;  // drawn once per launch
  Visibility visibility;
  uint64_t time = 1;      // counts events
  uint64_t progress = 0;  // counts the events that can end a wait of another thread
  uint64_t executed = 0;
  uint32_t shared_bytes = 0;  // per block, counted from address 0
  uint32_t dynamic_base = 0;
  std::array<uint32_t, 3> cluster_dims = {1, 1, 1};

 private:
  absl::Status check_config();
  void admit();
  void start_block(Block& block, Cluster& cluster, uint32_t rank);
  bool run_burst(Cluster& cluster);
  bool run_some();
  void end_stalls();
  bool run_thread(Thread& t);
  Step exit_thread(Thread& t);
  bool retire(size_t position);
  bool complete_pending(Cluster& cluster, bool only_awaited);
  bool wake_polls();
  bool idle();
  absl::Status deadlock(absl::string_view kind) const;

  absl::Status status_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Cluster>> resident_;
  std::vector<uint64_t> order_;  // cluster ids in starting order
  size_t started_ = 0;
  uint32_t resident_limit_ = 1, resident_most_ = 1, stalled_ = 0;
  uint64_t progress_seen_ = 0, executed_then_ = 0;
  int idle_rounds_ = 0;
};

// Checks and, for moves of values in flight, executes one instruction of a thread with a wgmma in flight (wgmma.cc).
// True if the instruction is done.
bool tracked_instruction(Thread& t, const Instruction& i, Step& step);
// Whether a thread may exit: no copy, product or load of it may be in flight, and the last thread of a block must leave
// no tensor memory allocated. False after an error.
bool check_copies_at_exit(Thread& t, const Instruction& i);
bool check_products_at_exit(Thread& t, const Instruction& i);
bool check_tensor_memory_at_exit(Thread& t, const Instruction& i);
Step execute_exit(Thread& t, const Instruction& i);

}  // namespace lathe::ptx
