#include "compiler/emit.h"

#include "compiler/dialect.h"
#include "core/args.h"

namespace lathe::emit {
namespace {
using namespace mlir;
constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw;

arith::IntegerOverflowFlagsAttr no_wrap(OpBuilder& b) {
  return arith::IntegerOverflowFlagsAttr::get(b.getContext(), kNoWrap);
}
Type element_of(Value memory) { return cast<MemRefType>(memory.getType()).getElementType(); }
Type with_element(Type like, Type element) {
  if (auto v = dyn_cast<VectorType>(like)) return VectorType::get(v.getShape(), element);
  return element;
}
// The i32 operand of Emit::widen if `x` is its result, otherwise null.
Value narrow(Value x) {
  auto cast = x.getDefiningOp<arith::IndexCastUIOp>();
  return cast && cast.getIn().getType().isInteger(32) ? cast.getIn() : Value();
}
}  // namespace

Value Emit::idx(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
Value Emit::constant(Type type, int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
}
Value Emit::constant_f32(float value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value)); }
Value Emit::splat(VectorType type, double value) {
  Type element = type.getElementType();
  Attribute all = element.isInteger() ? Attribute(b.getIntegerAttr(element, static_cast<int64_t>(value)))
                                      : Attribute(b.getFloatAttr(element, value));
  return arith::ConstantOp::create(b, loc, SplatElementsAttr::get(type, all));
}
std::optional<int64_t> Emit::known(Value x) {
  IntegerAttr a;
  if (matchPattern(x, m_Constant(&a))) return a.getInt();
  return std::nullopt;
}
Value Emit::add(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), *p + *q);
  if (p && *p == 0) return y;
  if (q && *q == 0) return x;
  return arith::AddIOp::create(b, loc, x, y, no_wrap(b));
}
Value Emit::sub(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), *p - *q);
  if (q && *q == 0) return x;
  return arith::SubIOp::create(b, loc, x, y, no_wrap(b));
}
Value Emit::mul(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), *p * *q);
  if ((p && *p == 0) || (q && *q == 0)) return constant(x.getType(), 0);
  if (p && *p == 1) return y;
  if (q && *q == 1) return x;
  return arith::MulIOp::create(b, loc, x, y, no_wrap(b));
}
Value Emit::min(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), std::min(*p, *q));
  return arith::MinSIOp::create(b, loc, x, y);
}
Value Emit::div(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), *p / *q);
  if (q && *q == 1) return x;
  if (narrow(x) && narrow(y)) return widen(div(narrow(x), narrow(y)));
  return arith::DivUIOp::create(b, loc, x, y);
}
Value Emit::rem(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), *p % *q);
  if (q && *q == 1) return constant(x.getType(), 0);
  if (narrow(x) && narrow(y)) return widen(rem(narrow(x), narrow(y)));
  return arith::RemUIOp::create(b, loc, x, y);
}
Value Emit::ceil_div(Value x, Value y) {
  auto p = known(x), q = known(y);
  if (p && q) return constant(x.getType(), (*p + *q - 1) / *q);
  return div(add(x, sub(y, constant(y.getType(), 1))), y);
}
Value Emit::less(Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, y); }
Value Emit::equal(Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y); }

