#include "tests/gpu/emulator/ptx/machine.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/gpu/emulator/ptx/async_copy.h"
#include "tests/gpu/emulator/ptx/tcgen05.h"
#include "tests/gpu/emulator/ptx/wgmma.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kThreadLimit = 1024, kClusterLimit = 16;
constexpr uint64_t kRegistersOfMultiprocessor = 65536;
// Blocks that run interleaved at first. Few of them, so that their registers stay in the cache; run() admits more
// when all of these wait.
constexpr uint32_t kResidentBlocks = 8;

uint64_t product(const std::array<uint32_t, 3>& dims) { return uint64_t{dims[0]} * dims[1] * dims[2]; }

std::array<uint32_t, 3> unflatten(uint64_t index, const std::array<uint32_t, 3>& dims) {
  return {static_cast<uint32_t>(index % dims[0]), static_cast<uint32_t>(index / dims[0] % dims[1]),
          static_cast<uint32_t>(index / dims[0] / dims[1])};
}

}  // namespace

Thread::Thread() = default;
Thread::Thread(Thread&&) noexcept = default;
Thread::~Thread() = default;
Block::Block() = default;
Block::~Block() = default;

absl::Status launch(const Module& module, const Kernel& kernel, const LaunchConfig& config,
                    const AddressMap& memory, const LaunchOptions& options, LaunchCounts* counts) {
  Machine machine(module, kernel, config, memory, options);
  absl::Status status = machine.run();
  if (counts != nullptr) *counts = {machine.executed, product(config.grid)};
  return status;
}

Machine::Machine(const Module& the_module, const Kernel& the_kernel, const LaunchConfig& the_config,
                 const AddressMap& the_memory, const LaunchOptions& the_options)
    : module(the_module),
      kernel(the_kernel),
      config(the_config),
      memory(the_memory),
      options(the_options),
      visibility(*this),
      random_(the_options.seed) {
  // Under `random` each kind of operation draws its own policy: late products together with early copies show that a
  // buffer is refilled too early.
  const auto draw = [&] {
    if (options.async != AsyncPolicy::random) return options.async;
    return static_cast<AsyncPolicy>(random_() % 3);
  };
  load_policy = draw();
  store_policy = draw();
  product_policy = draw();
  visible_policy = draw();
}

bool Machine::early(AsyncPolicy policy) {
  return policy == AsyncPolicy::early || (policy == AsyncPolicy::random && (random_() & 1) != 0);
}

absl::Status Machine::check_config() {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("launch of ", kernel.name, ": ", why));
  };
  const auto text = [](const std::array<uint32_t, 3>& d) { return absl::StrCat(d[0], "x", d[1], "x", d[2]); };
  const uint64_t threads = product(config.block);
  if (product(config.grid) == 0 || threads == 0) return refuse("an empty grid or block");
  if (config.grid[1] > 65535 || config.grid[2] > 65535)
    return refuse(absl::StrCat("grid ", text(config.grid)));
  if (threads > kThreadLimit || config.block[2] > 64)
    return refuse(absl::StrCat("block ", text(config.block)));
  if (kernel.required_block[0] != 0 && kernel.required_block != config.block) {
    return refuse(absl::StrCat("block ", text(config.block), ", but .reqntid ", text(kernel.required_block)));
  }
  if (kernel.max_block[0] != 0 && threads > product(kernel.max_block)) {
    return refuse(absl::StrCat(threads, " threads, but .maxntid ", text(kernel.max_block)));
  }
  cluster_dims = kernel.cluster[0] != 0   ? kernel.cluster
                 : config.cluster[0] != 0 ? config.cluster
                                          : cluster_dims;
  if (config.cluster[0] != 0 && cluster_dims != config.cluster) {
    return refuse(
        absl::StrCat("cluster ", text(config.cluster), ", but .reqnctapercluster ", text(kernel.cluster)));
  }
  if (product(cluster_dims) == 0 || product(cluster_dims) > kClusterLimit)
    return refuse(absl::StrCat("cluster ", text(cluster_dims)));
  for (int i = 0; i < 3; ++i) {
    if (config.grid[i] % cluster_dims[i] != 0) {
      return refuse(
          absl::StrCat("grid ", text(config.grid), " is not a multiple of the cluster ", text(cluster_dims)));
    }
  }
  const uint32_t align = kernel.dynamic_align;
  dynamic_base = (kernel.static_shared + align - 1) / align * align;
  shared_bytes = dynamic_base + config.dynamic_shared;
  if (shared_bytes - kSharedBase > options.shared_limit) {
    return refuse(absl::StrCat(shared_bytes - kSharedBase,
                               " bytes of shared memory requested, but the limit is ", options.shared_limit));
  }
  if (config.parameters.size() < kernel.parameter_bytes) {
    return refuse(absl::StrCat(config.parameters.size(), " bytes of parameters given, but the kernel has ",
                               kernel.parameter_bytes));
  }
  return absl::OkStatus();
}

