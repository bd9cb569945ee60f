// tcgen05: allocation of tensor memory, copies of scales, products with block scales, commits, loads and fences.
#include "tests/gpu/emulator/ptx/tcgen05.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/gpu/emulator/ptx/async_copy.h"
#include "tests/gpu/emulator/ptx/mbarrier.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"
#include "tests/gpu/emulator/ptx/tcgen05_operand.h"

namespace lathe::ptx {

bool TensorMemory::is_allocated(uint32_t column, uint32_t count) const {
  for (uint32_t first = 0; first < kTensorColumns; ++first) {
    if (allocated[first] != 0 && column >= first && column + count <= first + allocated[first]) return true;
  }
  return false;
}
bool TensorMemory::is_empty() const {
  return std::all_of(allocated.begin(), allocated.end(), [](uint32_t count) { return count == 0; });
}

namespace {

constexpr uint32_t kRows = 128;

Step fail(Thread& t, const Instruction& i, const std::string& why) {
  return t.block->machine->fault(t, i, absl::StatusCode::kAborted, why);
}

TensorMemory& memory_of(Thread& t) {
  auto& memory = t.block->tensor;
  if (memory == nullptr) {
    memory = std::make_unique<TensorMemory>();
    memory->fenced.assign(t.block->threads.size(), 0);
    memory->loads.resize(t.block->threads.size());
  }
  return *memory;
}

// The lane and column that an address names; checks that the columns are allocated. False after an error.
bool place_of(Thread& t, const Instruction& i, uint64_t address, uint32_t columns, uint32_t& lane,
              uint32_t& column) {
  lane = static_cast<uint32_t>(address) >> 16;
  column = static_cast<uint32_t>(address) & 0xffff;
  if (lane < kTensorLanes && memory_of(t).is_allocated(column, columns)) return true;
  fail(t, i,
       absl::StrFormat("%u columns from column %u, lane %u of tensor memory are not allocated", columns,
                       column, lane));
  return false;
}

// The address of the operand whose base and offset are in the list from `at` on.
uint64_t address_in(const Thread& t, const Instruction& i, uint32_t at) {
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list + at;
  return static_cast<uint32_t>(t.r[list[0]] + t.r[list[1]]);
}

// --- allocation, by a warp. a: the slot of the address. b: that of the number of columns.

Step allocate_all(Thread& t, const Instruction& i, uint32_t lanes) {
  TensorMemory& memory = memory_of(t);
  const uint32_t count = static_cast<uint32_t>(t.r[i.b]);
  if (lanes != ~0u) return fail(t, i, "not all lanes of the warp execute this");
  if (memory.relinquished) return fail(t, i, "the block has given up the right to allocate");
  if (count < 32 || count > kTensorColumns || (count & (count - 1)) != 0)
    return fail(t, i, absl::StrFormat("%u columns are not a power of two from 32 to 512", count));
  for (uint32_t first = 0; first < kTensorColumns; first += count) {
    bool free = true;
    for (uint32_t column = first; column < first + count; ++column)
      free = free && !memory.is_allocated(column, 1);
    if (!free) continue;
    uint8_t* place = locate<Space::shared>(t, i, t.r[i.a] + static_cast<uint64_t>(i.imm), 4, Access::write);
    if (place == nullptr) return Step::fault;
    memory.allocated[first] = count;
    std::memcpy(place, &first, 4);
    return Step::next;
  }
  return fail(t, i,
              absl::StrFormat("no %u columns of tensor memory are free, so this waits for ever", count));
}
Step free_all(Thread& t, const Instruction& i, uint32_t lanes) {
  TensorMemory& memory = memory_of(t);
  const uint32_t address = static_cast<uint32_t>(t.r[i.a]), count = static_cast<uint32_t>(t.r[i.b]);
  if (lanes != ~0u) return fail(t, i, "not all lanes of the warp execute this");
  if (address >= kTensorColumns || memory.allocated[address] != count)
    return fail(t, i, absl::StrFormat("%u columns at 0x%x are not an allocation", count, address));
  if (!memory.work.empty()) return fail(t, i, "products or copies are in flight");
  memory.allocated[address] = 0;
  return Step::next;
}
Step relinquish_all(Thread& t, const Instruction&, uint32_t) {
  memory_of(t).relinquished = true;
  return Step::next;
}
template <Collective action>
Step by_warp(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, ~0u, action);
}

// --- work in flight

// Does the work up to `number` in order. False after an error.
bool complete(TensorMemory& memory, uint64_t number) {
  while (!memory.work.empty() && memory.work.front().number <= number) {
    const auto perform = std::move(memory.work.front().perform);
    memory.work.pop_front();
    if (!perform()) return false;
  }
  return true;
}
Step issue_work(Thread& t, std::function<bool()> perform) {
  TensorMemory& memory = memory_of(t);
  Machine& machine = *t.block->machine;
  const bool early = memory.work.empty() && machine.early(machine.product_policy);
  memory.work.push_back({++memory.issued, std::move(perform)});
  return !early || complete(memory, memory.issued) ? machine.maybe_yield() : Step::fault;
}
void note_written(Thread& t, uint32_t column, uint32_t count) {
  TensorMemory& memory = memory_of(t);
  std::fill_n(memory.written.begin() + column, count, ++t.block->machine->time);
}

// The list: the address and its offset. a: the slot of the descriptor.
Step copy(Thread& t, const Instruction& i) {
  uint32_t lane = 0, column = 0;
  if (!place_of(t, i, address_in(t, i, 0), 4, lane, column)) return Step::fault;
  if (lane != 0) return fail(t, i, "the lane of the target is not 0");
  return issue_work(t, [&t, &i, column, descriptor = t.r[i.a]] {
    // 32 rows of 16 bytes go to the four lanes 32 apart (.warpx4).
    std::vector<uint8_t> bytes;
    if (!read_rows(t, i, descriptor, 32, 1, bytes)) return false;
    TensorMemory& memory = memory_of(t);
    for (uint32_t lane = 0; lane < kTensorLanes; ++lane)
      std::memcpy(&memory.at(lane, column), &bytes[lane % 32 * 16], 16);
    note_written(t, column, 4);
    return true;
  });
}

// A product in flight, with the registers' values at the time of issue.
struct ScaledProduct {
  Thread* t;
  const Instruction* i;
  BlockKind kind;
  uint32_t scales, sums, scales_a, scales_b;
  uint64_t a, b;
  ProductFields fields;
  bool accumulates;

