// cp.async and its groups, st.async and red.async, and the groups of bulk copies.
#include "tests/gpu/emulator/ptx/async_copy.h"

#include "tests/gpu/emulator/ptx/mbarrier.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {

ThreadCopies& copies_of(Thread& t) {
  if (t.copies == nullptr) t.copies = std::make_unique<ThreadCopies>();
  return *t.copies;
}

Block* shared_place(Thread& t, const Instruction& i, uint64_t address, uint32_t alignment, uint32_t& offset) {
  if (address >> 32 != 0) {
    t.block->machine->fault(t, i, absl::StatusCode::kOutOfRange,
                            absl::StrFormat("0x%x is not a shared address", address));
    return nullptr;
  }
  offset = shared_offset(address);
  if (offset % alignment != 0) {
    refuse_alignment(t, i, offset, alignment);
    return nullptr;
  }
  return shared_block(t, i, address);
}

namespace {

bool perform_copies(ThreadCopies& copies, uint64_t before_group, uint64_t up_to_number) {
  while (!copies.copies.empty()) {
    PendingCopy& copy = copies.copies.front();
    if (copy.group >= before_group && copy.number > up_to_number) return true;
    const auto perform = std::move(copy.perform);
    copies.copies.pop_front();
    if (!perform()) return false;
  }
  return true;
}

// b: the slot of the source address. imm: the target's offset. The list: the slot of the source's offset, cp-size, the
// slot of src-size or kNone, the predicate that ignores the source or kNone.
Step copy_async(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  const uint32_t size = list[1];
  uint32_t source_size = list[2] == kNone ? size : static_cast<uint32_t>(t.r[list[2]]);
  if (list[3] != kNone && (t.r[list[3] >> 1] & 1) != (list[3] & 1)) source_size = 0;
  const uint64_t source = t.r[i.b] + t.r[list[0]];
  if (source_size > size)
    return machine.fault(t, i, absl::StatusCode::kAborted, "src-size is larger than cp-size");
  if (source % size != 0) return refuse_alignment(t, i, source, size), Step::fault;
  if (source_size != 0 && global_range(t, i, source, source_size, Access::read) == nullptr)
    return Step::fault;
  uint32_t offset = 0;
  Block* block = shared_place(t, i, t.r[i.a] + i.imm, size, offset);
  if (block == nullptr) return Step::fault;
  if (block != t.block)
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         "cp.async can write only the shared memory of its own block");
  uint8_t* target = shared_range(t, i, *block, offset, size);
  if (target == nullptr) return Step::fault;
  const auto perform = [&t, &i, block, target, offset, source, size, source_size] {
    std::memset(target, 0, size);
    if (source_size != 0) {
      const uint8_t* from = global_range(t, i, source, source_size, Access::read);
      if (from == nullptr) return false;
      std::memcpy(target, from, source_size);
    }
    note_shared_write(t, *block, offset, size);
    return true;
  };
  if (machine.early(machine.load_policy)) return perform() ? Step::next : Step::fault;
  ThreadCopies& copies = copies_of(t);
  copies.copies.push_back({copies.copy_group, ++copies.issued, perform});
  return Step::next;
}

Step commit_copies(Thread& t, const Instruction&) {
  ++copies_of(t).copy_group;
  return Step::next;
}
// imm: the number of groups that may stay in flight; -1 waits for all copies.
Step wait_copies(Thread& t, const Instruction& i) {
  ThreadCopies& copies = copies_of(t);
  if (i.imm < 0) return perform_copies(copies, UINT64_MAX, UINT64_MAX) ? Step::next : Step::fault;
  const uint64_t stay = static_cast<uint64_t>(i.imm);
  if (copies.copy_group <= stay) return Step::next;
  return perform_copies(copies, copies.copy_group - stay, 0) ? Step::next : Step::fault;
}

