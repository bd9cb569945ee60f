// mma.sync, ldmatrix, stmatrix and movmatrix, with the fragment layouts of the PTX ISA.
//
// group = lane / 4 and quad = lane % 4. A register always holds 4 bytes that are adjacent in k, and a fragment consists
// of matrices of 8 rows by 16 bytes. A's matrices: both row halves of the first k half, then those of the second.
#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/table.h"
#include "tests/gpu/emulator/ptx/wgmma_operand.h"

namespace lathe::ptx {
namespace {

struct Shape {
  uint32_t m, k;
};

struct Element {
  uint32_t bytes;
  bool integer, is_signed;
};
Element element_of(Type type) {
  const bool integer = type == Type::s8 || type == Type::u8;
  return {type_size(type), integer, type == Type::s8};
}

// flags: A's type | B's type << 5 | f16 accumulators << 10 | satfinite << 11. imm: m | k << 8.
// The list: the registers of D, A, B, C.
Step multiply_all(Thread& t, const Instruction& i, uint32_t lanes) {
  if (lanes != ~0u)
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "not all 32 lanes of the warp are alive");
  Thread* warp = &t.block->threads[t.warp * 32];
  const Type a_type = static_cast<Type>(i.flags & 31), b_type = static_cast<Type>((i.flags >> 5) & 31);
  const bool half_sums = (i.flags & 1024) != 0;
  const uint32_t m = static_cast<uint32_t>(i.imm & 255), k = static_cast<uint32_t>(i.imm >> 8);
  const uint32_t per_register = 4 / type_size(a_type), bits = 8 * type_size(a_type);
  const uint32_t row_halves = m / 8, k_halves = k / (4 * per_register);
  const uint32_t d_count = half_sums ? row_halves : 2 * row_halves;
  const uint32_t* d = t.block->machine->kernel.lists.data() + i.list;
  const uint32_t *a = d + d_count, *b = a + row_halves * k_halves, *c = b + k_halves;
  const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  double left[16][32], right[32][8], sums[16][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint64_t* r = warp[lane].r;
    const uint32_t group = lane / 4, quad = lane % 4;
    for (uint32_t kh = 0; kh < k_halves; ++kh) {
      for (uint32_t e = 0; e < per_register; ++e) {
        const uint32_t at = kh * 4 * per_register + quad * per_register + e;
        for (uint32_t rh = 0; rh < row_halves; ++rh) {
          left[rh * 8 + group][at] = operand_value(a_type, (r[a[kh * row_halves + rh]] >> (e * bits)) & mask);
        }
        right[at][group] = operand_value(b_type, (r[b[kh]] >> (e * bits)) & mask);
      }
    }
    for (uint32_t rh = 0; rh < row_halves; ++rh) {
      for (uint32_t e = 0; e < 2; ++e) {
        double& sum = sums[rh * 8 + group][quad * 2 + e];
        if (half_sums) {
          sum = f16_to_float(static_cast<uint16_t>(r[c[rh]] >> (16 * e)));
        } else if (element_of(a_type).integer) {
          sum = static_cast<int32_t>(r[c[rh * 2 + e]]);
        } else {
          sum = from_bits<float>(r[c[rh * 2 + e]]);
        }
      }
    }
  }
  // Products and sums are computed in double and rounded once: PTX does not specify the order of summation.
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      double sum = 0;
      for (uint32_t at = 0; at < k; ++at) sum += left[row][at] * right[at][column];
      sums[row][column] += sum;
    }
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint64_t* r = warp[lane].r;
    const uint32_t group = lane / 4, quad = lane % 4;
    for (uint32_t rh = 0; rh < row_halves; ++rh) {
      const double* pair = &sums[rh * 8 + group][quad * 2];
      if (half_sums) {
        r[d[rh]] = narrow(pair[0], kF16) | narrow(pair[1], kF16) << 16;
        continue;
      }
      for (uint32_t e = 0; e < 2; ++e) {
        if (element_of(a_type).integer) {
          const int64_t whole = static_cast<int64_t>(pair[e]);
          const int64_t kept = (i.flags & 2048) != 0
                                   ? std::min<int64_t>(std::max<int64_t>(whole, INT32_MIN), INT32_MAX)
                                   : whole;
          r[d[rh * 2 + e]] = static_cast<uint32_t>(kept);
        } else {
          r[d[rh * 2 + e]] = to_bits(static_cast<float>(pair[e]));
        }
      }
    }
  }
  return Step::next;
}
Step multiply(Thread& t, const Instruction& i) { return t.block->machine->converge(t, i, ~0u, multiply_all); }