absl::Status Machine::run() {
  if (absl::Status status = check_config(); !status.ok()) return status;
  const uint64_t clusters = product(config.grid) / product(cluster_dims);
  order_.resize(clusters);
  std::iota(order_.begin(), order_.end(), 0);
  std::shuffle(order_.begin(), order_.end(), random_);
  const uint64_t blocks = product(cluster_dims);
  const uint64_t by_threads = std::max<uint64_t>(1, 2048 / product(config.block));
  const uint64_t by_shared = std::max<uint64_t>(1, 233472 / std::max<uint64_t>(shared_bytes, 1));
  resident_most_ = static_cast<uint32_t>(
      std::max<uint64_t>(1, options.multiprocessors * std::min(by_threads, by_shared) / blocks));
  resident_limit_ =
      std::min(resident_most_, static_cast<uint32_t>(std::max<uint64_t>(1, kResidentBlocks / blocks)));
  admit();
  while (status_.ok() && !resident_.empty()) {
    if (stalled_ > 0 && (random_() & 31) == 0) end_stalls();
    bool ran = run_some();
    if (!ran && stalled_ > 0 && status_.ok()) {
      end_stalls();
      ran = run_some();
    }
    if (!status_.ok() || resident_.empty()) break;
    const bool spinning = ran && progress == progress_seen_ && executed - executed_then_ > (1 << 21);
    if (progress != progress_seen_) {
      progress_seen_ = progress;
      executed_then_ = executed;
      idle_rounds_ = 0;
    }
    if (spinning) {
      for (auto& cluster : resident_) complete_pending(*cluster, false);
      visibility.show_all();
      end_stalls();
      if (resident_limit_ < resident_most_ && started_ < order_.size()) {
        resident_limit_ = std::min(resident_most_, resident_limit_ * 2);
        admit();
      }
      if (executed - executed_then_ > options.patience && status_.ok()) status_ = deadlock("livelock");
    }
    if (!ran && !idle()) status_ = deadlock("deadlock");
  }
  visibility.show_all();
  return status_;
}

// Runs a burst of one cluster, drawn from those that can run. False if none can.
bool Machine::run_some() {
  if (resident_.empty()) return false;
  const size_t first = random_() % resident_.size();
  for (size_t i = 0; i < resident_.size() && status_.ok(); ++i) {
    const size_t position = (first + i) % resident_.size();
    Cluster& cluster = *resident_[position];
    if (cluster.stalled) continue;
    const bool ran = run_burst(cluster) || complete_pending(cluster, true);
    if (cluster.live == 0 && status_.ok()) retire(position);
    if (ran) return true;
  }
  return false;
}

Step Machine::maybe_stall(Cluster& cluster) {
  if (visible_policy != AsyncPolicy::early && !cluster.stalled && stalled_ * 2 < resident_.size() &&
      (random_() & 3) == 0) {
    cluster.stalled = true;
    ++stalled_;
    return Step::yield;
  }
  return maybe_yield();
}