  // The scale of a line: word line / 32 of lane line % 32, byte `first + group`. It must be the same in all lanes that
  // are 32 apart.
  bool scale(uint32_t column, uint32_t line, uint32_t byte, double& value) const {
    TensorMemory& memory = memory_of(*t);
    const uint32_t word = memory.at(line % 32, column + line / 32);
    for (uint32_t lane = line % 32; lane < kTensorLanes; lane += 32) {
      if (memory.at(lane, column + line / 32) == word) continue;
      fail(*t, *i, absl::StrFormat("the scales of line %u differ among lanes that are 32 apart", line));
      return false;
    }
    value = scale_value(static_cast<uint8_t>(word >> 8 * byte), fields.powers_of_two);
    return true;
  }

  // Rows of `depth` decoded elements times their scales.
  bool operand(uint64_t descriptor, uint32_t rows, uint32_t type, uint32_t column, uint32_t first,
               std::vector<double>& values) const {
    std::vector<uint8_t> bytes;
    if (!read_rows(*t, *i, descriptor, rows, 2, bytes)) return false;
    const uint32_t depth = elements_in_row(kind), of_scale = depth / scales;
    values.resize(uint64_t{rows} * depth);
    for (uint32_t row = 0; row < rows; ++row) {
      double* const elements = &values[uint64_t{row} * depth];
      decode_elements(kind, type, &bytes[row * 32], elements);
      for (uint32_t group = 0; group < scales; ++group) {
        double factor = 0;
        if (!scale(column, row, first + group, factor)) return false;
        for (uint32_t k = 0; k < of_scale; ++k) elements[group * of_scale + k] *= factor;
      }
    }
    return true;
  }

