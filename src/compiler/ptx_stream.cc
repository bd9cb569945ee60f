#include "compiler/ptx_stream.h"

#include "absl/strings/str_cat.h"
#include "compiler/ptx_hopper.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Values fields_of(Emit& e, Value structure, int64_t count = 4) {
  Values fields;
  for (int64_t i = 0; i < count; ++i)
    fields.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, structure, ArrayRef<int64_t>{i}));
  return fields;
}
Type struct_of(Type element, int64_t count = 4) {
  return LLVM::LLVMStructType::getLiteral(element.getContext(), SmallVector<Type>(count, element));
}

}  // namespace

Value evict_first(Emit& e) {
  return inline_ptx(e, "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;", "=l", {}, e.b.getI64Type());
}

Values load_streaming(Emit& e, Value pointer, int64_t offset, Value policy, Value left, int64_t at_least) {
  const std::string text =
      absl::StrCat("{ .reg .pred p; setp.gt.s32 p, $6, ", at_least,
                   "; mov.b32 $0, 0; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; "
                   "@p ld.global.L1::no_allocate.L2::cache_hint.L2::256B.v4.b32 {$0, $1, $2, $3}, [$4+",
                   offset, "], $5; }");
  return fields_of(
      e, inline_ptx(e, text, "=&r,=&r,=&r,=&r,l,l,r", {pointer, policy, left}, struct_of(e.b.getI32Type())));
}

Value load_present(Emit& e, Value pointer, int64_t offset, int64_t bytes, Value left, int64_t at_least) {
  const std::string text =
      absl::StrCat("{ .reg .pred p; setp.gt.s32 p, $2, ", at_least, "; mov.b32 $0, 0; @p ld.global.u",
                   8 * bytes, " $0, [$1+", offset, "]; }");
  return inline_ptx(e, text, "=&r,l,r", {pointer, left}, e.b.getI32Type());
}

Values load_shared_words(Emit& e, Value at, int64_t offset, int64_t count) {
  const std::string text =
      count == 4 ? "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4+" : "ld.shared.v2.b32 {$0, $1}, [$2+";
  return fields_of(e,
                   inline_ptx(e, absl::StrCat(text, offset, "];"),
                              count == 4 ? "=r,=r,=r,=r,r,~{memory}" : "=r,=r,r,~{memory}", at,
                              struct_of(e.b.getI32Type(), count)),
                   count);
}

void replace_shared_words(Emit& e, MutableArrayRef<Value> words, Value shared, Value left, int64_t at) {
  const std::string text = absl::StrCat("{ .reg .pred p; setp.eq.s32 p, $5, ", at,
                                        "; @p ld.shared.v4.b32 {$0, $1, $2, $3}, [$4]; }");
  Values operands = {shared, left};
  operands.append(words.begin(), words.end());
  Value result =
      inline_ptx(e, text, "=r,=r,=r,=r,r,r,0,1,2,3,~{memory}", operands, struct_of(e.b.getI32Type()));
  llvm::copy(fields_of(e, result), words.begin());
}

Value pair_halves(Emit& e, Value x, Value y, bool second) {
  const char* text = second ? "prmt.b32 $0, $1, $2, 0x7632;" : "prmt.b32 $0, $1, $2, 0x5410;";
  return inline_ptx(e, text, "=r,r,r", {x, y}, e.b.getI32Type());
}

Value exchange_lanes(Emit& e, Value x, int64_t bit) {
  return inline_ptx(e, absl::StrCat("shfl.sync.bfly.b32 $0, $1, ", bit, ", 31, -1;"), "=f,f", x, e.f32());
}

}  // namespace lathe::emit
