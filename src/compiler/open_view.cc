#include "compiler/open_view.h"

#include <optional>

#include "compiler/dialect.h"
#include "core/generic.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Value bits_of(Emit& e, const Arguments& arguments, int at, int count) {
  Value shifted = arith::ShRUIOp::create(e.b, e.loc, arguments.get("form"), e.idx(at));
  return arith::AndIOp::create(e.b, e.loc, shifted, e.idx((int64_t{1} << count) - 1));
}

// The first bit of the operand's dtype in `form`, if it has one.
std::optional<int> dtype_bits(StringRef name, Type element) {
  if (name == "c") return Form::kC;
  if (name == "bias") return Form::kBias;
  if (name == "residual") return Form::kResidual;
  if (name == "values") return Form::kValues;
  if (name == "d" && !element.isInteger(32)) return Form::kD;  // an i32 D is never converted
  return std::nullopt;
}

struct StoredType {
  DType dtype;
  Type element;
};
SmallVector<StoredType> stored_types(Emit& e, Type computed) {
  if (computed.isInteger()) return {{DType::kI64, e.b.getI64Type()}, {DType::kI32, e.b.getI32Type()}};
  return {{DType::kF32, e.f32()}, {DType::kF16, e.b.getF16Type()}, {DType::kBF16, e.b.getBF16Type()}};
}

Value is(Emit& e, const View& v, DType t) { return e.equal(v.dtype, e.idx(static_cast<int64_t>(t))); }

}  // namespace

bool is_generic(Operation* op) { return op->getParentOfType<ModuleOp>()->hasAttr(ir::kGenericAttr); }

void open_view(Emit& e, const Arguments& arguments, StringRef name, RankedTensorType type, View* v,
               Value* across, Value* along) {
  if (std::optional<int> at = dtype_bits(name, type.getElementType())) {
    v->dtype = bits_of(e, arguments, *at, Form::kBits);
    v->pointer = arguments.get(name);
  }
  if (type.getRank() != 3 || (name != "a" && name != "b") || v->blocks != DType::kNone) return;
  Value bit = bits_of(e, arguments, name == "a" ? Form::kTransA : Form::kTransB, 1);
  Value transposed = e.equal(bit, e.idx(1)), leading = *across;
  *across = arith::SelectOp::create(e.b, e.loc, transposed, e.idx(1), leading);
  *along = arith::SelectOp::create(e.b, e.loc, transposed, leading, e.idx(1));
  v->k_contiguous = name == "b" ? transposed : e.equal(bit, e.idx(0));
}

Value load_open(Emit& e, const View& v, Value at, int64_t lanes, Value left) {
  Type type = lanes ? Type(e.vec(lanes, e.f32())) : e.f32();
  Value loaded = e.zero(type);
  for (const StoredType& t : stored_types(e, e.f32())) {
    Value otherwise = loaded;
    loaded = e.choose(
        is(e, v, t.dtype), {otherwise},
        [&] {
          Value memory = memory_at(e, v.pointer, t.element);
          Value x = !lanes ? e.load(memory, at, v.alignment)
                    : left ? e.load_masked(memory, at, lanes, left)
                           : e.load_vector(memory, at, lanes);
          return Values{e.to_f32(x)};
        },
        [&] { return Values{otherwise}; })[0];
  }
  return loaded;
}

void store_open(Emit& e, Value x, const View& v, Value at, Value left) {
  for (const StoredType& t : stored_types(e, getElementTypeOrSelf(x.getType())))
    e.when(is(e, v, t.dtype), [&] {
      Value memory = memory_at(e, v.pointer, t.element), out = x;
      if (!t.element.isInteger())
        out = e.from_f32(x, t.element);
      else if (t.element != x.getType())
        out = arith::TruncIOp::create(e.b, e.loc, t.element, x);
      if (left)
        e.store_masked(out, memory, at, left);
      else if (isa<VectorType>(x.getType()))
        e.store_vector(out, memory, at);
      else
        e.store(out, memory, at, v.alignment);
    });
}

}  // namespace lathe::emit
