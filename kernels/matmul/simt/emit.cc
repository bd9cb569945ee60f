// One workgroup computes one tile. For every tile_k of K its threads load parts of A and B into registers,
// store them to shared memory as f32 (i8: as i32) with K outermost, and multiply from there; the next parts
// are loaded during the multiplication. A thread's register_m x register_n accumulators form groups of up to
// four adjacent rows and columns, so that one load fetches four operands.
#include <algorithm>
#include <numeric>

#include "kernels/matmul/mma/emit_operand.h"
#include "kernels/matmul/simt/emit_stage.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// Limits of the innermost loop's body. FMAs: enough to hide the loads, few enough to compile fast. Steps of k: LLVM
// loads the operands of all steps first, and those of more steps would not fit into registers.
constexpr int64_t kFmasPerBody = 256, kStepsPerBody = 8;
// FMAs per body for i8 on AMD: LLVM computes all products of a body before it adds them, and more would spill
// on gfx1100.
constexpr int64_t kIntegersPerBody = 64;

// An operand with an address for each element.
class StagedElements : public StagedOperand {
 public:
  StagedElements(Emit& e, const GpuKernel& kernel, const StagedPart& part)
      : StagedOperand(e, kernel, part),
        k_contiguous_(view_.k_contiguous ? view_.k_contiguous
                                         : e.constant(e.b.getI1Type(), part.k_contiguous)),
        line_stride_(pick(view_.row_stride, e.idx(1))),
        k_stride_(pick(e.idx(1), view_.row_stride)),
        rocm_(kernel.rocm()) {
    for (int64_t i = 0; i < (width_ * depth_ + threads_ - 1) / threads_; ++i)
      elements_.push_back(element(kernel.thread(), i));
  }

  Values load(Value k0, Value depth) override {
    Value last_k = e_.sub(depth, e_.idx(1));
    Values loaded;
    for (const Element& x : elements_) {
      if (rocm_ && !loaded.empty() && loaded.size() % kLoadsTogether == 0) pin_schedule(e_);
      Value inside = e_.min(e_.add(k0, x.k), last_k);
      Value at = e_.add(x.base, e_.mul(inside, k_stride_));
      loaded.push_back(e_.load(view_.memory, at, view_.alignment));
    }
    return loaded;
  }

  void store(ArrayRef<Value> loaded, Value shared, int64_t offset, Value k0, Value depth) override {
    const bool whole = has_whole_blocks(depth);
    for (auto [x, v] : llvm::zip(elements_, loaded)) {
      Value at = e_.add(e_.add(e_.mul(x.k, stride()), x.row), offset), kept = v;
      if (!whole)
        kept =
            arith::SelectOp::create(e_.b, e_.loc, e_.less(e_.add(k0, x.k), depth), v, e_.zero(view_.element));
      if (x.exists)
        e_.when(x.exists, [&] { e_.store(e_.to_factor(kept), shared, at); });
      else
        e_.store(e_.to_factor(kept), shared, at);
    }
  }

 private:
  struct Element {
    Value row, k;  // in the tile
    Value base;    // offset in memory at k = 0
    Value exists;  // whether the thread has the element; null: all threads have
  };

  // `along_k` if the operand is K-contiguous, else `across`.
  Value pick(Value along_k, Value across) {
    if (auto known = Emit::known(k_contiguous_)) return *known ? along_k : across;
    return arith::SelectOp::create(e_.b, e_.loc, k_contiguous_, along_k, across);
  }

  // Position of this thread's i-th element in a line of `inner` elements that are contiguous in memory, and
  // the line's number. Adjacent threads get adjacent elements.
  std::pair<Value, Value> place(Value thread, int64_t i, int64_t inner) {
    Value linear = e_.add(thread, i * threads_);
    Value low = e_.rem(linear, e_.idx(inner)), high = e_.div(linear, e_.idx(inner));
    // The position is the same in every line: make that visible, so that addresses are shared.
    if (threads_ % inner == 0) {
      low = e_.rem(thread, e_.idx(inner));
      high = e_.add(e_.div(thread, e_.idx(inner)), i * (threads_ / inner));
    }
    return {low, high};
  }

  Element element(Value thread, int64_t i) {
    Element x;
    const auto known = Emit::known(k_contiguous_);
    if (!known || *known) std::tie(x.k, x.row) = place(thread, i, depth_);
    if (!known || !*known) {
      auto [row, k] = place(thread, i, width_);
      x.row = x.row ? pick(x.row, row) : row;
      x.k = x.k ? pick(x.k, k) : k;
    }
    Value line = e_.min(x.row, last_);
    x.base = e_.add(view_.offset, view_.lists_rows() ? row_at(e_, view_, line) : e_.mul(line, line_stride_));
    if ((i + 1) * threads_ > width_ * depth_)
      x.exists = e_.less(e_.add(thread, i * threads_), e_.idx(width_ * depth_));
    return x;
  }

