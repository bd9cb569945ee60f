// wgmma: matrix products of a warpgroup, computed when issued or when waited for.
#include "tests/gpu/emulator/ptx/wgmma.h"

#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/moves.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/table.h"
#include "tests/gpu/emulator/ptx/wgmma_operand.h"

namespace lathe::ptx {
namespace {

constexpr uint32_t kRows = 64;

// Instruction::flags, above the types of A and B. imm: n. The list: D's registers, then four of A if A is in registers.
// a, b: the slots of the descriptors. c: scale-d as slot * 2 + negated.
enum : uint16_t {
  kHalfSums = 1 << 10,
  kARegisters = 1 << 11,
  kATransposed = 1 << 12,
  kBTransposed = 1 << 13,
  kNegateA = 1 << 14,
  kNegateB = 1 << 15
};
Type a_type(const Instruction& i) { return static_cast<Type>(i.flags & 31); }
Type b_type(const Instruction& i) { return static_cast<Type>((i.flags >> 5) & 31); }
uint32_t accumulators(const Instruction& i) {
  return static_cast<uint32_t>((i.flags & kHalfSums) != 0 ? i.imm / 4 : i.imm / 2);
}
bool integer_sums(const Instruction& i) { return a_type(i) == Type::s8 || a_type(i) == Type::u8; }

WarpgroupMma& products_of(Thread& t) {
  Block& block = *t.block;
  if (block.products.empty()) block.products.resize(block.warps.size() / 4);
  auto& products = block.products[t.warp / 4];
  if (products == nullptr) {
    products = std::make_unique<WarpgroupMma>();
    products->tags.assign(block.machine->kernel.registers.size() * kWarpgroup, 0);
  }
  return *products;
}
Thread* warpgroup_of(Thread& t) { return &t.block->threads[t.warp / 4 * kWarpgroup]; }
uint32_t& tag_of(WarpgroupMma& products, Thread& t, uint32_t slot) {
  return products.tags[(t.index % kWarpgroup) * t.block->machine->kernel.registers.size() + slot];
}

Step fail(Thread& t, const Instruction& i, const std::string& why) {
  return t.block->machine->fault(t, i, absl::StatusCode::kAborted, why);
}

void set_tag(WarpgroupMma& products, Thread& t, uint32_t slot, uint32_t value) {
  uint32_t& tag = tag_of(products, t, slot);
  if (tag == value) return;
  const uint32_t thread = t.index % kWarpgroup;
  if (PendingProduct* old = products.owner(tag))
    --old->holders[thread * old->values + tag - old->first_value];
  if (PendingProduct* now = products.owner(value)) {
    ++now->holders[thread * now->values + value - now->first_value];
    if (tag == 0) products.tagged[thread].push_back(slot);
  }
  tag = value;
}

// Reads A's fragment from the registers of the warpgroup; each warp holds 16 rows, as for mma.sync.
void read_fragment(Thread& t, const Instruction& i, Matrix& a) {
  const uint32_t* slots = t.block->machine->kernel.lists.data() + i.list + accumulators(i);
  const uint32_t per_register = 4 / type_size(a_type(i)), bits = 32 / per_register;
  a.resize(kRows, 8 * per_register);
  const Thread* threads = warpgroup_of(t);
  for (uint32_t n = 0; n < kWarpgroup; ++n) {
    const uint32_t group = n % 32 / 4, quad = n % 4;
    for (uint32_t reg = 0; reg < 4; ++reg) {
      const uint32_t word = static_cast<uint32_t>(threads[n].r[slots[reg]]),
                     row = n / 32 * 16 + (reg & 1) * 8 + group;
      for (uint32_t e = 0; e < per_register; ++e) {
        const uint32_t k = (reg >> 1) * 4 * per_register + quad * per_register + e;
        a.at(row, k) =
            operand_value(a_type(i), bits == 32 ? word : (word >> (e * bits)) & ((1u << bits) - 1));
      }
    }
  }
}

// Computes the results for each thread and accumulator. False after an error.
bool compute(Thread& t, const PendingProduct& product, std::vector<uint32_t>& results) {
  const Instruction& i = *product.instruction;
  const uint32_t n = static_cast<uint32_t>(i.imm);
  Matrix a, b;
  if ((i.flags & kARegisters) != 0) {
    read_fragment(t, i, a);
  } else if (!read_operand(t, i, product.a_descriptor, a_type(i), kRows, (i.flags & kATransposed) != 0, a)) {
    return false;
  }
  if (!read_operand(t, i, product.b_descriptor, b_type(i), n, (i.flags & kBTransposed) != 0, b)) return false;
  const double sign = ((i.flags & kNegateA) != 0) != ((i.flags & kNegateB) != 0) ? -1 : 1;
  const std::vector<double> sums = multiply_transposed(a, b);
  results.resize(uint64_t{kWarpgroup} * product.values);
  const bool half_sums = (i.flags & kHalfSums) != 0;
  for (uint32_t thread = 0; thread < kWarpgroup; ++thread) {
    const uint32_t row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    const uint32_t* before = &product.initial[uint64_t{thread} * product.values];
    uint32_t* after = &results[uint64_t{thread} * product.values];
    for (uint32_t d = 0; d < n / 2; ++d) {
      const uint32_t r = row + (d >> 1 & 1) * 8, c = d / 4 * 8 + column + (d & 1);
      const double sum = sign * sums[r * n + c];
      const uint32_t start = !product.accumulates ? 0 : before[half_sums ? d / 2 : d];
      if (half_sums) {
        const uint32_t shift = 16 * (d & 1), old = start >> shift & 0xffff;
        const uint32_t value =
            narrow(sum + (product.accumulates ? f16_to_float(static_cast<uint16_t>(old)) : 0), kF16);
        uint32_t& word = after[d / 2];
        word = shift == 0 ? value : word | value << 16;
      } else if (integer_sums(i)) {
        after[d] = start + static_cast<uint32_t>(static_cast<int64_t>(sum));
      } else {
        after[d] = static_cast<uint32_t>(
            to_bits(static_cast<float>(sum + (product.accumulates ? from_bits<float>(start) : 0.0f))));
      }
    }
  }
  return true;
}

// Computes the oldest product in flight and writes its results to the registers, and to the later products that start
// from them.
bool complete_first(Thread& t, WarpgroupMma& products) {
  PendingProduct product = std::move(products.pending.front());
  std::vector<uint32_t> results;
  if (!compute(t, product, results)) return false;
  products.pending.erase(products.pending.begin());
  Thread* threads = warpgroup_of(t);
  for (uint32_t n = 0; n < kWarpgroup; ++n) {
    auto& slots = products.tagged[n];
    size_t kept = 0;
    for (uint32_t slot : slots) {
      uint32_t& tag = tag_of(products, threads[n], slot);
      if (tag - product.first_value < product.values) {
        threads[n].r[slot] = results[n * product.values + tag - product.first_value];
        tag = 0;
      }
      if (tag != 0) slots[kept++] = slot;
    }
    slots.resize(kept);
    if (products.pending.empty()) threads[n].tracked = false;
  }
  for (PendingProduct& later : products.pending) {
    for (size_t at = 0; at < later.initial.size(); ++at) {
      uint32_t& value = later.initial_value[at];
      if (value - product.first_value >= product.values) continue;
      later.initial[at] = results[at / later.values * product.values + value - product.first_value];
      value = 0;
    }
  }
  ++t.block->machine->progress;
  return true;
}

Step issue_all(Thread& t, const Instruction& i, uint32_t) {
  WarpgroupMma& products = products_of(t);
  Machine& machine = *t.block->machine;
  if (!products.fenced) return fail(t, i, "there is no wgmma.fence after the last use of its registers");
  const uint32_t* slots = machine.kernel.lists.data() + i.list;
  Thread* threads = warpgroup_of(t);
  PendingProduct product;
  product.instruction = &i;
  product.group = products.group;
  product.a_descriptor = t.r[i.a];
  product.b_descriptor = t.r[i.b];
  product.accumulates = (t.r[i.c >> 1] & 1) != (i.c & 1);
  for (uint32_t n = 0; n < kWarpgroup; ++n) {
    const uint64_t* r = threads[n].r;
    if (((i.flags & kARegisters) == 0 && r[i.a] != product.a_descriptor) || r[i.b] != product.b_descriptor ||
        ((r[i.c >> 1] & 1) != (i.c & 1)) != product.accumulates) {
      return fail(threads[n], i, "the descriptors or scale-d differ within the warpgroup");
    }
  }
  product.values = accumulators(i);
  product.initial.resize(uint64_t{kWarpgroup} * product.values);
  product.initial_value.resize(product.initial.size());
  const PendingProduct* seen = nullptr;
  for (uint32_t n = 0; n < kWarpgroup; ++n) {
    const uint32_t* tags = &tag_of(products, threads[n], 0);
    for (uint32_t d = 0; d < product.values; ++d) {
      const uint32_t tag = tags[slots[d]];
      product.initial[n * product.values + d] = static_cast<uint32_t>(threads[n].r[slots[d]]);
      product.initial_value[n * product.values + d] = tag;
      if (tag == 0 || (seen != nullptr && tag - seen->first_value < seen->values)) continue;
      PendingProduct* owner = products.owner(tag);
      if (owner->instruction->imm != i.imm) {
        return fail(threads[n], i, "an accumulator in flight belongs to a wgmma of another shape");
      }
      owner->consumed = true;
      seen = owner;
    }
  }
  for (uint32_t s = product.values; s < i.count; ++s) {
    for (uint32_t n = 0; n < kWarpgroup; ++n) {
      if (tag_of(products, threads[n], slots[s]) != 0)
        return fail(threads[n], i, "a register of A is the result of a wgmma in flight");
    }
  }
  product.first_value = products.next_value;
  products.next_value += product.values;
  product.holders.assign(product.initial.size(), 0);
  const bool early = products.pending.empty() && machine.early(machine.product_policy);
  products.pending.push_back(std::move(product));
  const uint32_t first = products.pending.back().first_value;
  for (uint32_t n = 0; n < kWarpgroup; ++n) {
    threads[n].tracked = true;
    for (uint32_t d = 0; d < products.pending.back().values; ++d)
      set_tag(products, threads[n], slots[d], first + d);
  }
  if (early && !complete_first(t, products)) return Step::fault;
  return Step::next;
}
Step issue_product(Thread& t, const Instruction& i) {
  return t.block->machine->converge_warpgroup(t, i, issue_all);
}

Step fence(Thread& t, const Instruction& i) {
  return t.block->machine->converge_warpgroup(t, i, [](Thread& last, const Instruction&, uint32_t) {
    products_of(last).fenced = true;
    return Step::next;
  });
}
Step commit(Thread& t, const Instruction& i) {
  return t.block->machine->converge_warpgroup(t, i, [](Thread& last, const Instruction&, uint32_t) {
    ++products_of(last).group;
    return Step::next;
  });
}
Step wait(Thread& t, const Instruction& i) {
  return t.block->machine->converge_warpgroup(t, i, [](Thread& last, const Instruction& at, uint32_t) {
    WarpgroupMma& products = products_of(last);
    const uint64_t stay = static_cast<uint64_t>(at.imm);
    while (!products.pending.empty() && products.pending.front().group + stay < products.group) {
      if (!complete_first(last, products)) return Step::fault;
    }
    if (stay == 0)
      products.fenced = false;  // the registers may be used now, so the next product needs a fence
    return Step::next;
  });
}

void decode_product(Decoder& d) {
  d.take("sync");
  if (!d.take("aligned")) return d.fail(".aligned is missing");
  const absl::string_view shape = d.take_prefix("m64n");
  uint32_t n = 0, k = 0;
  if (std::sscanf(std::string(shape).c_str(), "m64n%uk%u", &n, &k) != 2 || n == 0 || n > 256 || n % 8 != 0)
    return d.fail("this shape does not exist");
  const Type sum = d.take_type(), a = d.take_type(), b = d.take_type();
  if (k * type_size(a) != 32 || type_size(a) != type_size(b))
    return d.fail("this shape does not exist for these types");
  const bool integer = a == Type::s8 || a == Type::u8, half = a == Type::f16 || a == Type::bf16;
  const bool eight_bits = type_size(a) == 1, floats = a == Type::e4m3 || a == Type::e5m2;
  if (!half && a != Type::tf32 && !integer && !floats) return d.fail("these types are not supported");
  if (a != b && !(eight_bits && (b == Type::s8 || b == Type::u8) == integer))
    return d.fail("these types are not supported");
  const bool half_sums = sum == Type::f16;
  if (integer ? sum != Type::s32 : sum != Type::f32 && !(half_sums && (a == Type::f16 || floats)))
    return d.fail("this accumulator type is not supported");
  uint16_t flags =
      static_cast<uint16_t>(static_cast<int>(a) | static_cast<int>(b) << 5 | (half_sums ? kHalfSums : 0));
  d.append_destinations(0);
  const bool registers = d.is_vector(1);
  if (registers) {
    flags |= kARegisters;
    d.append_sources(1, Type::b32);
  } else {
    d.out().a = d.source(1, Type::b64);
  }
  d.out().b = d.source(2, Type::b64);
  d.out().c = d.predicate(3);
  if (!integer) {
    if (d.immediate(4) == -1) flags |= kNegateA;
    if (d.immediate(5) == -1) flags |= kNegateB;
    if (half) {
      if (!registers && d.immediate(6) != 0) flags |= kATransposed;
      if (d.immediate(registers ? 6 : 7) != 0) flags |= kBTransposed;
    }
  }
  d.out().flags = flags;
  d.out().imm = n;
  const size_t wanted = accumulators(d.out());
  if (!d.is_vector(0) || d.operand(0).elements.size() != wanted)
    return d.fail(absl::StrFormat("D must have %u registers", wanted));
  if (registers && d.operand(1).elements.size() != 4) return d.fail("A must have 4 registers");
  const Kernel& kernel = *d.builder().kernel;
  if (kernel.target != "sm_90a")
    return d.fail(absl::StrFormat("needs .target sm_90a, not %s", kernel.target));
  d.run(issue_product);
}

}  // namespace

void decode_wgmma(Decoder& d) {
  const int action = d.take_one_of({"fence", "commit_group", "wait_group", "mma_async"});
  if (action == 3) return decode_product(d);
  d.take("sync");
  if (!d.take("aligned")) return d.fail(".aligned is missing");
  if (action == 2) d.out().imm = d.immediate(0);
  d.run(action == 0 ? fence : action == 1 ? commit : action == 2 ? wait : nullptr);
}

bool tracked_instruction(Thread& t, const Instruction& i, Step& step) {
  if (i.run == issue_product || i.run == wait || i.run == fence || i.run == commit) return false;
  WarpgroupMma& products = products_of(t);
  const Kernel& kernel = t.block->machine->kernel;
  const Usage& usage = kernel.usage[t.pc];
  const uint32_t* slots = kernel.usage_slots.data() + usage.first;
  uint32_t carried = 0;
  for (uint32_t n = 0; n < usage.reads; ++n) {
    carried = tag_of(products, t, slots[n]);
    if (carried == 0) continue;
    if (i.run == run_move) break;
    step = fail(t, i, "reads a register that a wgmma in flight will write");
    return true;
  }
  for (uint32_t n = usage.reads; n < usage.reads + usage.writes; ++n) {
    for (const PendingProduct& product : products.pending) {
      const Instruction& at = *product.instruction;
      const uint32_t* list = kernel.lists.data() + at.list;
      for (uint32_t s = product.values; s < at.count; ++s) {
        if (list[s] != slots[n]) continue;
        step =
            fail(t, i,
                 absl::StrFormat("writes a register that the wgmma in flight at ptx line %d reads", at.line));
        return true;
      }
    }
    const uint32_t tag = tag_of(products, t, slots[n]);
    if (tag == carried) continue;
    set_tag(products, t, slots[n], carried);
    const PendingProduct* owner = products.owner(tag);
    if (owner != nullptr && !owner->consumed &&
        owner->holders[t.index % kWarpgroup * owner->values + tag - owner->first_value] == 0) {
      step = fail(t, i,
                  absl::StrFormat("overwrites the result of the wgmma in flight at ptx line %d",
                                  owner->instruction->line));
      return true;
    }
  }
  if (carried == 0) return false;
  step = Step::next;  // the move copied only a tag; the value is not computed yet
  return true;
}

bool check_products_at_exit(Thread& t, const Instruction& i) {
  if (!t.tracked) return true;
  fail(t, i, "the thread exits with a wgmma in flight");
  return false;
}

}  // namespace lathe::ptx