// Whether PTX has this shape for the element type.
bool known_shape(Type type, Shape shape) {
  const uint32_t k16 = 16 / type_size(type);  // elements in 16 bytes
  const bool integer = element_of(type).integer, eight_bit = type_size(type) == 1;
  if (shape.m == 8) return integer && shape.k == 16;
  if (eight_bit && !integer) return shape.m == 16 && (shape.k == 16 || shape.k == 32);
  return shape.m == 16 && (shape.k == k16 || shape.k == 2 * k16);
}

}  // namespace

void decode_mma(Decoder& d) {
  d.take("sync");
  if (!d.take("aligned")) return d.fail(".aligned is missing");
  static constexpr Shape kShapes[] = {{8, 16}, {16, 4}, {16, 8}, {16, 16}, {16, 32}};
  const int shape = d.take_one_of({"m8n8k16", "m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32"});
  d.take("row");
  d.take("col");
  const bool saturates = d.take("satfinite");
  d.take("kind::f8f6f4");
  if (shape < 0) return d.fail("this shape is not supported");
  const Type sum = d.take_type(), a = d.take_type(), b = d.take_type(), c = d.take_type();
  if (sum != c) return d.fail("C and D must have the same type");
  if (sum != Type::f32 && sum != Type::s32 && sum != Type::f16)
    return d.fail("this accumulator type is not supported");
  const bool mixable =
      type_size(a) == 1 && type_size(b) == 1 && element_of(a).integer == element_of(b).integer;
  const bool known = a == Type::f16 || a == Type::bf16 || a == Type::tf32 || a == Type::e4m3 ||
                     a == Type::e5m2 || element_of(a).integer;
  if (!known || (a != b && !mixable) || !known_shape(a, kShapes[shape]))
    return d.fail("this shape does not exist for these types");
  if (element_of(a).integer != (sum == Type::s32) ||
      (sum == Type::f16 && a != Type::f16 && type_size(a) != 1))
    return d.fail("this accumulator type is not supported");
  const uint32_t rows = kShapes[shape].m / 8, halves = kShapes[shape].k * type_size(a) / 16;
  const size_t sums = sum == Type::f16 ? rows : 2 * rows, wanted[] = {sums, rows * halves, halves, sums};
  for (size_t n = 0; n < 4; ++n) {
    const size_t given = d.is_vector(n) ? d.operand(n).elements.size() : 1;
    if (given != wanted[n])
      return d.fail(absl::StrFormat("operand %u has %u registers, not %u", n + 1, given, wanted[n]));
  }
  d.append_destinations(0);
  d.append_sources(1, Type::b32);
  d.append_sources(2, Type::b32);
  d.append_sources(3, sum == Type::f32 ? Type::f32 : Type::b32);
  d.out().flags = static_cast<uint16_t>(static_cast<int>(a) | static_cast<int>(b) << 5 |
                                        (sum == Type::f16 ? 1024 : 0) | (saturates ? 2048 : 0));
  d.out().imm = kShapes[shape].m | kShapes[shape].k << 8;
  d.run(multiply);
}

