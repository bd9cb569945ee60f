// Branches, exits, the barriers of a block and of a cluster, fences, and instructions that are only hints.
#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {

Step execute_exit(Thread&, const Instruction&) { return Step::exited; }

namespace {

Step nothing(Thread&, const Instruction&) { return Step::next; }
// flags: Orders.
Step fence(Thread& t, const Instruction& i) {
  order_before(t, i.flags);
  order_after(t, i.flags);
  Machine& machine = *t.block->machine;
  return i.flags == 0 ? machine.maybe_yield() : machine.maybe_stall(*t.block->cluster);
}
Step sleep(Thread&, const Instruction&) { return Step::yield; }
Step proxy_fence(Thread& t, const Instruction&) {
  t.proxy_fence = ++t.block->machine->time;
  return Step::next;
}
Step trap(Thread& t, const Instruction& i) {
  return t.block->machine->fault(t, i, absl::StatusCode::kAborted, "trap");
}

Step branch(Thread& t, const Instruction& i) {
  t.pc = static_cast<uint32_t>(i.imm);
  return Step::jump;
}
Step branch_indexed(Thread& t, const Instruction& i) {
  const uint32_t* table = t.block->machine->kernel.lists.data() + i.imm;
  const uint32_t index = static_cast<uint32_t>(t.r[i.a]);
  if (index >= table[0])
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "the branch index is outside the branch table");
  t.pc = table[1 + index];
  return Step::jump;
}

// a: the barrier number. b: the slot of the thread count, or kNone. c: the predicate of bar.red, or kNone. imm 1:
// arrives without waiting.
Step barrier(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint64_t number = t.r[i.a] & 0xffffffff;
  if (number >= t.block->barriers.size()) {
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("barrier number %u, but a block has 16 barriers", number));
  }
  Barrier& barrier = t.block->barriers[number];
  const uint32_t expected = i.b == kNone ? 0 : static_cast<uint32_t>(t.r[i.b]);
  if (i.b != kNone && (expected == 0 || expected % 32 != 0 || expected > t.block->warps.size() * 32)) {
    return machine.fault(
        t, i, absl::StatusCode::kAborted,
        absl::StrFormat("a barrier for %u threads, but the block has %u", expected, t.block->threads.size()));
  }
  if (barrier.arrived != 0 && barrier.expected != expected) {
    return machine.fault(
        t, i, absl::StatusCode::kAborted,
        absl::StrFormat("barrier %u is used with a thread count of %u and of %u (0 means all)", number,
                        barrier.expected, expected));
  }
  barrier.expected = expected;
  ++barrier.arrived;
  if (i.c != kNone && (t.r[i.c >> 1] & 1) != (i.c & 1)) ++barrier.count;
  const bool arrives_only = i.imm != 0;
  // The hardware counts whole warps: the last warp counts fully even if it has fewer threads.
  const uint32_t complete =
      expected == 0 ? t.block->live : std::min<uint32_t>(expected, t.block->threads.size());
  if (barrier.arrived > complete) {
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("more than %u threads arrived at barrier %u", complete, number));
  }
  if (!arrives_only) {
    barrier.waiting.push_back(&t);
    t.wait = Wait::barrier;
  }
  if (barrier.arrived == complete) {
    machine.complete_barrier(*t.block, barrier);
    if (!arrives_only) return Step::blocked;  // complete_barrier() has released this thread too
  }
  return arrives_only ? Step::next : Step::blocked;
}

Step warp_barrier(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[i.a]),
                                    [](Thread&, const Instruction&, uint32_t) { return Step::next; });
}

Step cluster_arrive(Thread& t, const Instruction& i) {
  if (t.cluster_arrived)
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted, "arrives at the cluster barrier twice");
  t.cluster_arrived = true;
  t.cluster_phase = t.block->cluster->phase;
  t.cluster_waits = true;
  ++t.block->cluster->arrived;
  t.block->machine->check_cluster_barrier(*t.block->cluster);
  return t.block->machine->maybe_yield();
}
Step cluster_wait(Thread& t, const Instruction& i) {
  if (!t.cluster_waits) {
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "waits at the cluster barrier without having arrived");
  }
  t.cluster_waits = false;
  if (t.block->cluster->phase != t.cluster_phase) return Step::next;
  t.wait = Wait::cluster;
  return Step::blocked;
}

// setmaxnreg. imm: the register count. flags 1: inc. The last warp of the warpgroup to arrive executes it for all.
Step set_registers(Thread& t, const Instruction& i) {
  return t.block->machine->converge_warpgroup(t, i, [](Thread& last, const Instruction& at, uint32_t) {
    Block& block = *last.block;
    Machine& machine = *block.machine;
    uint32_t& mine = block.warpgroup_registers[last.warp / 4];
    const uint32_t wanted = static_cast<uint32_t>(at.imm);
    if (at.flags != 0) {
      if (wanted < mine) {
        return machine.fault(last, at, absl::StatusCode::kAborted,
                             absl::StrFormat("setmaxnreg.inc to fewer registers than the current %u", mine));
      }
      if ((wanted - mine) * 128 > block.free_registers) {
        // Other warpgroups may still release registers; their setmaxnreg.dec wakes these threads.
        for (uint32_t n = 0; n < 128; ++n) block.threads[last.warp / 4 * 128 + n].wait = Wait::registers;
        return Step::blocked;
      }
      block.free_registers -= (wanted - mine) * 128;
      mine = wanted;
      return Step::next;
    }
    if (wanted > mine) {
      return machine.fault(last, at, absl::StatusCode::kAborted,
                           absl::StrFormat("setmaxnreg.dec to more registers than the current %u", mine));
    }
    block.free_registers += (mine - wanted) * 128;
    mine = wanted;
    for (Thread& other : block.threads) {
      if (other.wait == Wait::registers) block.wake(other);  // tries again
    }
    return Step::next;
  });
}

}  // namespace