void Machine::end_stalls() {
  for (auto& cluster : resident_) cluster->stalled = false;
  stalled_ = 0;
}

// Called when no thread can run: completes a copy that nobody waits for, admits more blocks, or fails pending polls.
bool Machine::idle() {
  for (auto& cluster : resident_) {
    if (complete_pending(*cluster, false)) return true;
  }
  if (resident_limit_ < resident_most_ && started_ < order_.size()) {
    resident_limit_ = std::min(resident_most_, resident_limit_ * 2);
    admit();
    return true;
  }
  return ++idle_rounds_ < 4 && wake_polls();
}

bool Machine::wake_polls() {
  bool any = false;
  for (auto& cluster : resident_) {
    for (auto& block : cluster->blocks) {
      for (auto& [address, barrier] : block->mbarriers) {
        for (Thread* t : barrier->waiters) {
          t->wait_failed = true;
          block->wake(*t);
          any = true;
        }
        barrier->waiters.clear();
      }
    }
  }
  return any;
}

void Machine::admit() {
  while (resident_.size() < resident_limit_ && started_ < order_.size()) {
    auto cluster = std::make_unique<Cluster>();
    const std::array<uint32_t, 3> clusters = {
        config.grid[0] / cluster_dims[0], config.grid[1] / cluster_dims[1], config.grid[2] / cluster_dims[2]};
    cluster->id = unflatten(order_[started_++], clusters);
    cluster->number = started_;
    for (uint32_t rank = 0; rank < product(cluster_dims); ++rank) {
      cluster->blocks.push_back(std::make_unique<Block>());
      start_block(*cluster->blocks.back(), *cluster, rank);
    }
    resident_.push_back(std::move(cluster));
  }
}

void Machine::start_block(Block& block, Cluster& cluster, uint32_t rank) {
  const uint32_t count = static_cast<uint32_t>(product(config.block));
  block.machine = this;
  block.cluster = &cluster;
  block.rank = rank;
  const auto within = unflatten(rank, cluster_dims);
  for (int i = 0; i < 3; ++i) block.id[i] = cluster.id[i] * cluster_dims[i] + within[i];
  block.shared.assign(shared_bytes, 0xff);  // a NaN in every format
  block.written.assign(shared_bytes / 16 + 1, 0);
  const size_t slots = kernel.registers.size();
  block.registers.resize(slots * count);
  block.threads.resize(count);
  block.warps.resize((count + 31) / 32);
  block.live = count;
  cluster.live += count;
  const uint32_t grid_registers = static_cast<uint32_t>(
      std::min<uint64_t>(255, kRegistersOfMultiprocessor / count / std::max(1u, kernel.min_blocks)) / 8 * 8);
  block.warpgroup_registers.assign((count + 127) / 128, grid_registers);
  std::vector<uint64_t> image = kernel.registers;
  const uint64_t smid = (started_ * 7 + rank) % options.multiprocessors;
  for (int i = 0; i < 3; ++i) {
    image[kNtidX + i] = config.block[i];
    image[kCtaidX + i] = block.id[i];
    image[kNctaidX + i] = config.grid[i];
    image[kClusteridX + i] = cluster.id[i];
    image[kNclusteridX + i] = config.grid[i] / cluster_dims[i];
    image[kClusterCtaidX + i] = within[i];
    image[kClusterNctaidX + i] = cluster_dims[i];
  }
  image[kNwarpid] = block.warps.size();
  image[kSmid] = smid;
  image[kNsmid] = options.multiprocessors;
  image[kGridid] = 1;
  image[kClusterCtarank] = rank;
  image[kClusterNctarank] = product(cluster_dims);
  image[kIsExplicitCluster] = product(cluster_dims) > 1;
  image[kDynamicSmemSize] = config.dynamic_shared;
  image[kTotalSmemSize] = image[kAggrSmemSize] = shared_bytes;
  for (uint32_t index = 0; index < count; ++index) {
    Thread& t = block.threads[index];
    t.block = &block;
    t.index = static_cast<uint16_t>(index);
    t.lane = index % 32;
    t.warp = static_cast<uint8_t>(index / 32);
    block.warps[t.warp].live |= 1u << t.lane;
    const auto tid = unflatten(index, config.block);
    for (int i = 0; i < 3; ++i) image[kTidX + i] = tid[i];
    image[kLaneid] = t.lane;
    image[kWarpid] = t.warp;
    image[kLanemaskEq] = 1u << t.lane;
    image[kLanemaskLt] = (1u << t.lane) - 1;
    image[kLanemaskLe] = image[kLanemaskLt] | image[kLanemaskEq];
    image[kLanemaskGt] = ~static_cast<uint32_t>(image[kLanemaskLe]);
    image[kLanemaskGe] = ~static_cast<uint32_t>(image[kLanemaskLt]);
    t.r = block.registers.data() + slots * index;
    std::copy(image.begin(), image.end(), t.r);
    block.runnable.push_back(t.index);
  }
}

