// cp.async.bulk.tensor in tile mode: copies boxes of tensors to and from shared memory, and reduces into tensors.
#include <algorithm>
#include <memory>
#include <vector>

#include "tests/gpu/emulator/ptx/async_copy.h"
#include "tests/gpu/emulator/ptx/mbarrier.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"
#include "tests/gpu/emulator/ptx/tensor_map.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kTileAlignment = 128;

struct Tile {
  TensorMap map;
  std::array<int64_t, 5> at = {};
  uint64_t row_bytes = 0, rows = 1;
  uint64_t bytes() const { return row_bytes * rows; }
};

// Reads the tensor map at a generic address (slot b plus imm) and the coordinates of the box.
bool read_tile(Thread& t, const Instruction& i, const uint32_t* coordinates, uint32_t rank, Tile& tile) {
  Machine& machine = *t.block->machine;
  const uint64_t address = t.r[i.b] + static_cast<uint64_t>(i.imm);
  if (address % 64 != 0) return refuse_alignment(t, i, address, 64), false;
  // The map must be aligned to 64 bytes only, so each half of its 128 bytes is checked.
  const uint8_t* bytes = locate_generic(t, i, address, kTensorMapBytes / 2, Access::read);
  if (bytes == nullptr ||
      locate_generic(t, i, address + kTensorMapBytes / 2, kTensorMapBytes / 2, Access::read) == nullptr)
    return false;
  const auto map = decode_tensor_map(bytes);
  if (!map) {
    machine.fault(t, i, absl::StatusCode::kAborted,
                  absl::StrFormat("there is no tensor map at 0x%x", address));
    return false;
  }
  if (map->rank != rank) {
    machine.fault(
        t, i, absl::StatusCode::kAborted,
        absl::StrFormat("the tensor map has %u dimensions, but this is a %ud copy", map->rank, rank));
    return false;
  }
  tile.map = *map;
  tile.row_bytes = uint64_t{map->box[0]} * type_size(map->type);
  if (map->swizzle != Swizzle::none && tile.row_bytes != swizzle_span(map->swizzle)) {
    machine.fault(t, i, absl::StatusCode::kUnimplemented,
                  absl::StrFormat("box rows of %u bytes are narrower than the swizzle span of %u bytes: this "
                                  "layout is not modelled",
                                  tile.row_bytes, swizzle_span(map->swizzle)));
    return false;
  }
  for (uint32_t d = 0; d < rank; ++d) {
    tile.at[d] = static_cast<int32_t>(t.r[coordinates[d]]);
    if (d > 0) tile.rows *= map->box[d];
  }
  return true;
}

// For each row of the box that is at least partly inside the tensor, calls f(offset in the dense tile, global address,
// bytes) for the part inside. Stops and returns false when f does.
template <class F>
bool for_rows(const Tile& tile, F f) {
  const uint32_t size = type_size(tile.map.type);
  const int64_t first = std::max<int64_t>(tile.at[0], 0);
  const int64_t last =
      std::min<int64_t>(tile.at[0] + tile.map.box[0], static_cast<int64_t>(tile.map.extent[0]));
  for (uint64_t row = 0; row < tile.rows; ++row) {
    uint64_t rest = row, address = tile.map.address;
    bool inside = first < last;
    for (uint32_t d = 1; d < tile.map.rank; ++d) {
      const int64_t at = tile.at[d] + static_cast<int64_t>(rest % tile.map.box[d]);
      rest /= tile.map.box[d];
      inside = inside && at >= 0 && at < static_cast<int64_t>(tile.map.extent[d]);
      address += static_cast<uint64_t>(at) * tile.map.stride[d];
    }
    if (!inside) continue;
    const uint64_t skipped = static_cast<uint64_t>(first - tile.at[0]) * size,
                   bytes = static_cast<uint64_t>(last - first) * size;
    if (!f(row * tile.row_bytes + skipped, address + static_cast<uint64_t>(first) * size, bytes))
      return false;
  }
  return true;
}

bool load_tile(Thread& t, const Instruction& i, const Tile& tile, std::vector<uint8_t>& bytes) {
  bytes.assign(tile.bytes(), tile.map.nan_fill ? 0xff : 0);
  return for_rows(tile, [&](uint64_t place, uint64_t address, uint64_t size) {
    const uint8_t* from = global_range(t, i, address, size, Access::read);
    if (from != nullptr) std::memcpy(bytes.data() + place, from, size);
    return from != nullptr;
  });
}

// Copies the dense tile to shared memory, 16 bytes at a time.
void place_tile(Block& block, uint32_t offset, const Tile& tile, const std::vector<uint8_t>& bytes) {
  for (uint32_t at = 0; at < bytes.size(); at += 16) {
    write_shared(block, swizzled(offset + at, tile.map.swizzle), 16, bytes.data() + at);
  }
}

