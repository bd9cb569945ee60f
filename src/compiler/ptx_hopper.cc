#include "compiler/ptx_hopper.h"

#include "absl/strings/str_cat.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Values fields_of(Emit& e, Value structure, int64_t count) {
  if (count == 1) return {structure};
  Values fields;
  for (int64_t i = 0; i < count; ++i)
    fields.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, structure, ArrayRef<int64_t>{i}));
  return fields;
}

Type struct_of(Type element, int64_t count) {
  if (count == 1) return element;
  return LLVM::LLVMStructType::getLiteral(element.getContext(), SmallVector<Type>(count, element));
}

// Returns "", ".v2" or ".v4".
std::string vector_suffix(int64_t count) { return count == 1 ? "" : absl::StrCat(".v", count); }

// Returns "$first" or "{$first, ...}".
std::string operand_list(int64_t first, int64_t count) {
  if (count == 1) return absl::StrCat("$", first);
  std::string text = "{";
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&text, i ? ", $" : "$", first + i);
  return text + "}";
}

std::string repeated(absl::string_view constraint, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&text, i ? "," : "", constraint);
  return text;
}

// The constraint of a 32-bit register for a value of this type.
const char* constraint_of(Type type) { return type.isF32() ? "f" : "r"; }

Values load_from(Emit& e, absl::string_view space, Value at, int64_t offset, int64_t count, Type element) {
  if (!element) element = e.f32();
  const std::string text = absl::StrCat("ld.", space, vector_suffix(count), ".b32 ", operand_list(0, count),
                                        ", [$", count, "+", offset, "];");
  const std::string results = repeated(absl::StrCat("=", constraint_of(element)), count);
  return fields_of(e, inline_ptx(e, text, results + ",r,~{memory}", at, struct_of(element, count)), count);
}

// The type's name in the instruction; empty if wgmma does not support it.
absl::string_view element_name(Type type) {
  if (type.isF16()) return "f16";
  if (type.isBF16()) return "bf16";
  if (isa<Float8E4M3FNType>(type)) return "e4m3";
  if (isa<Float8E5M2Type>(type)) return "e5m2";
  return type.isInteger(8) ? "s8" : "";
}

// Inline PTX whose results replace `sums`, each in the same register. Otherwise LLVM could insert copies between
// the products, and the assembler would have to wait for the products before each copy.
Value tied(Emit& e, const WarpgroupProduct& p, Value sums, const std::string& text, ValueRange others,
           absl::string_view constraints) {
  const int64_t count = p.registers();
  std::string all = repeated(absl::StrCat("=", constraint_of(p.sum)), count);
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&all, ",", i);
  absl::StrAppend(&all, constraints, ",~{memory}");
  Values operands = fields_of(e, sums, count);
  operands.append(others.begin(), others.end());
  return inline_ptx(e, text, all, operands, sums.getType());
}

}  // namespace

