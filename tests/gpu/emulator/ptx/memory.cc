#include "tests/gpu/emulator/ptx/memory.h"

#include "absl/strings/str_cat.h"

namespace lathe::ptx {
namespace {

constexpr absl::StatusCode kOutside = absl::StatusCode::kOutOfRange;

uint8_t* refuse(Thread& t, const Instruction& i, absl::StatusCode code, const std::string& why) {
  t.block->machine->fault(t, i, code, why);
  return nullptr;
}

}  // namespace

uint8_t* refuse_alignment(Thread& t, const Instruction& i, uint64_t address, uint32_t size) {
  return refuse(
      t, i, absl::StatusCode::kFailedPrecondition,
      absl::StrFormat("address 0x%x is not a multiple of the %u bytes that the access needs", address, size));
}

uint8_t* refuse_global(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access) {
  return refuse(t, i, kOutside,
                absl::StrFormat("illegal %s of %u bytes: %s", access == Access::read ? "read" : "write", size,
                                t.block->machine->memory.describe(address)));
}

Block* shared_block(Thread& t, const Instruction& i, uint64_t address) {
  const uint64_t tag = address >> kRankShift;
  if (tag == 0) return t.block;
  Cluster& cluster = *t.block->cluster;
  if (tag > cluster.blocks.size()) {
    refuse(t, i, kOutside,
           absl::StrFormat("shared address 0x%x does not name a block of the cluster", address));
    return nullptr;
  }
  Block* block = cluster.blocks[tag - 1].get();
  if (block->live == 0) {
    refuse(t, i, kOutside,
           absl::StrFormat("shared address 0x%x names the block of rank %u, which has exited", address,
                           tag - 1));
    return nullptr;
  }
  return block;
}

uint8_t* shared_range(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size) {
  if (offset < kSharedBase || offset + size > block.shared.size()) {
    return refuse(t, i, kOutside,
                  absl::StrFormat("%u bytes at shared address %u: the block's shared memory is [%u, %u)",
                                  size, offset, kSharedBase, block.shared.size()));
  }
  return block.shared.data() + offset;
}

uint8_t* global_range(Thread& t, const Instruction& i, uint64_t address, uint64_t size, Access access) {
  if (uint8_t* place = t.block->machine->memory.find(address, size)) {
    t.block->machine->visibility.settle(*t.block->cluster, place, size);
    return place;
  }
  return refuse(
      t, i, kOutside,
      absl::StrFormat("illegal %s of %u bytes by a copy: %s", access == Access::read ? "read" : "write", size,
                      t.block->machine->memory.describe(address)));
}

uint8_t* locate_shared(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access) {
  Block* block = address >> kRankShift == 0 ? t.block : shared_block(t, i, address);
  if (block == nullptr) return nullptr;
  const uint32_t offset = shared_offset(address);
  if (offset < kSharedBase || offset + size > block->shared.size())
    return shared_range(t, i, *block, offset, size);
  if (access == Access::write) note_shared_write(t, *block, offset, size);
  return block->shared.data() + offset;
}

bool check_proxy(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size,
                 absl::string_view who) {
  for (uint64_t granule = offset / 16; granule <= (offset + size - 1) / 16; ++granule) {
    const uint64_t mark = block.written[granule];
    if (mark == 0) continue;
    const Thread& writer = block.threads[mark & 0xffff];
    if (writer.proxy_fence > mark >> 16 || t.proxy_fence > mark >> 16) {
      block.written[granule] = 0;
      continue;
    }
    t.block->machine->fault(
        t, i, absl::StatusCode::kAborted,
        absl::StrFormat("%s reads shared address %u, which thread %u wrote without a later "
                        "fence.proxy.async",
                        who, granule * 16, writer.index));
    return false;
  }
  return true;
}

uint8_t* locate_local(Thread& t, const Instruction& i, uint64_t address, uint32_t size) {
  const uint32_t bytes = t.block->machine->kernel.local_bytes;
  if (address + size > bytes)
    return refuse(
        t, i, kOutside,
        absl::StrFormat("local address %u is outside the %u bytes of local memory", address, bytes));
  if (t.local == nullptr) {
    t.local = std::make_unique<uint8_t[]>(bytes);
    std::memset(t.local.get(), 0xff, bytes);
  }
  return t.local.get() + address;
}

uint8_t* locate_param(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access) {
  const Machine& machine = *t.block->machine;
  const auto& parameters = machine.config.parameters;
  const uint64_t base = machine.kernel.parameter_base;
  if (address < base || address - base + size > parameters.size() || access == Access::write) {
    return refuse(t, i, kOutside,
                  absl::StrFormat("parameter address %u is outside the parameters [%u, %u)", address, base,
                                  base + parameters.size()));
  }
  return const_cast<uint8_t*>(parameters.data()) + (address - base);
}

uint8_t* locate_generic(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access) {
  const uint64_t inside = address & ((uint64_t{1} << kWindowShift) - 1);
  switch (address >> kWindowShift) {
    case 0: return locate<Space::global>(t, i, address, size, access);
    case kSharedWindow >> kWindowShift: return locate_shared(t, i, inside, size, access);
    case kLocalWindow >> kWindowShift: return locate_local(t, i, inside, size);
    case kParamWindow >> kWindowShift: return locate_param(t, i, inside, size, access);
    default: return refuse_global(t, i, address, size, access);
  }
}

Order take_order(Decoder& d) {
  const int meaning = d.take_one_of({"acquire", "release", "acq_rel", "sc", "relaxed", "volatile", "mmio"});
  d.take("weak");
  const int scope = d.take_one_of({"cta", "cluster", "gpu", "sys", "gl"});
  Order order;
  order.named = meaning >= 0;
  order.wide = scope < 0 || scope >= 2;
  if (order.wide && order.named && meaning < 4)
    order.orders = meaning == 0 ? kAcquire : meaning == 1 ? kRelease : kAcquire | kRelease;
  return order;
}

Space take_space(Decoder& d) {
  if (d.take("global")) return Space::global;
  if (d.take("shared") || d.take("shared::cta") || d.take("shared::cluster")) return Space::shared;
  if (d.take("local")) return Space::local;
  if (d.take("param") || d.take("param::entry") || d.take("param::func")) return Space::param;
  if (d.take("const")) return Space::constant;
  return Space::generic;
}

bool take_cache_hints(Decoder& d) {
  d.take_one_of({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  d.take_one_of(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  d.take_one_of({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  d.take_one_of({"L2::64B", "L2::128B", "L2::256B"});
  return d.take("L2::cache_hint");
}

}  // namespace lathe::ptx