// flags: 1 .noinc
Step arrive_after_copies(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = shared_place(t, i, without_window(t.r[i.a]) + i.imm, 8, offset);
  if (block == nullptr) return Step::fault;
  Mbarrier* barrier = find_mbarrier(t, i, *block, offset);
  if (barrier == nullptr) return Step::fault;
  if (i.flags == 0) ++barrier->pending;
  const uint64_t number = copies_of(t).issued;
  AsyncOp op;
  op.target = op.signal_block = block;
  op.signal = offset;
  op.perform = [&t, &i, block, offset, number] {
    return perform_copies(copies_of(t), 0, number) && arrive(t, i, *block, offset, 1);
  };
  return t.block->machine->issue(t, std::move(op));
}

Step commit_stores(Thread& t, const Instruction&) {
  ++copies_of(t).store_group;
  return Step::next;
}
// imm: the number of groups that may stay in flight. flags 1: waits for the reads only.
Step wait_stores(Thread& t, const Instruction& i) {
  ThreadCopies& copies = copies_of(t);
  const uint64_t stay = static_cast<uint64_t>(i.imm);
  if (copies.store_group <= stay) return Step::next;
  const uint64_t before = copies.store_group - stay;
  for (PendingStore& store : copies.stores) {
    if (store.group >= before) break;
    if (!store.was_read && !store.read()) return Step::fault;
    store.was_read = true;
  }
  while (i.flags == 0 && !copies.stores.empty() && copies.stores.front().group < before) {
    if (!copies.stores.front().write()) return Step::fault;
    copies.stores.pop_front();
  }
  return Step::next;
}

// st.async and red.async. b: the slot of the mbarrier's address. The list: the slot of its offset, then the values.
// flags: the size of a value | reduction << 4 | type << 8. c != 0: red.async.
Step store_async(Thread& t, const Instruction& i) {
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  const uint32_t size = i.flags & 15, count = i.count - 1u;
  const Reduction reduction = static_cast<Reduction>((i.flags >> 4) & 15);
  const Type type = static_cast<Type>(i.flags >> 8);
  uint32_t offset = 0, signal = 0;
  Block* block = shared_place(t, i, t.r[i.a] + i.imm, size * count, offset);
  Block* signal_block = block == nullptr ? nullptr : shared_place(t, i, t.r[i.b] + t.r[list[0]], 8, signal);
  if (signal_block == nullptr) return Step::fault;
  if (signal_block != block)
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "target and mbarrier are in different blocks");
  if (shared_range(t, i, *block, offset, size * count) == nullptr ||
      find_mbarrier(t, i, *block, signal) == nullptr)
    return Step::fault;
  std::array<uint8_t, 16> bytes;
  for (uint32_t n = 0; n < count; ++n) std::memcpy(&bytes[n * size], &t.r[list[1 + n]], size);
  AsyncOp op;
  op.target = op.signal_block = block;
  op.signal = signal;
  op.perform = [&t, &i, block, offset, signal, bytes, total = size * count, reduction, type] {
    uint8_t* target = block->shared.data() + offset;
    if (reduction == Reduction::none) {
      std::memcpy(target, bytes.data(), total);
    } else {
      reduce_bytes(reduction, type, target, bytes.data(), total);
    }
    return complete_transactions(t, i, *block, signal, total);
  };
  return t.block->machine->issue(t, std::move(op));
}

void decode_async_store(Decoder& d, Reduction reduction) {
  d.take("weak");
  d.take_one_of({"relaxed"});
  d.take("cluster");
  d.take("mbarrier::complete_tx::bytes");
  d.take("shared::cluster");
  const int vector = d.take_one_of({"v2", "v4"});
  const Type type = d.take_type();
  const Address place = d.address(0), barrier = d.address(2);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().b = barrier.base;
  d.append(d.builder().constant(static_cast<uint64_t>(barrier.offset)));
  d.append_sources(1, type);
  const size_t width = d.is_vector(1) ? d.operand(1).elements.size() : 1;
  if (width != (vector < 0 ? 1u : 2u << vector)) return d.fail("the vector width does not match the source");
  d.out().flags =
      static_cast<uint16_t>(type_size(type) | static_cast<int>(reduction) << 4 | static_cast<int>(type) << 8);
  d.run(store_async);
}