namespace {

// flags: 1 transposed, 2 generic address. The list: one register per 8x8 matrix of 16-bit elements.
template <bool kStore>
Step move_matrices(Thread& t, const Instruction& i, uint32_t lanes) {
  if (lanes != ~0u)
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "not all 32 lanes of the warp are alive");
  Thread* warp = &t.block->threads[t.warp * 32];
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  for (uint32_t matrix = 0; matrix < i.count; ++matrix) {
    uint16_t* rows[8];
    for (uint32_t row = 0; row < 8; ++row) {
      Thread& owner = warp[matrix * 8 + row];
      uint64_t address = owner.r[i.a] + i.imm;
      if (i.flags & 2) {
        if (address >> kWindowShift != kSharedWindow >> kWindowShift) {
          return t.block->machine->fault(owner, i, absl::StatusCode::kOutOfRange,
                                         "the address of the row is not in shared memory");
        }
        address -= kSharedWindow;
      }
      rows[row] = reinterpret_cast<uint16_t*>(
          locate<Space::shared>(owner, i, address, 16, kStore ? Access::write : Access::read));
      if (rows[row] == nullptr) return Step::fault;
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t group = lane / 4, quad = lane % 4;
      uint16_t* low = (i.flags & 1) != 0 ? &rows[quad * 2][group] : &rows[group][quad * 2];
      uint16_t* high = (i.flags & 1) != 0 ? &rows[quad * 2 + 1][group] : &rows[group][quad * 2 + 1];
      uint64_t& value = warp[lane].r[list[matrix]];
      if (kStore) {
        *low = static_cast<uint16_t>(value);
        *high = static_cast<uint16_t>(value >> 16);
      } else {
        value = *low | static_cast<uint32_t>(*high) << 16;
      }
    }
  }
  if (kStore) ++t.block->machine->progress;
  return Step::next;
}
Step load_matrices(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, ~0u, move_matrices<false>);
}
Step store_matrices(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, ~0u, move_matrices<true>);
}

void decode_matrices(Decoder& d, bool stores) {
  d.take("sync");
  if (!d.take("aligned")) return d.fail(".aligned is missing");
  if (!d.take("m8n8")) return d.fail("only m8n8 is supported");
  const int count = d.take_one_of({"x1", "x2", "x4"});
  const bool transposed = d.take("trans");
  const Space space = take_space(d);
  if (d.take_type() != Type::b16) return d.fail("only b16 is supported");
  if (count < 0 || (space != Space::shared && space != Space::generic))
    return d.fail("this form is not supported");
  const Address place = d.address(stores ? 0 : 1);
  if (stores) {
    d.append_sources(1, Type::b32);
  } else {
    d.append_destinations(0);
  }
  const Operand& registers = d.operand(stores ? 1 : 0);
  if ((registers.kind == Operand::vector ? registers.elements.size() : 1) != size_t{1} << count)
    return d.fail("the number of registers does not match .x1, .x2 or .x4");
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().flags = static_cast<uint16_t>((transposed ? 1 : 0) | (space == Space::generic ? 2 : 0));
  d.run(stores ? store_matrices : load_matrices);
}

Step transpose_all(Thread& t, const Instruction& i, uint32_t lanes) {
  if (lanes != ~0u)
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   "not all 32 lanes of the warp are alive");
  Thread* warp = &t.block->threads[t.warp * 32];
  uint16_t matrix[8][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t e = 0; e < 2; ++e)
      matrix[lane / 4][lane % 4 * 2 + e] = static_cast<uint16_t>(warp[lane].r[i.a] >> (16 * e));
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    warp[lane].r[i.d] =
        matrix[lane % 4 * 2][lane / 4] | static_cast<uint32_t>(matrix[lane % 4 * 2 + 1][lane / 4]) << 16;
  }
  return Step::next;
}
Step transpose(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, ~0u, transpose_all);
}

}  // namespace

void decode_ldmatrix(Decoder& d) { decode_matrices(d, false); }
void decode_stmatrix(Decoder& d) { decode_matrices(d, true); }
void decode_movmatrix(Decoder& d) {
  d.take("sync");
  d.take("aligned");
  d.take("m8n8");
  d.take("trans");
  d.take_type();
  d.unary(transpose, Type::b32);
}

}  // namespace lathe::ptx