// Gives threads of one cluster some turns, in random order. False if none can run.
bool Machine::run_burst(Cluster& cluster) {
  bool ran = false;
  for (int turn = 0; turn < 64 && status_.ok() && !cluster.stalled; ++turn) {
    const size_t blocks = cluster.blocks.size();
    Block* block = nullptr;
    const size_t first = blocks == 1 ? 0 : random_() % blocks;
    for (size_t i = 0; i < blocks && block == nullptr; ++i) {
      Block* candidate = cluster.blocks[(first + i) % blocks].get();
      if (!candidate->runnable.empty()) block = candidate;
    }
    if (block == nullptr) break;
    const size_t pick = random_() % block->runnable.size();
    std::swap(block->runnable[pick], block->runnable.back());
    Thread& t = block->threads[block->runnable.back()];
    block->runnable.pop_back();
    if (!run_thread(t)) return true;
    ran = true;
    if (load_policy == AsyncPolicy::random && !cluster.pending.empty() && (random_() & 7) == 0)
      complete_pending(cluster, false);
  }
  return ran;
}

// Runs the thread until it waits, exits or has used its turn. False after an error.
bool Machine::run_thread(Thread& t) {
  const Instruction* code = kernel.code.data();
  const uint64_t turn = 64 + (random_() & 4095);
  uint64_t left = turn;
  Step step = Step::next;
  while (left > 0) {
    --left;
    const Instruction& i = code[t.pc];
    if (i.guard != kNone && (t.r[i.guard >> 1] & 1) == (i.guard & 1)) {
      ++t.pc;
      continue;
    }
    if (!t.tracked || !tracked_instruction(t, i, step)) step = i.run(t, i);
    if (step == Step::next) {
      ++t.pc;
    } else if (step == Step::yield) {
      ++t.pc;
      break;
    } else if (step != Step::jump) {
      break;
    }
  }
  executed += turn - left;
  if (step == Step::exited) step = exit_thread(t);
  if (step == Step::next || step == Step::jump || step == Step::yield) t.block->runnable.push_back(t.index);
  return step != Step::fault;
}

Step Machine::exit_thread(Thread& t) {
  const Instruction& i = kernel.code[t.pc];
  if (!check_copies_at_exit(t, i) || !check_products_at_exit(t, i) || !check_tensor_memory_at_exit(t, i))
    return Step::fault;
  ++progress;
  Block& block = *t.block;
  t.wait = Wait::exited;
  --block.live;
  --block.cluster->live;
  if (t.cluster_arrived) --block.cluster->arrived;
  block.warps[t.warp].live &= ~(1u << t.lane);
  // Threads that wait for this one must not wait any longer.
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (((block.warps[t.warp].live >> lane) & 1) == 0) continue;
    Thread& other = block.threads[t.warp * 32 + lane];
    if (other.wait != Wait::warp) continue;
    const Instruction& at = kernel.code[other.pc];
    const Step step = converge(other, at, other.lanes, other.action);
    if (step == Step::fault) return step;
    if (step == Step::next) block.release(other);
  }
  for (Barrier& barrier : block.barriers) {
    if (barrier.expected == 0 && !barrier.waiting.empty() && barrier.arrived >= block.live)
      complete_barrier(block, barrier);
  }
  check_cluster_barrier(*block.cluster);
  return Step::exited;
}