void Emit::loop(Value from, Value to, int64_t step, const std::function<void(Value)>& body) {
  auto p = known(from), q = known(to);
  if (p && q && *p >= *q) return;
  if (p && q && *p + step >= *q) return body(from);
  scf::ForOp::create(b, loc, from, to, constant(from.getType(), step), ValueRange(),
                     [&](OpBuilder& nested, Location, Value iv, ValueRange) {
                       OpBuilder::InsertionGuard guard(b);
                       b.restoreInsertionPoint(nested.saveInsertionPoint());
                       body(iv);
                       scf::YieldOp::create(b, loc);
                     });
}
Values Emit::loop(Value from, Value to, int64_t step, const Values& init,
                  const std::function<Values(Value, const Values&)>& body) {
  auto p = known(from), q = known(to);
  if (p && q && *p >= *q) return init;
  if (p && q && *p + step >= *q) return body(from, init);
  auto op = scf::ForOp::create(b, loc, from, to, constant(from.getType(), step), init,
                               [&](OpBuilder& nested, Location, Value iv, ValueRange carried) {
                                 OpBuilder::InsertionGuard guard(b);
                                 b.restoreInsertionPoint(nested.saveInsertionPoint());
                                 Values next = body(iv, Values(carried.begin(), carried.end()));
                                 scf::YieldOp::create(b, loc, next);
                               });
  return Values(op.getResults().begin(), op.getResults().end());
}
void Emit::when(Value condition, const std::function<void()>& then) {
  if (auto c = known(condition)) {
    if (*c != 0) then();
    return;
  }
  scf::IfOp::create(b, loc, condition, [&](OpBuilder& nested, Location) {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(nested.saveInsertionPoint());
    then();
    scf::YieldOp::create(b, loc);
  });
}
Values Emit::choose(Value condition, const Values& like, const std::function<Values()>& then,
                    const std::function<Values()>& otherwise) {
  if (auto c = known(condition)) return *c != 0 ? then() : otherwise();
  llvm::SmallVector<Type> types;
  for (Value v : like) types.push_back(v.getType());
  auto arm = [&](const std::function<Values()>& body) {
    return [this, &body](OpBuilder& nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.restoreInsertionPoint(nested.saveInsertionPoint());
      Values results = body();
      scf::YieldOp::create(b, loc, results);
    };
  };
  auto op = scf::IfOp::create(b, loc, condition, arm(then), arm(otherwise));
  return Values(op.getResults().begin(), op.getResults().end());
}

// bf16 is loaded, stored and inserted into vectors as i16, because back ends without bf16 registers would use
// library calls for that. 8-bit floats are handled as i8, because LLVM has no type for them.
static bool stored_as_integer(Type element) {
  return element.isBF16() || (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8);
}
static Type stored(Type element) {
  return IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth());
}
static Value storage(Emit& e, Value memory) {
  auto type = cast<MemRefType>(memory.getType());
  Type element = type.getElementType();
  if (!stored_as_integer(element)) return memory;
  auto raw = MemRefType::get(type.getShape(), stored(element), type.getLayout(), type.getMemorySpace());
  return UnrealizedConversionCastOp::create(e.b, e.loc, raw, memory).getResult(0);
}
static Value from_storage(Emit& e, Value x, Value memory) {
  Type element = element_of(memory);
  return stored_as_integer(element)
             ? arith::BitcastOp::create(e.b, e.loc, with_element(x.getType(), element), x).getResult()
             : x;
}
static Value to_storage(Emit& e, Value x, Value memory) {
  Type element = element_of(memory);
  if (!stored_as_integer(element)) return x;
  return arith::BitcastOp::create(e.b, e.loc, with_element(x.getType(), stored(element)), x);
}

static llvm::MaybeAlign aligned(int64_t bytes) {
  return bytes == 0 ? llvm::MaybeAlign() : llvm::MaybeAlign(bytes);
}
Value Emit::load(Value memory, Value at, int64_t alignment) {
  Value x = memref::LoadOp::create(b, loc, storage(*this, memory), ValueRange(at), /*nontemporal=*/false,
                                   aligned(alignment));
  return from_storage(*this, x, memory);
}
void Emit::store(Value value, Value memory, Value at, int64_t alignment) {
  memref::StoreOp::create(b, loc, to_storage(*this, value, memory), storage(*this, memory), ValueRange(at),
                          /*nontemporal=*/false, aligned(alignment));
}
Value Emit::load_vector(Value memory, Value at, int64_t lanes, int64_t alignment) {
  Value raw = storage(*this, memory);
  Value x = vector::LoadOp::create(b, loc, vec(lanes, element_of(raw)), raw, ValueRange(at),
                                   /*nontemporal=*/false, aligned(alignment));
  return from_storage(*this, x, memory);
}
static Value lane_mask(Emit& e, int64_t lanes, Value count) {
  VectorType type = e.vec(lanes, e.b.getI1Type());
  if (auto n = Emit::known(count))
    return vector::ConstantMaskOp::create(e.b, e.loc, type, llvm::ArrayRef<int64_t>{std::min(*n, lanes)});
  return vector::CreateMaskOp::create(e.b, e.loc, type, ValueRange(count));
}
Value Emit::load_masked(Value memory, Value at, int64_t lanes, Value count, double fill) {
  Value raw = storage(*this, memory);
  Value rest = to_storage(*this, splat(vec(lanes, element_of(memory)), fill), memory);
  Value x = vector::MaskedLoadOp::create(b, loc, vec(lanes, element_of(raw)), raw, ValueRange(at),
                                         lane_mask(*this, lanes, count), rest);
  return from_storage(*this, x, memory);
}
void Emit::store_vector(Value value, Value memory, Value at, int64_t alignment) {
  vector::StoreOp::create(b, loc, to_storage(*this, value, memory), storage(*this, memory), ValueRange(at),
                          /*nontemporal=*/false, aligned(alignment));
}
void Emit::store_masked(Value value, Value memory, Value at, Value count) {
  int64_t lanes = cast<VectorType>(value.getType()).getNumElements();
  vector::MaskedStoreOp::create(b, loc, storage(*this, memory), ValueRange(at),
                                lane_mask(*this, lanes, count), to_storage(*this, value, memory));
}
void Emit::prefetch(Value memory, Value at, int locality) {
  memref::PrefetchOp::create(b, loc, memory, ValueRange(at), /*isWrite=*/false, locality,
                             /*isDataCache=*/true);
}

