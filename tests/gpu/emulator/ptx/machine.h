// The state of a running grid: threads with registers and a pc of their own, blocks, clusters, and who waits
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

enum class Wait : uint8_t { none, warp, warpgroup, barrier, cluster, mbarrier, registers, exited };

// Executes a collective for all lanes at once; `t` is the last to arrive.
using Collective = Step (*)(Thread& t, const Instruction& i, uint32_t lanes);

struct Thread {
  uint64_t* r = nullptr;
  Block* block = nullptr;
  uint32_t pc = 0;
  uint16_t index = 0;  // linear in the block
  uint8_t lane = 0, warp = 0;
  Wait wait = Wait::none;
  bool tracked = false;      // a wgmma of this thread is in flight: every instruction's registers are checked
  bool wait_failed = false;  // a poll of an mbarrier is to come back empty-handed
  bool cluster_arrived = false,
       cluster_waits = false;  // counted at the cluster's barrier; has still to wait there
  uint64_t cluster_phase = 0;  // when it arrived
  uint32_t lanes = 0;          // of the collective it waits for
  Collective action = nullptr;
  uint64_t proxy_fence = 0;  // when it last executed fence.proxy.async
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
  uint32_t arrived = 0, expected = 0;  // expected 0: every live thread
  uint32_t count = 0;                  // of true predicates, for bar.red
  std::vector<Thread*> waiting;
};

// An mbarrier object. Its bytes in shared memory hold a pattern that shows whether it was overwritten.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t transactions = 0;
  uint64_t phase = 0;
  std::vector<Thread*> waiters;
};

// A copy on its way. `perform` moves the bytes and signals; false means that the machine holds an error.
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
  uint32_t rank = 0;  // in the cluster
  std::vector<uint8_t> shared;
  // For every 16 bytes of shared memory, when (<< 16) and by which thread it was last written by ordinary
  // stores: the asynchronous proxy sees such a write only behind a fence.proxy.async.
  std::vector<uint64_t> written;
  std::vector<uint64_t> registers;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<uint16_t> runnable;
  uint32_t live = 0;
  std::array<Barrier, 16> barriers;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Mbarrier>> mbarriers;
  std::vector<std::unique_ptr<WarpgroupMma>> products;  // one for each warpgroup, made when used
  uint32_t free_registers = 0;                          // given back by setmaxnreg.dec
  std::vector<uint32_t> warpgroup_registers;
  Block();
  ~Block();

  void wake(Thread& t) {
    t.wait = Wait::none;
    runnable.push_back(t.index);
  }
  // Past the instruction it waited at.
  void release(Thread& t) {
    ++t.pc;
    wake(t);
  }
};

struct Cluster {
  std::array<uint32_t, 3> id = {0, 0, 0};
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<AsyncOp> pending;
  uint32_t arrived = 0;  // at the cluster's barrier
  uint64_t phase = 0;
  uint32_t live = 0;      // threads
  uint64_t number = 0;    // in the order of their starts
  uint64_t acquired = 0;  // when one of its threads last acquired at gpu scope
  bool stalled = false;   // others run as long as any of them can
  StoredLines stores;     // to global memory, that no other cluster sees yet
};

class Machine {
 public:
  Machine(const Module& module, const Kernel& kernel, const LaunchConfig& config, const AddressMap& memory,
          const LaunchOptions& options);
  absl::Status run();

  // Errors: the first one stays.
  Step fault(const Thread& t, const Instruction& i, absl::StatusCode code, absl::string_view why);
  bool failed() const { return !status_.ok(); }

  // Collectives: the thread waits until all of `lanes` that have not exited stand at this instruction.
  Step converge(Thread& t, const Instruction& i, uint32_t lanes, Collective action);
  // The same for the 128 threads of a warpgroup, none of which may have exited.
  Step converge_warpgroup(Thread& t, const Instruction& i, Collective action);
  void complete_barrier(Block& block, Barrier& barrier);
  void check_cluster_barrier(Cluster& cluster);

  // An asynchronous copy was issued: now, or when it must, it is performed.
  Step issue(Thread& t, AsyncOp op);
  // Under policy `random` a coin for each operation.
  bool early(AsyncPolicy policy);

  template <typename F>
  void for_clusters(const F& f) {
    for (auto& cluster : resident_) f(*cluster);
  }

  uint64_t random() { return random_(); }
  // Another thread may run now: asked for where the order between threads shows.
  Step maybe_yield() { return (random_() & 3) == 0 ? Step::yield : Step::next; }
  // Behind a fence or an atomic: this cluster may come to a halt while the others go on, which opens the
  // window between a store, its fence and its ticket.
  Step maybe_stall(Cluster& cluster);

  const Module& module;
  const Kernel& kernel;
  const LaunchConfig& config;
  const AddressMap& memory;
  const LaunchOptions& options;
  AsyncPolicy load_policy, store_policy, product_policy, visible_policy;  // of this launch
  Visibility visibility;
  uint64_t time = 1;      // counts events
  uint64_t progress = 0;  // counts what can end another thread's wait
  uint64_t executed = 0;
  uint32_t shared_bytes = 0;  // of a block, from address 0
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
  std::vector<uint64_t> order_;  // cluster ids, in the order in which they start
  size_t started_ = 0;
  uint32_t resident_limit_ = 1, resident_most_ = 1, stalled_ = 0;
  uint64_t progress_seen_ = 0, executed_then_ = 0;
  int idle_rounds_ = 0;
};

// One instruction of a thread with a wgmma in flight (wgmma.cc). True when that was all of it.
bool tracked_instruction(Thread& t, const Instruction& i, Step& step);
// What must be over before a thread ends: copies and products in flight. False: the machine holds an error.
bool check_copies_at_exit(Thread& t, const Instruction& i);
bool check_products_at_exit(Thread& t, const Instruction& i);
Step execute_exit(Thread& t, const Instruction& i);

}  // namespace lathe::ptx