  bool perform() const {
    std::vector<double> left, right;
    if (!operand(a, kRows, fields.a_type, scales_a, fields.first_a, left) ||
        !operand(b, fields.n, fields.b_type, scales_b, fields.first_b, right))
      return false;
    TensorMemory& memory = memory_of(*t);
    const uint32_t depth = elements_in_row(kind);
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t n = 0; n < fields.n; ++n) {
        double sum = 0;
        for (uint32_t k = 0; k < depth; ++k) sum += left[row * depth + k] * right[n * depth + k];
        if (fields.negate) sum = -sum;
        uint32_t& word = memory.at(row, sums + n);
        if (accumulates) sum += from_bits<float>(word);
        word = static_cast<uint32_t>(to_bits(static_cast<float>(sum)));
      }
    }
    note_written(*t, sums, fields.n);
    return true;
  }
};

// flags: kind | scales << 4. a, b: the descriptors; c: the instruction descriptor. The list: the addresses of D and of
// both scales, with their offsets; the predicate as slot * 2 + negated.
Step multiply(Thread& t, const Instruction& i) {
  ScaledProduct p;
  p.t = &t, p.i = &i;
  p.kind = static_cast<BlockKind>(i.flags & 15);
  p.scales = i.flags >> 4;
  const std::string wrong =
      decode_product_fields(static_cast<uint32_t>(t.r[i.c]), p.kind, p.scales, p.fields);
  if (!wrong.empty()) return fail(t, i, "instruction descriptor: " + wrong);
  uint32_t lane = 0;
  if (!place_of(t, i, address_in(t, i, 0), p.fields.n, lane, p.sums)) return Step::fault;
  if (lane != 0) return fail(t, i, "the lane of D is not 0");
  if (!place_of(t, i, address_in(t, i, 2), kRows / 32, lane, p.scales_a) ||
      !place_of(t, i, address_in(t, i, 4), (p.fields.n + 31) / 32, lane, p.scales_b))
    return Step::fault;
  p.a = t.r[i.a], p.b = t.r[i.b];
  const uint32_t more = t.block->machine->kernel.lists[i.list + 6];
  p.accumulates = (t.r[more >> 1] & 1) != (more & 1);
  return issue_work(t, [p] { return p.perform(); });
}

// One arrival at an mbarrier when the work so far is done. a: the slot of the address; imm: its offset.
Step commit(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = shared_place(t, i, without_window(t.r[i.a]) + static_cast<uint64_t>(i.imm), 8, offset);
  if (block == nullptr || find_mbarrier(t, i, *block, offset) == nullptr) return Step::fault;
  AsyncOp op;
  op.target = op.signal_block = block;
  op.signal = offset;
  op.perform = [&t, &i, block, offset, number = memory_of(t).issued] {
    return complete(memory_of(t), number) && arrive(t, i, *block, offset, 1);
  };
  const Step step = t.block->machine->issue(t, std::move(op));
  return step == Step::fault ? step : t.block->machine->maybe_yield();
}

// --- loads. The list: the address, its offset, then the registers.

Step load_all(Thread& t, const Instruction& i, uint32_t lanes) {
  if (lanes != ~0u) return fail(t, i, "not all lanes of the warp execute this");
  TensorMemory& memory = memory_of(t);
  const uint32_t count = i.count - 2u, own = t.warp % 4 * 32u;
  const uint32_t* slots = t.block->machine->kernel.lists.data() + i.list + 2;
  Thread* warp = &t.block->threads[t.warp * 32];
  for (uint32_t n = 0; n < 32; ++n) {
    uint32_t lane = 0, column = 0;
    if (address_in(warp[n], i, 0) != address_in(t, i, 0)) return fail(t, i, "lanes have different addresses");
    if (!place_of(warp[n], i, address_in(t, i, 0), count, lane, column)) return Step::fault;
    if (lane != own)
      return fail(t, i,
                  absl::StrFormat("warp %u reads from lane %u, but its first is %u", t.warp, lane, own));
    for (uint32_t c = 0; c < count; ++c) {
      if (memory.written[column + c] > memory.fenced[warp[n].index])
        return fail(warp[n], i,
                    absl::StrFormat("column %u was written without a later tcgen05.fence::after_thread_sync",
                                    column + c));
      memory.loads[warp[n].index].push_back({slots[c], memory.at(lane + n, column + c)});
      warp[n].r[slots[c]] = 0xffffffff;  // not there before the wait
    }
  }
  return Step::next;
}
Step wait_all(Thread& t, const Instruction&, uint32_t) {
  TensorMemory& memory = memory_of(t);
  Thread* warp = &t.block->threads[t.warp * 32];
  for (uint32_t n = 0; n < 32; ++n) {
    for (const TensorMemory::Load& load : memory.loads[warp[n].index]) warp[n].r[load.slot] = load.value;
    memory.loads[warp[n].index].clear();
  }
  return Step::next;
}