// Converts an 8-bit float to f32 with integer arithmetic, which every target has. The bits of an e4m3 number,
// shifted to their place in an f32, are the value times 2^-120, also for subnormals. For the FNUZ types, whose
// exponent bias is one higher, the factor is 2^-119 (e4m3) or 2^-111 (e5m2). An OCP e5m2 number is the upper
// byte of an f16.
static Value f8_to_f32(Emit& e, Value x) {
  const auto integers = [&](unsigned width) { return with_element(x.getType(), e.b.getIntegerType(width)); };
  const auto constant = [&](Type type, Attribute value) -> Value {
    auto vector = dyn_cast<VectorType>(type);
    auto all = vector ? cast<TypedAttr>(SplatElementsAttr::get(vector, value)) : cast<TypedAttr>(value);
    return arith::ConstantOp::create(e.b, e.loc, all);
  };
  Value raw = arith::BitcastOp::create(e.b, e.loc, integers(8), x);
  Type f32 = with_element(x.getType(), e.f32());
  const Type element = getElementTypeOrSelf(x.getType());
  if (isa<Float8E5M2Type>(element)) {
    Value wide = arith::ExtUIOp::create(e.b, e.loc, integers(16), raw);
    wide = arith::ShLIOp::create(e.b, e.loc, wide, constant(integers(16), e.b.getI16IntegerAttr(8)));
    Type f16 = with_element(x.getType(), e.b.getF16Type());
    Value half = arith::BitcastOp::create(e.b, e.loc, f16, wide);
    return arith::ExtFOp::create(e.b, e.loc, f32, half);
  }
  const bool is_ocp = isa<Float8E4M3FNType>(element), three_bits = is_ocp || isa<Float8E4M3FNUZType>(element);
  const float scale = is_ocp ? 0x1p120f : three_bits ? 0x1p119f : 0x1p111f;
  Type i32 = integers(32);
  const auto bits = [&](int32_t value) { return constant(i32, e.b.getI32IntegerAttr(value)); };
  Value wide = arith::ExtUIOp::create(e.b, e.loc, i32, raw);
  Value magnitude = arith::AndIOp::create(e.b, e.loc, wide, bits(0x7f));
  Value sign =
      arith::ShLIOp::create(e.b, e.loc, arith::AndIOp::create(e.b, e.loc, wide, bits(0x80)), bits(24));
  Value small = arith::BitcastOp::create(
      e.b, e.loc, f32, arith::ShLIOp::create(e.b, e.loc, magnitude, bits(three_bits ? 20 : 21)));
  Value value = arith::MulFOp::create(e.b, e.loc, small, constant(f32, e.b.getF32FloatAttr(scale)));
  Value is_nan = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, is_ocp ? magnitude : wide,
                                       bits(is_ocp ? 0x7f : 0x80));
  Value magnitude_bits = arith::BitcastOp::create(e.b, e.loc, i32, value);
  magnitude_bits = arith::SelectOp::create(e.b, e.loc, is_nan, bits(0x7fc00000), magnitude_bits);
  return arith::BitcastOp::create(e.b, e.loc, f32, arith::OrIOp::create(e.b, e.loc, magnitude_bits, sign));
}

