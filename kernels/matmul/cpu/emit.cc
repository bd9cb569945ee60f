// The frame of every CPU matmul step: task -> tile -> products in scratch -> epilogue -> D.
#include "kernels/matmul/cpu/emit.h"

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "compiler/cpu_task.h"
#include "compiler/open_view.h"
#include "core/packed.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kAlign = 16;  // f32 elements in a cache line
constexpr int64_t kNeonLanes = 4;
constexpr char kZeroPoint[] = "lathe.zero_a";      // on a contraction whose A has a zero point
constexpr char kZeroPointsOfB[] = "lathe.zero_b";  // on one whose B has zero points: "tensor" or "channel"
constexpr char kRoundsA[] = "lathe.rounds_a";      // on one whose A may be rounded to B's dtype
constexpr char kLeastM[] = "lathe.least_m";        // lower bound of M, if one tile has all rows
constexpr unsigned kRowLoop = 1, kColumnLoop = 2;  // dimensions of an epilogue

int64_t padded(int64_t size, int64_t multiple) { return round_up(size, std::max<int64_t>(multiple, 1)); }

Value load_lanes(Emit& e, Value memory, Value at, int64_t lanes, Value left) {
  return left ? e.load_masked(memory, at, lanes, left) : e.load_vector(memory, at, lanes);
}

Value inside(Emit& e, const View& v, Value i, Value j) { return e.add(v.offset, e.add(row_at(e, v, i), j)); }

// Applies the epilogue, if there is one, and stores to D.
void write_vector(Emit& e, const TileProgram& p, Value products, Value i, Value j, Value left) {
  Value result = finish_vector(e, p, products, i, j, left);
  Value at = inside(e, p.output, i, j);
  if (p.output.dtype)
    store_open(e, result, p.output, at, left);
  else if (left)
    e.store_masked(result, p.output.memory, at, left);
  else
    e.store_vector(result, p.output.memory, at);
}

// Writes the tile; `products(i, j, left)` gives its vectors.
void write_tile(Emit& e, const TileProgram& p, int64_t lanes,
                const std::function<Value(Value i, Value j, Value left)>& products) {
  Value whole = whole_vectors(e, p.columns, lanes);
  e.loop(e.idx(0), p.rows, 1, [&](Value i) {
    for_each_vector(e, whole, p.columns, lanes,
                    [&](Value j, Value left) { write_vector(e, p, products(i, j, left), i, j, left); });
  });
}

bool is_amx(KernelKind kind) {
  return kind == KernelKind::kAmx || kind == KernelKind::kAmxT || kind == KernelKind::kAmxPacked;
}