// The list: the slot of the target's offset, the slots of the mbarrier and its offset, the slot of the multicast mask
// or kNone, the coordinates.
Step load_tensor(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  Tile tile;
  if (!read_tile(t, i, list + 4, i.count - 4u, tile)) return Step::fault;
  uint32_t offset = 0, signal = 0;
  Block* block = shared_place(t, i, t.r[i.a] + t.r[list[0]], kTileAlignment, offset);
  Block* signal_block =
      block == nullptr ? nullptr : shared_place(t, i, t.r[list[1]] + t.r[list[2]], 8, signal);
  if (signal_block == nullptr) return Step::fault;
  if (block != signal_block)
    return machine.fault(t, i, absl::StatusCode::kAborted, "target and mbarrier are in different blocks");
  const bool multicast = list[3] != kNone;
  const uint32_t mask = multicast ? t.r[list[3]] & 0xffff : 1u << block->rank;
  if (multicast && (mask == 0 || mask >> block->cluster->blocks.size() != 0)) {
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("multicast mask 0x%x, but the cluster has %u blocks", mask,
                                         block->cluster->blocks.size()));
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Block* to = block->cluster->blocks[__builtin_ctz(rest)].get();
    if (shared_range(t, i, *to, offset, tile.bytes()) == nullptr ||
        find_mbarrier(t, i, *to, signal) == nullptr)
      return Step::fault;
    AsyncOp op;
    op.target = op.signal_block = to;
    op.signal = signal;
    op.perform = [&t, &i, to, offset, signal, tile] {
      std::vector<uint8_t> bytes;
      if (!load_tile(t, i, tile, bytes)) return false;
      place_tile(*to, offset, tile, bytes);
      return complete_transactions(t, i, *to, signal, static_cast<int64_t>(tile.bytes()));
    };
    if (machine.issue(t, std::move(op)) == Step::fault) return Step::fault;
  }
  return machine.maybe_yield();
}

// The list: the slot of the source's offset, the coordinates. flags: reduction << 4.
Step store_tensor(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  Tile tile;
  if (!read_tile(t, i, list + 1, i.count - 1u, tile)) return Step::fault;
  uint32_t offset = 0;
  Block* block = shared_place(t, i, t.r[i.a] + t.r[list[0]], kTileAlignment, offset);
  if (block == nullptr || shared_range(t, i, *block, offset, tile.bytes()) == nullptr) return Step::fault;
  if (block != t.block)
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         "the source is not in the shared memory of the executing block");
  const Reduction reduction = static_cast<Reduction>((i.flags >> 4) & 15);
  if (reduction != Reduction::none && !can_reduce(reduction, tile.map.type)) {
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("this reduction does not exist for %s", type_name(tile.map.type)));
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>(tile.bytes());
  PendingStore store;
  store.read = [&t, &i, block, offset, tile, bytes] {
    for (uint32_t at = 0; at < bytes->size(); at += 16) {
      if (!read_shared(t, i, *block, swizzled(offset + at, tile.map.swizzle), 16, bytes->data() + at))
        return false;
    }
    return true;
  };
  store.write = [&t, &i, tile, bytes, reduction] {
    ++t.block->machine->progress;
    return for_rows(tile, [&](uint64_t place, uint64_t address, uint64_t size) {
      uint8_t* to = global_range(t, i, address, size, Access::write);
      if (to == nullptr) return false;
      if (reduction == Reduction::none) {
        std::memcpy(to, bytes->data() + place, size);
      } else {
        reduce_bytes(reduction, tile.map.type, to, bytes->data() + place, size);
      }
      return true;
    });
  };
  return issue_store(t, std::move(store));
}

}  // namespace

void decode_bulk_tensor(Decoder& d, bool reduces) {
  const int rank = d.take_one_of({"1d", "2d", "3d", "4d", "5d"}) + 1;
  const bool from_cta = d.take("shared::cta"), to_cluster = d.take("shared::cluster");
  d.take("global");
  d.take("tile");
  const bool grouped = d.take("bulk_group");
  d.take("mbarrier::complete_tx::bytes");
  const bool multicast = d.take("multicast::cluster"), hinted = take_cache_hints(d);
  const Reduction reduction = reduces ? take_reduction(d) : Reduction::none;
  if (rank == 0) return d.fail("the number of dimensions is missing");
  if (!grouped && !to_cluster && !from_cta) return d.fail("this form is not supported");
  // [map, {coordinates}] is the second operand of loads and the first of stores.
  const size_t map_at = grouped ? 0 : 1;
  const Operand& map = d.operand(map_at);
  if (map.kind != Operand::address || map.elements.size() != 2 || map.elements[1].kind != Operand::vector) {
    return d.fail("[map, {coordinates}] is missing");
  }
  const Address place = d.address(map_at), memory = d.address(grouped ? 1 : 0);
  d.out().a = memory.base;
  d.out().b = place.base;
  d.out().imm = place.offset;
  d.append(d.builder().constant(static_cast<uint64_t>(memory.offset)));
  if (hinted) d.operand(d.operand_count() - 1);
  if (!grouped) {
    d.append_address(2);
    d.append(multicast ? d.source(3, Type::b16) : kNone);
  }
  if (map.elements[1].elements.size() != static_cast<size_t>(rank))
    return d.fail("the number of coordinates does not match the number of dimensions");
  for (const Operand& coordinate : map.elements[1].elements) d.append(d.source(coordinate, Type::s32));
  d.out().flags = static_cast<uint16_t>(static_cast<int>(reduction) << 4);
  d.run(grouped ? store_tensor : load_tensor);
}

}  // namespace lathe::ptx