// Removes a cluster whose threads have all exited. A copy still in flight into its shared memory is an error: on the
// hardware it could hit the shared memory of another block.
bool Machine::retire(size_t position) {
  Cluster& cluster = *resident_[position];
  if (!cluster.pending.empty()) {
    const auto& id = cluster.blocks[0]->id;
    status_ =
        absl::AbortedError(absl::StrFormat("kernel %s: block (%u, %u, %u) or its cluster ended with %u "
                                           "asynchronous copies in flight that nobody waited for",
                                           kernel.name, id[0], id[1], id[2], cluster.pending.size()));
    return false;
  }
  visibility.leave(cluster);
  std::swap(resident_[position], resident_.back());
  resident_.pop_back();
  ++progress;
  admit();
  return true;
}

Step Machine::fault(const Thread& t, const Instruction& i, absl::StatusCode code, absl::string_view why) {
  if (status_.ok()) {
    const auto& b = t.block->id;
    const auto tid = unflatten(t.index, config.block);
    status_ = absl::Status(
        code, absl::StrFormat("kernel %s, block (%u, %u, %u), thread (%u, %u, %u), ptx line %d: %s: %s",
                              kernel.name, b[0], b[1], b[2], tid[0], tid[1], tid[2], i.line, why,
                              module.line(i.line)));
  }
  return Step::fault;
}

Step Machine::converge(Thread& t, const Instruction& i, uint32_t lanes, Collective action) {
  if (((lanes >> t.lane) & 1) == 0) {
    return fault(t, i, absl::StatusCode::kAborted,
                 absl::StrFormat("the lane mask 0x%x does not contain the executing lane %u", lanes, t.lane));
  }
  t.wait = Wait::warp;
  t.lanes = lanes;
  t.action = action;
  const uint32_t live = lanes & t.block->warps[t.warp].live;
  Thread* warp = &t.block->threads[t.warp * 32];
  for (uint32_t rest = live; rest != 0; rest &= rest - 1) {
    const Thread& other = warp[__builtin_ctz(rest)];
    if (other.wait != Wait::warp || other.pc != t.pc || other.lanes != lanes) return Step::blocked;
  }
  const Step step = action(t, i, live);
  if (step != Step::next) return step;
  t.wait = Wait::none;
  for (uint32_t rest = live & ~(1u << t.lane); rest != 0; rest &= rest - 1)
    t.block->release(warp[__builtin_ctz(rest)]);
  return Step::next;
}

Step Machine::converge_warpgroup(Thread& t, const Instruction& i, Collective action) {
  Block& block = *t.block;
  const uint32_t first = t.warp / 4 * 128;
  if (first + 128 > block.threads.size()) {
    return fault(t, i, absl::StatusCode::kAborted, "the warpgroup has fewer than 128 threads");
  }
  t.wait = Wait::warpgroup;
  for (uint32_t index = first; index < first + 128; ++index) {
    const Thread& other = block.threads[index];
    if (other.wait == Wait::exited)
      return fault(t, i, absl::StatusCode::kAborted, "a thread of the warpgroup has exited");
    if (other.wait != Wait::warpgroup || other.pc != t.pc) return Step::blocked;
  }
  const Step step = action(t, i, ~0u);
  if (step != Step::next) return step;
  t.wait = Wait::none;
  for (uint32_t index = first; index < first + 128; ++index) {
    if (index != t.index) block.release(block.threads[index]);
  }
  return Step::next;
}