Value Emit::to_f32(Value x) {
  Type type = with_element(x.getType(), f32());
  if (type == x.getType()) return x;
  if (getElementTypeOrSelf(x.getType()).getIntOrFloatBitWidth() == 8) return f8_to_f32(*this, x);
  return arith::ExtFOp::create(b, loc, type, x);
}
Value Emit::to_factor(Value x) {
  if (!getElementTypeOrSelf(x.getType()).isInteger(8)) return to_f32(x);
  return arith::ExtSIOp::create(b, loc, with_element(x.getType(), b.getI32Type()), x);
}
Value Emit::from_f32(Value x, Type element) {
  Type type = with_element(x.getType(), element);
  return type == x.getType() ? x : arith::TruncFOp::create(b, loc, type, x).getResult();
}
// Builds a vector with `make`, which receives the scalars in their storage type (see stored_as_integer).
static Value in_lanes(Emit& e, Values scalars, int64_t lanes,
                      const std::function<Value(VectorType, const Values&)>& make) {
  const Type element = scalars[0].getType();
  if (!stored_as_integer(element)) return make(e.vec(lanes, element), scalars);
  for (Value& x : scalars) x = arith::BitcastOp::create(e.b, e.loc, stored(element), x);
  return arith::BitcastOp::create(e.b, e.loc, e.vec(lanes, element),
                                  make(e.vec(lanes, stored(element)), scalars));
}
Value Emit::broadcast(Value scalar, int64_t lanes) {
  return in_lanes(*this, {scalar}, lanes, [&](VectorType type, const Values& x) -> Value {
    return vector::BroadcastOp::create(b, loc, type, x[0]);
  });
}
Value Emit::from_elements(const Values& elements) {
  const auto lanes = static_cast<int64_t>(elements.size());
  return in_lanes(*this, elements, lanes, [&](VectorType type, const Values& x) -> Value {
    return vector::FromElementsOp::create(b, loc, type, x);
  });
}
Value Emit::fma(Value x, Value y, Value z) {
  if (getElementTypeOrSelf(z).isInteger())
    return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, x, y), z);
  if (isa<VectorType>(x.getType())) return vector::FMAOp::create(b, loc, x, y, z);
  return math::FmaOp::create(b, loc, x, y, z);
}

// Eklundh's algorithm: stage d exchanges the off-diagonal blocks of d lanes between rows i and i + d.
// llvm.arithmetic.fence between two stages costs no instruction. It saves compile time, because LLVM 22 then
// does not try to combine the shuffles of both stages.
Values Emit::transpose(Values rows) {
  int64_t lanes = rows.size();
  constexpr int64_t kFencedLevel = 4;
  const auto fence = [&](Value x) {
    auto type = cast<VectorType>(x.getType());
    auto floats = vec(lanes, f32());
    if (type != floats) x = arith::BitcastOp::create(b, loc, floats, x);
    x = LLVM::CallIntrinsicOp::create(b, loc, floats, b.getStringAttr("llvm.arithmetic.fence"), ValueRange{x})
            .getResult(0);
    return type == floats ? x : Value(arith::BitcastOp::create(b, loc, type, x));
  };
  for (int64_t d = 1; d < lanes; d *= 2) {
    if (d == kFencedLevel)
      for (Value& x : rows) x = fence(x);
    llvm::SmallVector<int64_t> upper, lower;
    for (int64_t l = 0; l < lanes; ++l) {
      upper.push_back((l & d) == 0 ? l : lanes + l - d);
      lower.push_back((l & d) == 0 ? l + d : lanes + l);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & d) continue;
      Value x = rows[i], y = rows[i + d];
      rows[i] = vector::ShuffleOp::create(b, loc, x, y, upper);
      rows[i + d] = vector::ShuffleOp::create(b, loc, x, y, lower);
    }
  }
  return rows;
}

