// "rows": a workgroup takes tile_m rows, or a chunk of one row, with a group of threads for each row. A group
// reads its row in loads of 16 bytes, several of them in flight in each thread. A thread keeps the greatest
// value and the 16 bytes that contain it, and looks up which element it is once, at the end. Comparing every
// element together with its column would take two to three times as many instructions.
#include "kernels/argmax/emit_gpu.h"

#include <limits>

#include "core/plan.h"
#include "kernels/argmax/emit_keys.h"
#include "kernels/argmax/emit_ukernel.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kVectorBytes = 16, kWords = 4;

Value select(Emit& e, Value c, Value x, Value y) { return arith::SelectOp::create(e.b, e.loc, c, x, y); }
// An i32 sum that may wrap or reach 2^31.
Value add_wide(Emit& e, Value x, int64_t y) { return arith::AddIOp::create(e.b, e.loc, x, e.i32(y)); }
Value largest(Emit& e, Value x, Value y) { return LLVM::MaximumOp::create(e.b, e.loc, x, y); }

// The data of one load: 16 bytes as four words or, if rows are aligned to bytes only, one element.
class Loaded {
 public:
  Loaded(const GpuKernel& kernel, Type element)
      : element_(element),
        bytes_(element.getIntOrFloatBitWidth() / 8),
        packed_(has_packed_maximum(kernel)),
        by_vector_(kernel.alignment() != Alignment::kByte) {}

  bool by_vector() const { return by_vector_; }
  int64_t bytes() const { return bytes_; }  // of an element
  int64_t elements() const { return by_vector_ ? kVectorBytes / bytes_ : 1; }
  // Words in which all elements are -inf.
  Values lowest(Emit& e) const {
    const int64_t f32 = INT32_C(-0x800000), bf16 = f32 >> 16, f16 = INT32_C(-0x400);
    if (element_.isF32()) return Values(by_vector_ ? kWords : 1, e.i32(f32));
    const int64_t bits = element_.isBF16() ? bf16 : f16;
    if (!by_vector_) return {e.constant(e.b.getI16Type(), bits)};
    return Values(kWords, e.i32(static_cast<int32_t>(static_cast<uint32_t>(bits) << 16 | (bits & 0xFFFF))));
  }

  // Loads the words at `at` (an !llvm.ptr).
  Values load(Emit& e, Value at) const {
    if (!by_vector_) {
      Type raw = e.b.getIntegerType(static_cast<unsigned>(8 * bytes_));
      return {LLVM::LoadOp::create(e.b, e.loc, raw, at, /*alignment=*/1)};
    }
    Value v = LLVM::LoadOp::create(e.b, e.loc, e.vec(kWords, e.b.getI32Type()), at, kVectorBytes);
    Values words;
    for (int64_t w = 0; w < kWords; ++w)
      words.push_back(vector::ExtractOp::create(e.b, e.loc, v, ArrayRef<int64_t>{w}));
    return words;
  }

  // The value (f32) of an element's bits.
  Value as_f32(Emit& e, Value bits) const {
    return e.to_f32(arith::BitcastOp::create(e.b, e.loc, element_, bits));
  }

  // The greatest element as f32; a NaN if there is one.
  Value greatest(Emit& e, const Values& words) const {
    if (packed_ && elements() == 8) {
      Values pairs;
      for (Value w : words) pairs.push_back(LLVM::BitcastOp::create(e.b, e.loc, e.vec(2, element_), w));
      Value raw = LLVM::BitcastOp::create(e.b, e.loc, e.b.getI32Type(), fold(e, pairs));
      return fold(e, of_word(e, raw));
    }
    Values all;
    for (Value w : words) all.append(of_word(e, w));
    return fold(e, all);
  }