// Wakes the waiting threads and writes the result of bar.red.
void Machine::complete_barrier(Block& block, Barrier& barrier) {
  ++progress;
  for (Thread* t : barrier.waiting) {
    const Instruction& i = kernel.code[t->pc];
    if (i.d != kNone) {  // bar.red: popc, and, or
      t->r[i.d] = i.flags == 0   ? barrier.count
                  : i.flags == 1 ? barrier.count == barrier.arrived
                                 : barrier.count != 0;
    }
    block.release(*t);
  }
  barrier.arrived = barrier.expected = barrier.count = 0;
  barrier.waiting.clear();
}

void Machine::check_cluster_barrier(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live) return;
  ++progress;
  ++cluster.phase;
  cluster.arrived = 0;
  for (auto& block : cluster.blocks) {
    for (Thread& t : block->threads) {
      t.cluster_arrived = false;
      if (t.wait == Wait::cluster) block->release(t);
    }
  }
}

Step Machine::issue(Thread& t, AsyncOp op) {
  if (early(load_policy)) return op.perform() ? Step::next : Step::fault;
  t.block->cluster->pending.push_back(std::move(op));
  return Step::next;
}

// Performs one copy into the cluster, drawn from all or only from those with a thread waiting at their mbarrier.
bool Machine::complete_pending(Cluster& cluster, bool only_awaited) {
  if (cluster.pending.empty()) return false;
  const size_t count = cluster.pending.size(), first = random_() % count;
  for (size_t i = 0; i < count; ++i) {
    const size_t position = (first + i) % count;
    AsyncOp& op = cluster.pending[position];
    if (only_awaited) {
      const auto barrier = op.signal_block->mbarriers.find(op.signal);
      if (barrier == op.signal_block->mbarriers.end() || barrier->second->waiters.empty()) continue;
    }
    AsyncOp chosen = std::move(op);
    cluster.pending.erase(cluster.pending.begin() + position);
    ++progress;
    chosen.perform();
    return true;
  }
  return false;
}

absl::Status Machine::deadlock(absl::string_view kind) const {
  static constexpr const char* kWaits[] = {"runs",
                                           "waits for lanes of its warp",
                                           "waits for its warpgroup",
                                           "waits at a barrier",
                                           "waits at the cluster barrier",
                                           "waits for an mbarrier",
                                           "waits for registers",
                                           "exited"};
  std::string text = absl::StrCat("kernel ", kernel.name, ": ", kind, ":");
  int lines = 0;
  for (const auto& cluster : resident_) {
    for (const auto& block : cluster->blocks) {
      for (size_t first = 0; first < block->threads.size();) {
        const Thread& t = block->threads[first];
        size_t last = first;
        while (last + 1 < block->threads.size() && block->threads[last + 1].wait == t.wait &&
               (t.wait == Wait::exited || block->threads[last + 1].pc == t.pc)) {
          ++last;
        }
        if (++lines <= 48) {
          const Instruction& i = kernel.code[t.pc];
          absl::StrAppend(&text, absl::StrFormat("\n  block (%u, %u, %u) threads %u to %u: %s", block->id[0],
                                                 block->id[1], block->id[2], first, last,
                                                 kWaits[static_cast<int>(t.wait)]));
          if (t.wait != Wait::exited)
            absl::StrAppend(&text, ", ptx line ", i.line, ": ", module.line(i.line));
        }
        first = last + 1;
      }
      for (const auto& [address, barrier] : block->mbarriers) {
        if (barrier->waiters.empty() || ++lines > 64) continue;
        absl::StrAppend(
            &text,
            absl::StrFormat(
                "\n  block (%u, %u, %u) mbarrier at %u: phase %u, %u of %u arrivals and %d bytes missing",
                block->id[0], block->id[1], block->id[2], address, barrier->phase, barrier->pending,
                barrier->expected, barrier->transactions));
      }
    }
  }
  return absl::DeadlineExceededError(text);
}

}  // namespace lathe::ptx