Value inline_ptx(Emit& e, StringRef text, StringRef constraints, ValueRange operands, Type result) {
  auto dialect = LLVM::AsmDialectAttr::get(e.b.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op = LLVM::InlineAsmOp::create(
      e.b, e.loc, result, operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None, dialect, ArrayAttr());
  return result ? op.getResult(0) : Value();
}

// --- threads

Value uniform_warp(Emit& e, Value thread) {
  Value warp = e.div(thread, e.i32(32));
  return inline_ptx(e, "shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "=r,r", warp, e.b.getI32Type());
}
Value elect_lane(Emit& e) {
  Value chosen = inline_ptx(e, "{ .reg .pred p; elect.sync _|p, -1; selp.b32 $0, 1, 0, p; }", "=r", {},
                            e.b.getI32Type());
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, chosen, e.i32(0));
}
void sync_warp(Emit& e) { inline_ptx(e, "bar.warp.sync -1;", "~{memory}", {}); }
void named_barrier(Emit& e, int64_t barrier, int64_t threads) {
  inline_ptx(e, absl::StrCat("bar.sync ", barrier, ", ", threads, ";"), "~{memory}", {});
}
void increase_registers(Emit& e, int64_t count) {
  inline_ptx(e, absl::StrCat("setmaxnreg.inc.sync.aligned.u32 ", count, ";"), "", {});
}
void decrease_registers(Emit& e, int64_t count) {
  inline_ptx(e, absl::StrCat("setmaxnreg.dec.sync.aligned.u32 ", count, ";"), "", {});
}

// --- barriers in shared memory

void init_barrier(Emit& e, Value barrier, int64_t arrivals) {
  inline_ptx(e, absl::StrCat("mbarrier.init.shared::cta.b64 [$0], ", arrivals, ";"), "r,~{memory}", barrier);
}
void fence_barrier_init(Emit& e) { inline_ptx(e, "fence.mbarrier_init.release.cluster;", "~{memory}", {}); }
void arrive_expecting(Emit& e, Value barrier, int64_t bytes) {
  inline_ptx(e, absl::StrCat("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], ", bytes, ";"),
             "r,~{memory}", barrier);
}
void arrive(Emit& e, Value barrier) {
  inline_ptx(e, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", barrier);
}
void arrive_at(Emit& e, Value barrier, Value rank) {
  inline_ptx(e,
             "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
             "mbarrier.arrive.shared::cluster.b64 _, [there]; }",
             "r,r,~{memory}", {barrier, rank});
}
void wait_barrier(Emit& e, Value barrier, Value parity) {
  inline_ptx(e,
             "{ .reg .pred done; wait_${:uid}: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
             "@!done bra wait_${:uid}; }",
             "r,r,~{memory}", {barrier, parity});
}

// --- tensor copies

void prefetch_map(Emit& e, Value map) { inline_ptx(e, "prefetch.tensormap [$0];", "l", map); }
void copy_in(Emit& e, Value shared, Value map, const Coordinates& at, Value barrier, Value mask) {
  Values operands = {shared, map, at[0], at[1], at[2], barrier};
  if (mask) operands.push_back(mask);
  inline_ptx(e,
             absl::StrCat("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes",
                          mask ? ".multicast::cluster" : "", " [$0], [$1, {$2, $3, $4}], [$5]",
                          mask ? ", $6;" : ";"),
             mask ? "r,l,r,r,r,r,h,~{memory}" : "r,l,r,r,r,r,~{memory}", operands);
}
void copy_out(Emit& e, Value map, const Coordinates& at, Value shared) {
  inline_ptx(e, "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [$0, {$1, $2, $3}], [$4];",
             "l,r,r,r,r,~{memory}", {map, at[0], at[1], at[2], shared});
}
void commit_copies_out(Emit& e) { inline_ptx(e, "cp.async.bulk.commit_group;", "~{memory}", {}); }
void wait_copies_read(Emit& e, int64_t groups) {
  inline_ptx(e, absl::StrCat("cp.async.bulk.wait_group.read ", groups, ";"), "~{memory}", {});
}
void fence_copies(Emit& e) { inline_ptx(e, "fence.proxy.async.shared::cta;", "~{memory}", {}); }

// --- shared memory as f32

void store_shared(Emit& e, Value at, int64_t offset, ValueRange values) {
  const int64_t count = values.size();
  Values operands = {at};
  operands.append(values.begin(), values.end());
  inline_ptx(e,
             absl::StrCat("st.shared", vector_suffix(count), ".b32 [$0+", offset, "], ",
                          operand_list(1, count), ";"),
             absl::StrCat("r,", repeated(constraint_of(values[0].getType()), count), ",~{memory}"), operands);
}
Values load_shared(Emit& e, Value at, int64_t offset, int64_t count, Type element) {
  return load_from(e, "shared", at, offset, count, element);
}
Values load_cluster(Emit& e, Value at, int64_t offset, int64_t count, Type element) {
  return load_from(e, "shared::cluster", at, offset, count, element);
}
Value address_at(Emit& e, Value shared, Value rank) {
  return inline_ptx(e, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", {shared, rank}, e.b.getI32Type());
}

void store_matrices(Emit& e, Value row, ValueRange registers) {
  Values operands = {row};
  operands.append(registers.begin(), registers.end());
  inline_ptx(e, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}",
             operands);
}

// --- clusters

Value cluster_rank(Emit& e) {
  return inline_ptx(e, "mov.u32 $0, %cluster_ctarank;", "=r", {}, e.b.getI32Type());
}
void cluster_barrier(Emit& e) {
  inline_ptx(e, "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", "~{memory}", {});
}

// --- warpgroup products

// Fields in units of 16 bytes: the address in bits 0 to 13, the leading offset from bit 16, the stride from bit
// 32. The value 1 in bits 62 and 63 selects the 128-byte swizzle (PTX ISA, wgmma matrix descriptor format).
Value operand_descriptor(Emit& e, Value shared, int64_t leading, int64_t stride) {
  Type i64 = e.b.getI64Type();
  Value address = e.div(arith::AndIOp::create(e.b, e.loc, shared, e.i32(0x3FFFF)), e.i32(16));
  const int64_t rest = int64_t{1} << 62 | (stride / 16) << 32 | (leading / 16) << 16;
  return arith::OrIOp::create(e.b, e.loc, arith::ExtUIOp::create(e.b, e.loc, i64, address),
                              e.constant(i64, rest));
}
Value move_descriptor(Emit& e, Value descriptor, Value bytes) {
  Value units = arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), e.div(bytes, e.i32(16)));
  return e.add(descriptor, units);
}