// The tile as the kernel sees it. Transposed kernels compute D^T = B^T A^T: their rows are the columns of
// D.
CpuTile describe_tile(Emit& e, const TileProgram& p, ir::KernelConfigAttr config, const KernelRow& kernel) {
  auto op = const_cast<TileProgram&>(p).contraction;
  const View& a = p.views.find(op.getDpsInputs()[0])->second;
  auto features = op->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(ir::kFeaturesAttr);
  const View& b = p.views.find(op.getDpsInputs()[1])->second;
  // Blocks are decoded to f32, and A is multiplied as that.
  Type element = CpuBlocks::holds(b) ? e.f32() : op->hasAttr(kRoundsA) ? b.element : a.element;
  CpuTile t(CpuFields(config.getConfig()), CpuWords(e, element, config.lanes(), features.getValue()));
  t.a = a;
  t.b = b;
  t.vnni = features.getValue().contains(t.lanes == 16 ? "+avx512vnni" : "+avxvnni");
  t.dotprod = t.lanes == kNeonLanes && features.getValue().contains("+dotprod");
  t.i8mm = t.dotprod && features.getValue().contains("+i8mm");
  t.a_k_contiguous = k_contiguous(op, 0);
  t.b_k_contiguous = k_contiguous(op, 1);
  t.rows = p.rows, t.columns = p.columns, t.depth = p.depth;
  t.tile_rows = t.tile_m, t.tile_columns = t.tile_n;
  t.register_rows = t.register_m, t.register_columns = t.register_n;
  if (auto least = op->getAttrOfType<IntegerAttr>(kLeastM)) t.least_rows = least.getInt();
  t.most_depth = p.k;
  t.product_columns = p.n;
  t.a_in_place = kernel.has(kReadsInPlace) || (is_amx(kernel.kind) && !t.copy_rows);
  t.ukernel = op->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr);
  if (kernel.has(kTakesPackedB)) {
    // The payload declares B K-contiguous. That gives the right offset of the tile's columns but for the
    // padding of the last words, and a split's k, where elements are 16 apart.
    t.packed_word = packed_word(CpuBlocks::holds(b)      ? b.blocks
                                : b.element.isInteger(8) ? DType::kI8
                                : b.element.isBF16()     ? DType::kBF16
                                                         : DType::kF32);
    t.b.offset = e.add(t.b.offset, e.mul(p.depth0, kPackedColumns - 1));
    t.packed_depth = round_up(p.k, t.packed_word);
    t.b.offset = e.add(t.b.offset, e.mul(p.column0, t.packed_depth - p.k));
  }
  if (kernel.has(kTransposed)) {
    std::swap(t.a, t.b);
    std::swap(t.a_k_contiguous, t.b_k_contiguous);
    std::swap(t.rows, t.columns);
    std::swap(t.tile_rows, t.tile_columns);
    std::swap(t.register_rows, t.register_columns);
    std::swap(t.least_rows, t.least_columns);
  }
  // "dot" in K blocks writes whole vectors from the first column of any group on.
  const int64_t past = kernel.vectors == Axis::kK && t.tile_k > 0 ? t.lanes : 0;
  t.ld = padded(padded(t.tile_columns, t.register_columns) + past, kAlign);
  return t;
}

// Transposes the sums `from`, `rows` by `columns`, into `to`, in blocks of lanes x lanes. Whole blocks are
// read and written, within the padding of both.
struct TransposedSums {
  Value memory;
  int64_t ld;
  Value first;  // its row that becomes the first column of the result
};
void transpose_tile(Emit& e, const TransposedSums& from, const CpuProducts& to, Value rows, Value columns,
                    int64_t lanes) {
  e.loop(e.idx(0), columns, lanes, [&](Value j) {
    e.loop(e.idx(0), rows, lanes, [&](Value i) {
      Values block;
      for (int64_t l = 0; l < lanes; ++l) {
        Value row = e.add(from.first, e.add(j, l));
        block.push_back(e.load_vector(from.memory, e.add(e.mul(row, from.ld), i), lanes));
      }
      block = e.transpose(block);
      for (int64_t l = 0; l < lanes; ++l)
        e.store_vector(block[l], to.memory, e.add(e.mul(e.add(i, l), to.ld), j));
    });
  });
}

// Sets up CpuTile::piece: each piece's products are transposed into `products`, and written to D part
// by part between the FMAs of the next piece, which continue while the stores wait for memory.
void finish_in_pieces(Emit& e, const TileProgram& p, const ProductsSink& sink, const CpuProducts& products,
                      CpuTile* t) {
  const CpuTile& tile = *t;
  t->turn = [&e, &p, &tile, products](Value at, Value count) {
    transpose_tile(e, {tile.accumulators, tile.ld, at}, products, p.rows, count, tile.lanes);
  };
  // The rows of D per part.
  const int64_t share = ceil_div(t->tile_columns, ceil_div(t->piece, t->register_rows));
  t->write = [&e, &p, &sink, &tile, products, share](Value j0, Value count, Value part) {
    Value i0 = e.min(e.mul(part, share), p.rows), rows = e.min(e.idx(share), e.sub(p.rows, i0));
    Value whole = whole_vectors(e, count, tile.lanes);
    e.loop(e.idx(0), rows, 1, [&](Value r) {
      for_each_vector(e, whole, count, tile.lanes, [&](Value j, Value left) {
        Value i = e.add(i0, r), column = e.add(j0, j), from = e.add(e.mul(i, products.ld), j);
        Value x = products.words.sums_of(e.load_vector(products.memory, from, tile.lanes));
        if (products.zero_b) x = products.zero_b->take(e, x, i, column);
        sink.store(x, i, column, left);
      });
    });
  };
}