  // The first element that equals `greatest`, and its position.
  Best find(Emit& e, const Values& words, Value greatest) const {
    Values all;
    for (Value w : words) all.append(of_word(e, w));
    Best found{all.back(), e.i32(elements() - 1)};
    for (int64_t j = elements() - 2; j >= 0; --j) {
      auto compare = [&](arith::CmpFPredicate p, Value y) -> Value {
        return arith::CmpFOp::create(e.b, e.loc, p, all[j], y);
      };
      // An element can only be a NaN if `greatest` is one, and then no element equals it.
      Value hit = arith::OrIOp::create(e.b, e.loc, compare(arith::CmpFPredicate::OEQ, greatest),
                                       compare(arith::CmpFPredicate::UNO, all[j]));
      found = {select(e, hit, all[j], found.value), select(e, hit, e.i32(j), found.column)};
    }
    return found;
  }

 private:
  // Whether the target has max.NaN for two 16-bit numbers at once.
  static bool has_packed_maximum(const GpuKernel& kernel) {
    int sm = 0;
    StringRef arch = kernel.arch();
    return arch.consume_front("sm_") && !arch.consumeInteger(10, sm) && sm >= 80;
  }

  static Value fold(Emit& e, Values all) {
    for (size_t n = all.size(); n > 1; n = (n + 1) / 2)
      for (size_t i = 0; i < n / 2; ++i) all[i] = largest(e, all[i], all[n - 1 - i]);
    return all[0];
  }

  // The elements of one word, in memory order.
  Values of_word(Emit& e, Value word) const {
    if (element_.isF32() || word.getType().isInteger(16)) return {as_f32(e, word)};
    auto half = [&](Value bits) {
      return as_f32(e, arith::TruncIOp::create(e.b, e.loc, e.b.getI16Type(), bits));
    };
    if (!element_.isBF16()) return {half(word), half(arith::ShRUIOp::create(e.b, e.loc, word, e.i32(16)))};
    // A bf16 is the upper half of its f32.
    auto bits = [&](Value x) -> Value { return arith::BitcastOp::create(e.b, e.loc, e.f32(), x); };
    return {bits(arith::ShLIOp::create(e.b, e.loc, word, e.i32(16))),
            bits(arith::AndIOp::create(e.b, e.loc, word, e.i32(-0x10000)))};
  }

  Type element_;
  int64_t bytes_;
  bool packed_, by_vector_;
};