Step fence_after(Thread& t, const Instruction&) {
  memory_of(t).fenced[t.index] = ++t.block->machine->time;
  return Step::next;
}
Step fence_before(Thread&, const Instruction&) { return Step::next; }

void take_one_block(Decoder& d) {
  if (!d.take("cta_group::1")) d.fail("only .cta_group::1 is modelled");
}
void take_warp(Decoder& d) {
  d.take("sync");
  if (!d.take("aligned")) d.fail(".aligned is missing");
}

void decode_product(Decoder& d) {
  take_one_block(d);
  const int kind = d.take_one_of({"kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  if (kind < 0 || !d.take("block_scale")) return d.fail("only kinds with block scales are modelled");
  const int vector = d.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"});
  const bool exists = vector == kind || (kind == 2 && vector == 1);
  if (!exists) return d.fail("this scale_vec does not exist for the kind");
  d.append_address(0);
  d.out().a = d.source(1, Type::b64);
  d.out().b = d.source(2, Type::b64);
  d.out().c = d.source(3, Type::b32);
  d.append_address(4);
  d.append_address(5);
  d.append(d.predicate(6));
  d.out().flags = static_cast<uint16_t>(kind | (1 << vector) << 4);
  d.run(multiply);
}

void decode_load(Decoder& d) {
  take_warp(d);
  const absl::string_view number = d.take_prefix("x");
  uint32_t count = 0;
  if (!d.take("32x32b") || std::sscanf(std::string(number).c_str(), "x%u", &count) != 1)
    return d.fail("only .32x32b is modelled");
  d.take_type();
  d.append_address(1);
  d.append_destinations(0);
  if (d.operand(0).elements.size() != count)
    return d.fail(absl::StrFormat("there must be %u registers", count));
  d.run(by_warp<load_all>);
}

}  // namespace

void decode_tcgen05(Decoder& d) {
  const std::string& target = d.builder().kernel->target;
  if (target != "sm_100a") return d.fail(absl::StrFormat("needs .target sm_100a, not %s", target));
  if (d.take("fence::after_thread_sync")) return d.run(fence_after);
  if (d.take("fence::before_thread_sync")) return d.run(fence_before);
  if (d.take("wait::ld")) {
    take_warp(d);
    return d.run(by_warp<wait_all>);
  }
  const int action =
      d.take_one_of({"alloc", "dealloc", "relinquish_alloc_permit", "cp", "mma", "commit", "ld"});
  if (action == 4) return decode_product(d);
  if (action == 6) return decode_load(d);
  take_one_block(d);
  if (action == 3) {
    if (!d.take("32x128b") || !d.take("warpx4")) return d.fail("only .32x128b.warpx4 is modelled");
    d.append_address(0);
    d.out().a = d.source(1, Type::b64);
    return d.run(copy);
  }
  if (action == 5) {
    if (!d.take("mbarrier::arrive::one")) return d.fail(".mbarrier::arrive::one is missing");
    take_space(d);
    d.take_type();
    const Address place = d.address(0);
    d.out().a = place.base;
    d.out().imm = place.offset;
    return d.run(commit);
  }
  take_warp(d);
  if (action == 2) return d.run(by_warp<relinquish_all>);
  take_space(d);
  d.take_type();
  if (action == 0) {
    const Address place = d.address(0);
    d.out().a = place.base;
    d.out().imm = place.offset;
  } else {
    d.out().a = d.source(0, Type::b32);
  }
  d.out().b = d.source(1, Type::u32);
  d.run(action == 0 ? by_warp<allocate_all> : action == 1 ? by_warp<free_all> : nullptr);
}

bool check_tensor_memory_at_exit(Thread& t, const Instruction& i) {
  if (t.block->tensor == nullptr) return true;
  if (!t.block->tensor->loads[t.index].empty())
    return fail(t, i, "the thread exits with a tcgen05.ld in flight"), false;
  if (t.block->live == 1 && !t.block->tensor->is_empty())
    return fail(t, i, "the block exits without freeing its tensor memory"), false;
  return true;
}

}  // namespace lathe::ptx