struct KernelForm {
  KernelKind kind;
  const CpuForm* form;
};
constexpr KernelForm kForms[] = {
    {KernelKind::kDot, &kDotForm},           {KernelKind::kDotT, &kDotForm},
    {KernelKind::kOuter, &kOuterForm},       {KernelKind::kPanel, &kPanelForm},
    {KernelKind::kPanelT, &kPanelForm},      {KernelKind::kDirect, &kPanelForm},
    {KernelKind::kDirectA, &kPanelForm},     {KernelKind::kDirectPacked, &kPanelForm},
    {KernelKind::kPacked, &kPanelForm},      {KernelKind::kUkernel, &kPanelForm},
    {KernelKind::kBytes, &kBytesForm},       {KernelKind::kBytesPacked, &kBytesForm},
    {KernelKind::kAmxBytes, &kAmxBytesForm}, {KernelKind::kAmxBytesPacked, &kAmxBytesForm},
    {KernelKind::kAmx, &kAmxForm},           {KernelKind::kAmxT, &kAmxForm},
    {KernelKind::kAmxPacked, &kAmxForm},
};
static_assert(emits_every_kernel(kForms, Op::kMatmul, kOnCpu));

const CpuForm* form_of(KernelKind kind) {
  for (const KernelForm& row : kForms)
    if (row.kind == kind) return row.form;
  return nullptr;
}

// Why the form cannot follow the config, "" if it can. `b`: of the payload; `has_sink`: whether products may go
// somewhere else than to scratch.
std::string refusal(const CpuForm& form, const KernelRow& kernel, const CpuTile& t, const View& b,
                    bool has_sink) {
  if (CpuBlocks::holds(b) && !kernel.has(kTakesBlocks)) return "does not support B in blocks";
  if (t.a.k_contiguous && !kernel.has(kTakesOpenLayout))
    return "does not support layouts that are known only at launch";
  if (t.zero_point && (!kernel.has(kTakesZeroPoint) || (kernel.kind == KernelKind::kDot && t.tile_k > 0)))
    return "does not support a zero point of A";
  if (t.store_directly &&
      !(has_sink && (kernel.kind == KernelKind::kOuter ? t.tile_k == 0 : t.is_one_block())))
    return "store_directly needs one K block and products that are stored to D";
  if (t.piece && (!has_sink || t.piece % t.register_rows != 0 || t.piece % t.lanes != 0))
    return "piece must be a multiple of the register tile's rows and of lanes, and needs products that are "
           "stored to D";
  return form.refusal(t);
}

// Hands out the scratch memory of the worker.
class Scratch {
 public:
  Scratch(Emit& e, Value memory) : e_(e), memory_(memory) {}
  Value take(int64_t elements) {
    Value at = LLVM::GEPOp::create(e_.b, e_.loc, memory_.getType(), e_.f32(), memory_,
                                   llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(used_)});
    used_ += padded(elements, kAlign);
    return memory_at(e_, at, e_.f32());
  }
  int64_t bytes() const { return used_ * static_cast<int64_t>(sizeof(float)); }

 private:
  Emit& e_;
  Value memory_;
  int64_t used_ = 0;  // elements
};

// Stores what B's zero points subtract, if it has any. The granularity is one for all columns or one per
// column.
std::optional<ZeroPointsOfB> store_zero_points_of_b(Emit& e, const Arguments& arguments, TileProgram& p,
                                                    const CpuTile& t, ir::KernelConfigAttr config,
                                                    Scratch& scratch) {
  auto granularity = p.contraction->getAttrOfType<StringAttr>(kZeroPointsOfB);
  if (!granularity) return std::nullopt;
  ZeroPointsOfB zero_b{t.words, scratch.take(padded(config.tile_m(), t.lanes)),
                       scratch.take(padded(config.tile_n(), t.lanes))};
  Value memory = memory_at(e, arguments.get("zero_b"), e.b.getI32Type());
  const ZeroSource source{
      memory, granularity.getValue() == "channel", t.zero_point, p.rows, p.columns, p.depth, p.column0};
  auto op = p.contraction;
  zero_b.store(e, source, p.views.find(op.getDpsInputs()[0])->second, k_contiguous(op, 0));
  return zero_b;
}