  Value k_contiguous_;  // i1
  Value line_stride_, k_stride_;
  bool rocm_;
  SmallVector<Element> elements_;
};

std::unique_ptr<StagedOperand> make_staged(Emit& e, const GpuKernel& kernel, const StagedPart& part) {
  if (part.view.blocks != DType::kNone) return stage_blocks(e, kernel, part);
  return std::make_unique<StagedElements>(e, kernel, part);
}

// The tile's row (or column) for register `i` of the thread at `place` of `places`: groups of `vector`
// adjacent rows, interleaved over all threads.
Value spread(Emit& e, Value i, Value place, int64_t places, int64_t vector) {
  Value group = e.div(i, e.idx(vector)), within = e.rem(i, e.idx(vector));
  return e.add(e.add(e.mul(group, places * vector), e.mul(place, vector)), within);
}

class SimtTile {
 public:
  SimtTile(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p)
      : e_(e),
        kernel_(kernel),
        p_(p),
        sum_type_(getElementTypeOrSelf(p.contraction.getDpsInits()[0])),
        rm_(kernel.config<SimtConfig>().register_m),
        rn_(kernel.config<SimtConfig>().register_n),
        places_m_(kernel.config<SimtConfig>().tile_m / rm_),
        places_n_(kernel.config<SimtConfig>().tile_n / rn_),
        place_m_(e.div(kernel.thread(), e.idx(places_n_))),
        place_n_(e.rem(kernel.thread(), e.idx(places_n_))),
        a_(make_staged(e, kernel,
                       {view(0), k_contiguous(p.contraction, 0), kernel.config<SimtConfig>().tile_m, rm_,
                        p.rows, scale_places(e, step, p, 0)})),
        b_(make_staged(e, kernel,
                       {view(1), k_contiguous(p.contraction, 1), kernel.config<SimtConfig>().tile_n, rn_,
                        p.columns, scale_places(e, step, p, 1)})) {}

  void emit(OutputSink& sink) {
    // B's part starts at a multiple of kVector. A's part ends at a multiple of A's vector, which may be narrower.
    constexpr int64_t kVector = StagedOperand::kVector;
    b_offset_ = (a_->shared_elements() + kVector - 1) / kVector * kVector;
    shared_ = kernel_.shared(sum_type_, b_offset_ + b_->shared_elements());
    const int64_t depth = kernel_.config<SimtConfig>().tile_k;
    const size_t sums = rm_ * rn_;
    Values carried(sums, e_.zero(sum_type_));
    append(carried, a_->load(e_.idx(0), p_.depth));
    const size_t of_a = carried.size() - sums;
    append(carried, b_->load(e_.idx(0), p_.depth));
    carried = e_.loop(e_.idx(0), p_.depth, depth, carried, [&](Value k0, const Values& in) {
      ArrayRef<Value> state(in);
      a_->store(state.slice(sums, of_a), shared_, 0, k0, p_.depth);
      b_->store(state.drop_front(sums + of_a), shared_, b_offset_, k0, p_.depth);
      kernel_.barrier();
      Value next_k = e_.add(k0, depth);
      Values next = a_->load(next_k, p_.depth);
      append(next, b_->load(next_k, p_.depth));
      Values out = multiply(Values(state.take_front(sums)));
      kernel_.barrier();
      append(out, next);
      return out;
    });
    carried.truncate(sums);
    write(carried, sink);
  }

 private:
  const View& view(unsigned operand) { return p_.views.find(p_.contraction.getDpsInputs()[operand])->second; }
  static void append(Values& to, const Values& from) { to.append(from.begin(), from.end()); }

  // Loads this thread's `size` elements of one operand at k.
  Values operands(const StagedOperand& x, Value k, Value place, int64_t places, int64_t size,
                  int64_t offset) {
    Value row = e_.add(e_.mul(k, x.stride()), offset);
    Values result;
    for (int64_t i = 0; i < size; i += x.vector()) {
      Value at = e_.add(row, spread(e_, e_.idx(i), place, places, x.vector()));
      if (x.vector() == 1) {
        result.push_back(e_.load(shared_, at));
        continue;
      }
      Value v = vector::LoadOp::create(e_.b, e_.loc, e_.vec(x.vector(), sum_type_), shared_, ValueRange(at),
                                       /*nontemporal=*/false, llvm::MaybeAlign(4 * x.vector()));
      for (int64_t l = 0; l < x.vector(); ++l)
        result.push_back(vector::ExtractOp::create(e_.b, e_.loc, v, ArrayRef<int64_t>{l}));
    }
    return result;
  }