// One group's scan of a slice of a row.
class RowScan {
 public:
  // `place` (i32): the thread's number in its group. `at`: the slice's first element in v. `length` (i32, >=
  // 1): its number of elements.
  RowScan(Emit& e, const GpuKernel& kernel, const View& v, Value at, Value length, Value place, int64_t group)
      : e_(e), loaded_(kernel, v.element), length_(length), place_(place), group_(group) {
    first_ = pointer_to(e, v.memory, at);
    head_ = e.i32(0);
    if (loaded_.by_vector() && kernel.alignment() != Alignment::k16) {
      // Elements before the first address that is a multiple of 16.
      Value address = LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI64Type(), first_);
      Value low = arith::TruncIOp::create(e.b, e.loc, e.b.getI32Type(), address);
      Value negated = arith::SubIOp::create(e.b, e.loc, e.i32(0), low);
      Value to_next = arith::AndIOp::create(e.b, e.loc, negated, e.i32(kVectorBytes - 1));
      head_ = e.min(e.div(to_next, e.i32(loaded_.bytes())), length);
    }
    count_ = e.div(e.sub(length, head_), e.i32(loaded_.elements()));
  }

  // The best of what this thread reads.
  Best best(int64_t unroll) {
    if (!loaded_.by_vector()) return vectors(unroll);
    Best edge = edges();  // its load is in flight while the vectors are read
    return better(e_, vectors(unroll), edge);
  }

 private:
  // The elements before the first whole vector and after the last one, one per thread; both are less than a vector.
  Best edges() {
    const int64_t most = loaded_.elements();
    Value tail = e_.sub(e_.sub(length_, head_), e_.mul(count_, most));
    Value in_head = e_.less(place_, head_);
    Value behind = add_wide(e_, place_, -most);  // threads from `most` on take the tail
    Value in_tail = e_.less(behind, tail);
    Value exists = arith::OrIOp::create(e_.b, e_.loc, in_head, in_tail);
    Value column = select(e_, in_tail, e_.add(e_.sub(length_, tail), behind), place_);
    // No branch, so that the vectors' loads need not wait for this one. Column 0 always exists.
    Value from = select(e_, exists, column, e_.i32(0));
    Value x =
        LLVM::LoadOp::create(e_.b, e_.loc, e_.b.getIntegerType(static_cast<unsigned>(8 * loaded_.bytes())),
                             gep(first_, from, loaded_.bytes()), static_cast<unsigned>(loaded_.bytes()));
    Best none = nothing(e_);
    return {select(e_, exists, loaded_.as_f32(e_, x), none.value), select(e_, exists, column, none.column)};
  }

  // Beyond the last vector, that vector is read again, which changes nothing. A thread without any vector
  // ends with -inf in a column after the row's end, which loses to the row's first element.
  Best vectors(int64_t unroll) {
    const Value start = gep(first_, head_, loaded_.bytes());
    const int64_t stride = loaded_.elements() * loaded_.bytes();
    Value last = e_.sub(count_, e_.i32(1));
    Values state = {e_.constant_f32(-std::numeric_limits<float>::infinity()), place_};
    state.append(loaded_.lowest(e_));
    const auto step = [&](Value first, const Values& in) {
      Values at, s = in;
      llvm::SmallVector<Values> read;
      for (int64_t u = 0; u < unroll; ++u) {
        at.push_back(arith::MinUIOp::create(e_.b, e_.loc, add_wide(e_, e_.to_i32(first), u * group_), last));
        read.push_back(loaded_.load(e_, gep(start, at[u], stride)));
      }
      for (int64_t u = 0; u < unroll; ++u) {
        Value x = loaded_.greatest(e_, read[u]);
        Value take = rises(e_, x, s[0]);
        s[0] = select(e_, take, x, s[0]);
        s[1] = select(e_, take, at[u], s[1]);
        for (size_t w = 0; w < read[u].size(); ++w) s[2 + w] = select(e_, take, read[u][w], s[2 + w]);
      }
      return s;
    };
    state = e_.loop(e_.to_index(place_), e_.to_index(count_), unroll * group_, state, step);
    Best best = loaded_.find(e_, Values(state.begin() + 2, state.end()), state[0]);
    Value column = arith::MulIOp::create(e_.b, e_.loc, state[1], e_.i32(loaded_.elements()));
    column = arith::AddIOp::create(e_.b, e_.loc, column, e_.add(head_, best.column));
    return {best.value, column};
  }

  // `pointer` plus `i` (i32, unsigned) units of `bytes`.
  Value gep(Value pointer, Value i, int64_t bytes) {
    Value wide = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI64Type(), i);
    Type unit = LLVM::LLVMArrayType::get(e_.b.getI8Type(), static_cast<uint64_t>(bytes));
    return LLVM::GEPOp::create(e_.b, e_.loc, pointer.getType(), unit, pointer, ArrayRef<LLVM::GEPArg>{wide});
  }

  Emit& e_;
  Loaded loaded_;
  Value length_, place_, first_, head_, count_;
  int64_t group_;
};

LogicalResult check(GpuKernel& kernel, Operation* op) {
  ir::KernelConfigAttr config = kernel.config();
  const int64_t threads = kernel.threads(), rows = config.tile_m();
  if (rows < 1 || threads % rows != 0)
    return op->emitError("kernel_config: tile_m does not divide the threads");
  const int64_t group = threads / rows;
  if ((group & (group - 1)) != 0 || group < kVectorBytes)
    return op->emitError("kernel_config: threads / tile_m must be a power of two of at least 16");
  if (config.split() != kNoSplit && rows != 1) return op->emitError("kernel_config: a split needs tile_m 1");
  return success();
}

bool wants_values(const TileProgram& p) {
  for (Value result : p.argmax->getResults())
    if (p.views.contains(result) && isa<FloatType>(p.views.find(result)->second.element)) return true;
  return false;
}