// A step with a contraction: one tile of products, then the epilogue (or the store of partial results).
llvm::FailureOr<int64_t> emit_contraction(Emit& e, const Arguments& arguments, TileProgram& p) {
  ProductsSink sink;
  sink.store = [&](Value products, Value i, Value j, Value left) {
    write_vector(e, p, products, i, j, left);
  };
  llvm::FailureOr<CpuProducts> products = emit_products(e, arguments, p, sink);
  if (failed(products)) return failure();
  if (!products->memory) return products->scratch_bytes;
  write_tile(e, p, products->words.lanes, [&](Value i, Value j, Value) { return products->at(e, i, j); });
  return products->scratch_bytes;
}

// A merge step: sums the partial results in ascending order of the split, then the epilogue.
int64_t emit_merge(Emit& e, const TileProgram& p, const Arguments& arguments, int64_t lanes) {
  auto op = const_cast<TileProgram&>(p).reduction;
  const View& partial = p.views.find(op.getDpsInputs()[0])->second;
  auto type = cast<RankedTensorType>(op.getDpsInputs()[0].getType());
  Value split_stride = e.mul(e.mul(arguments.get("batch"), arguments.get("m")), arguments.get("n"));
  write_tile(e, p, lanes, [&](Value i, Value j, Value left) {
    Value at = e.add(partial.offset, e.add(e.mul(i, partial.row_stride), j));
    return e.loop(e.idx(0), p.depth, 1, {e.splat(e.vec(lanes, type.getElementType()), 0)},
                  [&](Value s, const Values& sum) -> Values {
                    Value x = load_lanes(e, partial.memory, e.add(at, e.mul(s, split_stride)), lanes, left);
                    return {Lanes{e, lanes}.add(sum[0], x)};
                  })[0];
  });
  return 0;
}

}  // namespace

Value finish_vector(Emit& e, const TileProgram& p, Value products, Value i, Value j, Value left) {
  if (!p.epilogue) return products;
  const int64_t lanes = cast<VectorType>(products.getType()).getNumElements();
  auto op = const_cast<TileProgram&>(p).epilogue;
  Values inputs = {products};
  const auto operands = op.getDpsInputs();  // by value
  for (Value input : llvm::drop_begin(operands)) {
    const View& v = p.views.find(input)->second;
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(inputs.size()));
    if (!map.isFunctionOfDim(kColumnLoop)) {  // the same for all columns: a scale
      Value at = map.isFunctionOfDim(kRowLoop) ? e.add(v.offset, i) : v.offset;
      inputs.push_back(e.broadcast(e.load(v.memory, at), lanes));
      continue;
    }
    Value at = inside(e, v, i, j);
    inputs.push_back(v.dtype ? load_open(e, v, at, lanes, left) : load_lanes(e, v.memory, at, lanes, left));
  }
  inputs.push_back(nullptr);
  return inline_elementwise(e, op, inputs, lanes, p.mapping);
}

Value address_of(Emit& e, Value memory, Value at) {
  Value pointer = pointer_to(e, memory, at);
  return e.to_index(LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI64Type(), pointer));
}

void for_each_vector(Emit& e, Value whole, Value length, int64_t vector,
                     const std::function<void(Value at, Value left)>& body) {
  e.loop(e.idx(0), whole, vector, [&](Value at) { body(at, nullptr); });
  if (whole != length) e.when(e.less(whole, length), [&] { body(whole, e.sub(length, whole)); });
}