Value memory_at(Emit& e, Value pointer, Type element) {
  // Build a memref descriptor from the bare pointer. finalize-memref-to-llvm folds the cast away.
  auto pointer_type = cast<LLVM::LLVMPointerType>(pointer.getType());
  MLIRContext* context = e.b.getContext();
  Type i64 = e.b.getI64Type();
  Type array = LLVM::LLVMArrayType::get(i64, 1);
  Type descriptor =
      LLVM::LLVMStructType::getLiteral(context, {pointer_type, pointer_type, i64, array, array});
  auto constant = [&](int64_t v) {
    return LLVM::ConstantOp::create(e.b, e.loc, i64, e.b.getI64IntegerAttr(v));
  };
  Value d = LLVM::PoisonOp::create(e.b, e.loc, descriptor);
  auto set = [&](Value v, llvm::ArrayRef<int64_t> at) {
    d = LLVM::InsertValueOp::create(e.b, e.loc, d, v, at);
  };
  set(pointer, {0});
  set(pointer, {1});
  set(constant(0), {2});
  set(constant(INT64_MAX), {3, 0});
  set(constant(1), {4, 0});
  Attribute space;
  if (pointer_type.getAddressSpace() != 0) space = e.b.getI64IntegerAttr(pointer_type.getAddressSpace());
  auto type = MemRefType::get({ShapedType::kDynamic}, element, MemRefLayoutAttrInterface(), space);
  return UnrealizedConversionCastOp::create(e.b, e.loc, type, d).getResult(0);
}

Value pointer_to(Emit& e, Value memory, Value at) {
  // This cast was made by memory_at; its operand is the descriptor.
  auto cast = memory.getDefiningOp<UnrealizedConversionCastOp>();
  Value base = LLVM::ExtractValueOp::create(e.b, e.loc, cast.getOperand(0), llvm::ArrayRef<int64_t>{1});
  Value offset = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), at);
  Type element = e.b.getIntegerType(element_of(memory).getIntOrFloatBitWidth());
  return LLVM::GEPOp::create(e.b, e.loc, base.getType(), element, base, llvm::ArrayRef<LLVM::GEPArg>{offset});
}

Arguments Arguments::from_block(Emit& e, Value block) {
  Arguments result;
  MLIRContext* context = e.b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  for (const ArgumentField& field : kArgumentFields) {
    Value at = LLVM::GEPOp::create(e.b, e.loc, pointer, e.b.getI8Type(), block,
                                   llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(field.offset)});
    Type type = field.kind == ArgumentKind::ptr   ? Type(pointer)
                : field.kind == ArgumentKind::i64 ? Type(e.b.getI64Type())
                : field.kind == ArgumentKind::i32 ? Type(e.b.getI32Type())
                                                  : e.f32();
    Value value = LLVM::LoadOp::create(e.b, e.loc, type, at, /*alignment=*/4, /*isVolatile=*/false,
                                       /*isNonTemporal=*/false, /*isInvariant=*/true);
    if (type.isInteger()) value = arith::IndexCastOp::create(e.b, e.loc, e.index(), value);
    result.values_[field.name] = value;
  }
  return result;
}
Arguments Arguments::from_parameters(Emit& e, ValueRange parameters) {
  Arguments result;
  size_t i = 0;
  for (const ArgumentField& field : kArgumentFields) {
    Value value = parameters[i++];
    if (field.kind == ArgumentKind::i32)
      value = e.widen(value);  // sizes and counts
    else if (value.getType().isInteger())
      value = arith::IndexCastOp::create(e.b, e.loc, e.index(), value);
    result.values_[field.name] = value;
  }
  return result;
}
Value Arguments::get(llvm::StringRef field) const { return values_.lookup(field); }

llvm::SmallVector<Type> parameter_types(MLIRContext* context, unsigned pointer_address_space) {
  llvm::SmallVector<Type> types;
  for (const ArgumentField& field : kArgumentFields) {
    switch (field.kind) {
      case ArgumentKind::ptr:
        types.push_back(LLVM::LLVMPointerType::get(context, pointer_address_space));
        break;
      case ArgumentKind::i64: types.push_back(IntegerType::get(context, 64)); break;
      case ArgumentKind::i32: types.push_back(IntegerType::get(context, 32)); break;
      case ArgumentKind::f32: types.push_back(Float32Type::get(context)); break;
    }
  }
  return types;
}

}  // namespace lathe::emit