bool multiplies_in_warpgroup(Type a, Type b) {
  if (element_name(a).empty() || element_name(b).empty()) return false;
  return a == b || (isa<FloatType>(a) && a.getIntOrFloatBitWidth() == 8 && isa<FloatType>(b) &&
                    b.getIntOrFloatBitWidth() == 8);
}

Value undefined_sums(Emit& e, const WarpgroupProduct& p) {
  return LLVM::UndefOp::create(e.b, e.loc, struct_of(p.sum, p.registers()));
}
Value zero_sums(Emit& e, const WarpgroupProduct& p) {
  return LLVM::ZeroOp::create(e.b, e.loc, struct_of(p.sum, p.registers()));
}

Value multiply_warpgroup(Emit& e, const WarpgroupProduct& p, Value sums, Value a, Value b, Value accumulate,
                         int64_t in_flight) {
  const int64_t first = 2 * p.registers(), each = p.n / 2, bits = p.a.getIntOrFloatBitWidth();
  const std::string at_a = absl::StrCat("$", first), at_b = absl::StrCat("$", first + 1);
  const std::string shape =
      absl::StrCat("wgmma.mma_async.sync.aligned.m64n", p.n, "k", 256 / bits, ".",
                   p.sum.isF32() ? "f32" : "s32", ".", element_name(p.a), ".", element_name(p.b));
  // The factors 1 mean that no operand is negated. Only 16-bit operands can be transposed.
  std::string modifiers = p.sum.isF32() ? ", 1, 1" : "";
  if (bits == 16) absl::StrAppend(&modifiers, ", ", p.a_k_major ? 0 : 1, ", ", p.b_k_major ? 0 : 1);
  std::string text = absl::StrCat("{ .reg .pred some, all; .reg .b64 a, b; setp.ne.b32 some, $", first + 2,
                                  ", 0; setp.eq.u32 all, 0, 0; wgmma.fence.sync.aligned;\n");
  for (int64_t s = 0; s < p.steps; ++s) {
    absl::StrAppend(&text, "add.s64 b, ", at_b, ", ", p.b_offset(s) / 16, ";\n");
    for (int64_t r = 0; r < p.blocks; ++r)
      absl::StrAppend(&text, "add.s64 a, ", at_a, ", ", p.a_offset(r, s) / 16, "; ", shape, " ",
                      operand_list(r * each, each), ", a, b, ", s == 0 ? "some" : "all", modifiers, ";\n");
  }
  absl::StrAppend(&text, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned ", in_flight, "; }");
  return tied(e, p, sums, text, {a, b, accumulate}, ",l,l,r");
}
Values sums_of(Emit& e, const WarpgroupProduct& p, Value sums) { return fields_of(e, sums, p.registers()); }
Values wait_sums(Emit& e, const WarpgroupProduct& p, Value sums) {
  return fields_of(e, tied(e, p, sums, "wgmma.wait_group.sync.aligned 0;", {}, ""), p.registers());
}

}  // namespace lathe::emit