Values paced_loop(Emit& e, const CpuTile& t, Value from, Value to, int64_t step, Values sums,
                  const PacedBody& body) {
  // Bit 0 of the address of aligned scratch memory is a 0 that the compiler does not know.
  Value zero = e.idx(0);
  if (t.pace > 0) zero = arith::AndIOp::create(e.b, e.loc, address_of(e, t.accumulators, e.idx(0)), e.idx(1));
  const auto either = [&](Value late) { return arith::OrIOp::create(e.b, e.loc, late, zero); };
  sums.push_back(zero);
  sums = e.loop(from, to, step, sums, [&](Value k, const Values& carried) {
    Values after = carried;
    Value late = after.pop_back_val();
    after = body(k, late, after);
    for (int64_t link = 0; link < t.pace / kPaceLinkCycles; ++link) late = either(e.mul(late, zero));
    if (t.pace % kPaceLinkCycles == kPaceHalfLinkCycles) late = either(e.add(late, zero));
    after.push_back(late);
    return after;
  });
  sums.pop_back();
  return sums;
}

llvm::FailureOr<CpuProducts> emit_products(Emit& e, const Arguments& arguments, TileProgram& p,
                                           const ProductsSink& sink) {
  auto config = p.contraction->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  // A ukernel replaces the micro-kernel of "panel".
  const bool ukernel = config.kernel() == KernelKind::kUkernel;
  const KernelRow& kernel = row_of(ukernel ? KernelKind::kPanel : config.kernel());
  const CpuForm* form = form_of(config.kernel());
  if (!form) return p.contraction.emitError("no CPU matmul kernel is named '") << kernel.name << "'";
  CpuTile t = describe_tile(e, p, config, kernel);
  t.batch = arguments.get("batch");
  if (t.register_rows < 1 || t.register_columns < 1)
    return p.contraction.emitError("kernel_config: register_m and register_n must be at least 1");
  if (p.contraction->hasAttr(kZeroPoint))
    t.zero_point = e.load(memory_at(e, arguments.get("zero_a"), e.b.getI32Type()), e.idx(0));
  const View& b = p.views.find(p.contraction.getDpsInputs()[1])->second;
  if (const std::string why = refusal(*form, kernel, t, b, bool(sink)); !why.empty())
    return p.contraction.emitError("CPU matmul kernel '") << kernel.name << "': " << why;
  if (t.store_directly && p.contraction->hasAttr(kZeroPointsOfB))
    return p.contraction.emitError("CPU matmul kernel '")
           << kernel.name << "': store_directly does not subtract zero points of B";

  // Scratch memory: accumulators, the tile they are transposed into, what the form packs.
  Scratch scratch(e, arguments.get("scratch"));
  const auto zero_b = store_zero_points_of_b(e, arguments, p, t, config, scratch);
  if (t.store_directly) t.sink = sink;
  const int64_t rows_kept = t.piece && t.is_one_block() ? t.piece : padded(t.tile_rows, t.register_rows);
  if (!t.sink) t.accumulators = scratch.take(padded(rows_kept, t.lanes) * t.ld);
  CpuProducts products{t.words, t.accumulators, t.ld, 0, zero_b};
  const bool transposed = kernel.has(kTransposed);
  if (transposed) {
    products.ld = padded(t.piece ? t.piece : t.tile_rows, kAlign);
    products.memory = scratch.take(padded(t.tile_columns, t.lanes) * products.ld);
  }
  if (t.piece) finish_in_pieces(e, p, sink, products, &t);
  t.packing = scratch.take(form->packing_words(t));
  form->emit(e, t);
  if (t.piece)
    products.memory = nullptr;
  else if (transposed)
    transpose_tile(e, {t.accumulators, t.ld, e.idx(0)}, products, p.rows, p.columns, t.lanes);
  products.scratch_bytes = scratch.bytes();
  return products;
}

LogicalResult emit_matmul_cpu(ModuleOp module) {
  int64_t lanes = 1;
  module.walk([&](linalg::LinalgOp op) {
    if (auto config = op->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr)) lanes = config.lanes();
  });
  return emit_cpu_tasks(
      module, [lanes](Emit& e, const Arguments& arguments, TileProgram& p) -> llvm::FailureOr<int64_t> {
        if (p.contraction) return emit_contraction(e, arguments, p);
        if (p.reduction) return emit_merge(e, p, arguments, lanes);
        return emitError(e.loc, "a matmul step needs a contraction or a merge");
      });
}

}  // namespace lathe::emit
