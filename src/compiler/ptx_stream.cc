#include "compiler/ptx_stream.h"

#include "absl/strings/str_cat.h"
#include "compiler/ptx_hopper.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Values fields_of(Emit& e, Value structure) {
  Values fields;
  for (int64_t i = 0; i < 4; ++i)
    fields.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, structure, ArrayRef<int64_t>{i}));
  return fields;
}
Type four(Type element) {
  return LLVM::LLVMStructType::getLiteral(element.getContext(), SmallVector<Type>(4, element));
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
      e, inline_ptx(e, text, "=&r,=&r,=&r,=&r,l,l,r", {pointer, policy, left}, four(e.b.getI32Type())));
}

Values load_shared_words(Emit& e, Value at, int64_t offset) {
  const std::string text = absl::StrCat("ld.shared.v4.b32 {$0, $1, $2, $3}, [$4+", offset, "];");
  return fields_of(e, inline_ptx(e, text, "=r,=r,=r,=r,r,~{memory}", at, four(e.b.getI32Type())));
}

void replace_shared_words(Emit& e, MutableArrayRef<Value> words, Value shared, Value left, int64_t at) {
  const std::string text = absl::StrCat("{ .reg .pred p; setp.eq.s32 p, $5, ", at,
                                        "; @p ld.shared.v4.b32 {$0, $1, $2, $3}, [$4]; }");
  Values operands = {shared, left};
  operands.append(words.begin(), words.end());
  Value result = inline_ptx(e, text, "=r,=r,=r,=r,r,r,0,1,2,3,~{memory}", operands, four(e.b.getI32Type()));
  llvm::copy(fields_of(e, result), words.begin());
}

}  // namespace lathe::emit