  // AMD multiplies 24-bit integers, which are enough for i8, four times as fast as 32-bit ones.
  Value multiply_add(Value x, Value y, Value sum) {
    if (!kernel_.rocm() || !sum.getType().isInteger()) return e_.fma(x, y, sum);
    Type type = sum.getType();
    Value product = LLVM::CallIntrinsicOp::create(e_.b, e_.loc, type,
                                                  e_.b.getStringAttr("llvm.amdgcn.mul.i24"), ValueRange{x, y})
                        .getResult(0);
    return arith::AddIOp::create(e_.b, e_.loc, product, sum);
  }

  // Adds the products of the staged block.
  Values multiply(const Values& sums) {
    const int64_t depth = kernel_.config<SimtConfig>().tile_k;
    const int64_t most = kernel_.rocm() && sum_type_.isInteger() ? kIntegersPerBody : kFmasPerBody;
    const int64_t unroll = std::gcd(depth, std::clamp<int64_t>(most / (rm_ * rn_), 1, kStepsPerBody));
    return e_.loop(e_.idx(0), e_.idx(depth), unroll, sums, [&](Value k, const Values& in) {
      Values out = in;
      for (int64_t u = 0; u < unroll; ++u) {
        Value at = e_.add(k, u);
        Values a = operands(*a_, at, place_m_, places_m_, rm_, 0);
        Values b = operands(*b_, at, place_n_, places_n_, rn_, b_offset_);
        for (int64_t i = 0; i < rm_; ++i)
          for (int64_t j = 0; j < rn_; ++j) out[i * rn_ + j] = multiply_add(a[i], b[j], out[i * rn_ + j]);
      }
      return out;
    });
  }

  // A loop over rows that rotates the accumulators, so that the epilogue's code is emitted once per column,
  // not once per accumulator.
  void write(const Values& sums, OutputSink& sink) {
    e_.loop(e_.idx(0), e_.idx(rm_), 1, sums, [&](Value i, const Values& in) {
      Values columns;
      for (int64_t j = 0; j < rn_; ++j)
        columns.push_back(spread(e_, e_.idx(j), place_n_, places_n_, b_->vector()));
      sink.row(spread(e_, i, place_m_, places_m_, a_->vector()), columns, ArrayRef(in).take_front(rn_));
      Values turned(in.begin() + rn_, in.end());
      turned.append(in.begin(), in.begin() + rn_);
      return turned;
    });
  }

  Emit& e_;
  GpuKernel& kernel_;
  TileProgram& p_;
  Type sum_type_;
  int64_t rm_, rn_, places_m_, places_n_;
  Value place_m_, place_n_;
  std::unique_ptr<StagedOperand> a_, b_;
  Value shared_;
  int64_t b_offset_ = 0;
};

LogicalResult check(GpuKernel& kernel, TileProgram& p) {
  const auto& c = kernel.config<SimtConfig>();
  if (c.register_m < 1 || c.register_n < 1 || c.tile_k < 1 || c.tile_m % c.register_m != 0 ||
      c.tile_n % c.register_n != 0 || c.tile_m / c.register_m * (c.tile_n / c.register_n) != c.threads)
    return p.contraction.emitError(
        "kernel_config: the register tiles of all threads do not fill the tile exactly");
  for (Value operand : p.contraction.getDpsInputs()) {
    const DType blocks = p.views.find(operand)->second.blocks;
    if (blocks != DType::kNone && !can_stage_blocks(c, blocks))
      return p.contraction.emitError("kernel_config: tile_k does not divide a block, or is not whole runs");
  }
  if (c.stages != 1) return p.contraction.emitError("matmul kernel 'simt' needs stages 1");
  return success();
}

// CUDA: how many workgroups must fit on an SM. Without a limit ptxas 13.0 aims at a number of its own and
// spills to reach it. These limits cause no spills in any row, dtype and split on sm_75 to sm_120. 64
// accumulators take up to 250 registers; more than 32 staged elements per thread, with their addresses or
// conversions, more than 128.
int64_t least_workgroups(const SimtConfig& c) {
  const int64_t sums = c.register_m * c.register_n, threads = c.threads;
  const int64_t staged = ceil_div((c.tile_m + c.tile_n) * c.tile_k, threads);  // per thread
  const bool many = threads > 128 || (sums <= 4 && staged <= 32);
  const int64_t resident = sums >= 64 ? 256 : many ? 512 : 384;  // threads on an SM
  return std::max<int64_t>(resident / threads, 1);
}

}  // namespace

LogicalResult emit_simt(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  GridPosition block = step.block(e);
  FailureOr<TileProgram> program = step.at(e, block);
  if (failed(program) || failed(check(kernel, *program))) return failure();
  kernel.facts.function_attributes.emplace_back(
      "nvvm.minctasm", std::to_string(least_workgroups(kernel.config<SimtConfig>())));
  std::unique_ptr<OutputSink> sink = make_sink(e, kernel, step, *program, block);
  SimtTile(e, kernel, step, *program).emit(*sink);
  return sink->done();
}

}  // namespace lathe::emit