// Stores a row's best value and column. With one chunk per row this happens at once; else the workgroup of the row that
// arrives last does it. `merge` is the step that merges the pairs in the payload. This kernel merges keys instead of
// pairs (emit_keys.h), so one thread is enough.
void store_merged(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p, const TileProgram& merge,
                  const Best& best) {
  const Arguments& arguments = step.arguments();
  Value zero = e.idx(0), splits = arguments.get("splits"), offset = arguments.get("index_offset");
  const auto whole = [&] {
    store_best(e, merge, zero, best, offset);
    return Values();
  };
  const auto merged = [&] {
    RowKeys keys(e, kernel, arguments);
    Value row = step.block(e).x;
    keys.raise(row, pack(e, {best.value, e.add(best.column, e.to_i32(p.first_column))}));
    e.when(kernel.take_ticket(keys.ticket_counter(row), splits), [&] {
      Best last = unpack(e, keys.take(row));
      if (wants_values(merge)) {  // reads it again: keys do not distinguish zeros
        const View& v = p.views.find(cast<linalg::GenericOp>(p.argmax).getDpsInputs()[0])->second;
        Value column = arith::IndexCastUIOp::create(e.b, e.loc, e.index(), last.column);
        Value at = e.add(e.sub(v.offset, p.first_column), column);
        last.value = e.to_f32(e.load(v.memory, at, v.alignment));
      }
      store_best(e, merge, zero, last, offset);
    });
    return Values();
  };
  e.when(e.equal(kernel.thread(), zero), [&] { e.choose(e.equal(splits, e.idx(1)), {}, whole, merged); });
}

// The best of a row's slice from `at` on, in the first thread of the group that scans it.
llvm::FailureOr<Best> scan_group(Emit& e, GpuKernel& kernel, const TileProgram& p, Value at, Value place,
                                 int64_t group) {
  const View& v = p.views.find(cast<linalg::GenericOp>(p.argmax).getDpsInputs()[0])->second;
  Value length = e.to_i32(p.depth);
  if (auto ukernel = p.argmax->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr))
    return ukernel_group(e, kernel, ukernel, v, at, length, place, group);
  const Best mine =
      RowScan(e, kernel, v, at, length, place, group).best(kernel.config<GpuRowsConfig>().loads);
  return reduce_group(e, kernel, mine, group);
}

LogicalResult emit_scan(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p) {
  if (failed(check(kernel, p.argmax))) return failure();
  ir::KernelConfigAttr config = kernel.config();
  // Without this hint ptxas uses 32 registers for workgroups of 1024 threads, and spills one.
  if (kernel.arch().starts_with("sm_")) kernel.facts.function_attributes.push_back({"nvvm.minctasm", "1"});
  const int64_t group = kernel.threads() / config.tile_m();
  const View& v = p.views.find(cast<linalg::GenericOp>(p.argmax).getDpsInputs()[0])->second;
  const bool one = config.tile_m() == 1;
  Value row = one ? e.idx(0) : e.div(kernel.thread(), e.idx(group));
  Value place = e.to_i32(one ? kernel.thread() : e.rem(kernel.thread(), e.idx(group)));
  // Groups after the last row read that row again.
  Value at = e.add(v.offset, e.mul(e.min(row, e.sub(p.rows, e.idx(1))), v.row_stride));
  llvm::FailureOr<Best> found = scan_group(e, kernel, p, at, place, group);
  if (failed(found)) return failure();
  const Best best = *found;
  if (step.merges()) {
    FailureOr<TileProgram> merge = step.merge_at(e, step.block(e));
    if (failed(merge)) return failure();
    store_merged(e, kernel, step, p, *merge, best);
    return success();
  }
  Value leads = arith::AndIOp::create(e.b, e.loc, e.equal(place, e.i32(0)), e.less(row, p.rows));
  Value offset = config.split() ? p.first_column : step.arguments().get("index_offset");
  e.when(leads, [&] { store_best(e, p, row, best, offset); });
  return success();
}

LogicalResult emit_step(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  FailureOr<TileProgram> program = step.at(e, step.block(e));
  if (failed(program)) return failure();
  if (!program->argmax) return emitError(e.loc, "an argmax step needs a reduction of values and columns");
  if (!step.is_merge()) return emit_scan(e, kernel, step, *program);
  emit_pairs_merge(e, kernel, step, *program);
  return success();
}

}  // namespace

LogicalResult emit_argmax_gpu(ModuleOp module) { return emit_gpu_kernels(module, emit_step); }

}  // namespace lathe::emit