void decode_copy(Decoder& d) {
  d.take_one_of({"ca", "cg"});
  if (!d.take("shared") && !d.take("shared::cta")) return d.fail("the target must be in shared memory");
  if (!d.take("global")) return d.fail("the source must be in global memory");
  const bool hinted = take_cache_hints(d);
  const Address target = d.address(0), source = d.address(1);
  const int64_t size = d.immediate(2);
  if (size != 4 && size != 8 && size != 16) return d.fail("cp-size must be 4, 8 or 16");
  d.out().a = target.base;
  d.out().imm = target.offset;
  d.out().b = source.base;
  d.append(d.builder().constant(static_cast<uint64_t>(source.offset)));
  d.append(static_cast<uint32_t>(size));
  const size_t end = d.operand_count() - (hinted ? 1 : 0);
  if (hinted) d.operand(end);
  const bool ignores = end > 3 && d.operand(3).kind == Operand::reg && d.operand(3).symbol.type == Type::pred;
  d.append(end > 3 && !ignores ? d.source(3, Type::u32) : kNone);
  d.append(ignores ? d.predicate(3) : kNone);
  d.run(copy_async);
}

}  // namespace

Step issue_store(Thread& t, PendingStore store) {
  ThreadCopies& copies = copies_of(t);
  store.group = copies.store_group;
  Machine& machine = *t.block->machine;
  if (machine.early(machine.store_policy)) {
    if (!store.read()) return Step::fault;
    store.was_read = true;
    // The write may happen at once too, but not before an earlier write of this thread.
    if (copies.stores.empty() && machine.early(machine.store_policy))
      return store.write() ? Step::next : Step::fault;
  }
  copies.stores.push_back(std::move(store));
  return Step::next;
}

bool check_copies_at_exit(Thread& t, const Instruction& i) {
  if (t.copies == nullptr) return true;
  for (PendingStore& store : t.copies->stores) {
    if (!store.was_read) {
      t.block->machine->fault(
          t, i, absl::StatusCode::kAborted,
          "the thread exits although its bulk copies out of shared memory may not have read it yet: a "
          "cp.async.bulk.wait_group is missing");
      return false;
    }
    if (!store.write()) return false;
  }
  t.copies->stores.clear();
  return true;
}

void decode_st_async(Decoder& d) { decode_async_store(d, Reduction::none); }
void decode_red_async(Decoder& d) { decode_async_store(d, take_reduction(d)); }

void decode_cp(Decoder& d) {
  const bool reduces = d.take("reduce");
  if (!d.take("async")) return d.fail("only cp.async is supported");
  if (d.take("bulk")) {
    if (d.take("commit_group")) return d.run(commit_stores);
    if (d.take("wait_group")) {
      d.out().flags = d.take("read") ? 1 : 0;
      d.out().imm = d.immediate(0);
      return d.run(wait_stores);
    }
    if (d.take("prefetch")) return decode_nothing(d);
    return d.take("tensor") ? decode_bulk_tensor(d, reduces) : decode_bulk(d, reduces);
  }
  if (d.take("commit_group")) return d.run(commit_copies);
  if (d.take("wait_group")) {
    d.out().imm = d.immediate(0);
    return d.run(wait_copies);
  }
  if (d.take("wait_all")) {
    d.out().imm = -1;
    return d.run(wait_copies);
  }
  if (d.take("mbarrier")) {
    d.take("arrive");
    d.out().flags = d.take("noinc") ? 1 : 0;
    take_space(d);
    d.take_type();
    const Address place = d.address(0);
    d.out().a = place.base;
    d.out().imm = place.offset;
    return d.run(arrive_after_copies);
  }
  decode_copy(d);
}

}  // namespace lathe::ptx