void decode_nothing(Decoder& d) {
  d.take_all();
  for (size_t n = 0; n < d.operand_count(); ++n) d.operand(n);
  d.run(nothing);
}

// The policy is an opaque value that only hints read, so it is not computed.
void decode_createpolicy(Decoder& d) {
  d.take_all();
  for (size_t n = 1; n < d.operand_count(); ++n) d.operand(n);
  d.out().d = d.destination(0);
  d.run(nothing);
}

void decode_bra(Decoder& d) {
  d.take("uni");
  d.expect_operands(1);
  d.fixups.push_back({0, d.operand(0).text});
  d.run(branch);
}
void decode_brx(Decoder& d) {
  d.take("idx");
  d.take("uni");
  d.out().a = d.source(0, Type::u32);
  const Operand& targets = d.operand(1);
  if (targets.symbol.kind != Symbol::targets)
    return d.fail("the branch table must be declared before the branch");
  d.out().imm = static_cast<int64_t>(targets.symbol.value);
  d.run(branch_indexed);
}
void decode_exit(Decoder& d) {
  d.take("uni");
  d.run(execute_exit);
}
void decode_trap(Decoder& d) { d.run(trap); }

void decode_bar(Decoder& d) {
  if (d.take("warp")) {
    d.take("sync");
    d.out().a = d.source(0, Type::u32);
    return d.run(warp_barrier);
  }
  if (d.take("cluster")) {
    const int action = d.take_one_of({"arrive", "wait"});
    d.take_one_of({"acquire", "release", "relaxed"});
    d.take("aligned");
    return d.run(action == 0 ? cluster_arrive : cluster_wait);
  }
  d.take("cta");
  const int action = d.take_one_of({"sync", "arrive", "red"});
  d.take("aligned");
  d.out().b = d.out().c = d.out().d = kNone;
  size_t next = 0;
  if (action == 2) {
    const int op = d.take_one_of({"popc", "and", "or"});
    d.take_optional_type();
    d.out().d = d.destination(next++);
    d.out().c = d.predicate(d.operand_count() - 1);
    d.out().flags = static_cast<uint16_t>(op);
  }
  d.out().a = d.source(next++, Type::u32);
  if (d.operand_count() - (action == 2 ? 1 : 0) > next) d.out().b = d.source(next, Type::u32);
  d.out().imm = action == 1;
  d.run(action < 0 ? nullptr : barrier);
}

void decode_fence(Decoder& d) {
  if (d.take("proxy")) {
    if (d.take("async") || d.take("async::generic")) {
      d.take_one_of({"global", "shared::cta", "shared::cluster"});
      d.take_all();
      for (size_t n = 0; n < d.operand_count(); ++n) d.operand(n);
      return d.run(proxy_fence);
    }
    if (d.take("alias")) return d.run(nothing);
    if (d.take("tensormap::generic")) return decode_nothing(d);
    return d.fail("this kind of proxy fence is not supported");
  }
  // fence.mbarrier_init.release.cluster and fence.acquire.sync_restrict::shared::cluster.cluster have cluster scope.
  const bool initial = d.take("mbarrier_init");
  const bool of_cluster = !d.take_prefix("sync_restrict").empty() || initial;
  const Order order = take_order(d);
  const int orders = order.named  ? order.orders
                     : order.wide ? kAcquire | kRelease
                                  : 0;  // membar has no order modifier: it does both
  d.out().flags = static_cast<uint16_t>(of_cluster ? 0 : orders);
  d.run(fence);
}
void decode_nanosleep(Decoder& d) {
  d.take_type();
  d.source(0, Type::u32);
  d.run(sleep);
}
void decode_griddepcontrol(Decoder& d) {
  if (d.take_one_of({"wait", "launch_dependents"}) < 0) return d.fail("neither wait nor launch_dependents");
  d.run(nothing);
}

void decode_setmaxnreg(Decoder& d) {
  const int direction = d.take_one_of({"inc", "dec"});
  d.take("sync");
  if (!d.take("aligned")) return d.fail(".aligned is missing");
  d.take_type();
  d.out().imm = d.immediate(0);
  d.out().flags = direction == 0;
  if (d.out().imm < 24 || d.out().imm > 256 || d.out().imm % 8 != 0)
    return d.fail("the register count must be 24 to 256 in steps of 8");
  const Kernel& kernel = *d.builder().kernel;
  if (kernel.required_block[0] == 0 && kernel.max_block[0] == 0) {
    return d.fail("needs .reqntid or .maxntid: the assembler drops it otherwise");
  }
  d.run(set_registers);
}

}  // namespace lathe::ptx
