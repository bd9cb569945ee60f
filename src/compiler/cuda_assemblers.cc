#include "compiler/cuda_assemblers.h"

#include <algorithm>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

namespace lathe {
namespace {

constexpr unsigned kSharedMemory = 3;

// Moves the bits of a float through inline assembly, so that LLVM and ptxas treat them as an integer.
llvm::Value* opaque_bits(llvm::IRBuilder<>& b, llvm::Value* value) {
  const unsigned bits = value->getType()->getPrimitiveSizeInBits();
  llvm::Type* integer = b.getIntNTy(bits);
  const char letter = bits == 16 ? 'h' : bits == 32 ? 'r' : 'l';
  const std::string text = "mov.b" + std::to_string(bits) + " $0, $1;";
  const std::string constraints = std::string("=") + letter + "," + letter;
  auto* type = llvm::FunctionType::get(integer, {integer}, false);
  return b.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/false),
                      {b.CreateBitCast(value, integer)});
}

bool has_register(const llvm::Type* type) {
  const unsigned bits = type->getPrimitiveSizeInBits();
  return bits == 16 || bits == 32 || bits == 64;
}

void store_bits(llvm::StoreInst* store) {
  llvm::IRBuilder<> b(store);
  llvm::Value* value = store->getValueOperand();
  llvm::Type* type = value->getType();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) {
    const uint64_t bytes = vector->getElementType()->getPrimitiveSizeInBits() / 8;
    if (!has_register(vector->getElementType())) return;
    for (unsigned i = 0; i < vector->getNumElements(); ++i) {
      llvm::Value* at = b.CreateConstGEP1_64(b.getInt8Ty(), store->getPointerOperand(), i * bytes);
      const llvm::Align align = llvm::commonAlignment(store->getAlign(), i * bytes);
      b.CreateAlignedStore(opaque_bits(b, b.CreateExtractElement(value, i)), at, align, store->isVolatile());
    }
  } else if (has_register(type) && !type->isPointerTy()) {
    b.CreateAlignedStore(opaque_bits(b, value), store->getPointerOperand(), store->getAlign(),
                         store->isVolatile());
  } else {
    return;
  }
  store->eraseFromParent();
}

}  // namespace

void store_floats_as_integers(llvm::Module& module) {
  std::vector<llvm::StoreInst*> stores;
  for (llvm::Function& f : module) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      if (store == nullptr || store->isAtomic()) continue;
      llvm::Type* element = store->getValueOperand()->getType()->getScalarType();
      const uint64_t bytes = element->getPrimitiveSizeInBits() / 8;
      if (bytes > 1 && store->getAlign().value() < bytes) stores.push_back(store);
    }
  }
  for (llvm::StoreInst* store : stores) store_bits(store);
}

namespace {

// Collects the functions that use the value, directly or through constant expressions.
void collect_users(const llvm::Value* value, llvm::SmallPtrSetImpl<const llvm::Function*>* functions) {
  for (const llvm::User* user : value->users()) {
    if (const auto* i = llvm::dyn_cast<llvm::Instruction>(user))
      functions->insert(i->getFunction());
    else
      collect_users(user, functions);
  }
}

}  // namespace

void gather_static_shared_memory(llvm::Module& module) {
  uint64_t alignment = 0;
  llvm::SmallPtrSet<const llvm::Function*, 2> dynamic;
  for (const llvm::GlobalVariable& g : module.globals()) {
    if (g.getAddressSpace() != kSharedMemory || !g.isDeclaration()) continue;
    alignment = std::max(alignment, g.getAlign().valueOrOne().value());
    collect_users(&g, &dynamic);
  }
  std::vector<llvm::GlobalVariable*> variables;
  for (llvm::GlobalVariable& g : module.globals()) {
    if (g.getAddressSpace() != kSharedMemory || g.isDeclaration()) continue;
    llvm::SmallPtrSet<const llvm::Function*, 2> users;
    collect_users(&g, &users);
    if (llvm::any_of(users, [&](const llvm::Function* f) { return dynamic.contains(f); }))
      variables.push_back(&g);
  }
  if (variables.empty()) return;
  const llvm::DataLayout& layout = module.getDataLayout();
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;
  for (llvm::GlobalVariable* g : variables) {
    bytes = llvm::alignTo(bytes, g->getAlign().valueOrOne());
    offsets.push_back(bytes);
    bytes += layout.getTypeAllocSize(g->getValueType());
  }
  llvm::Type* byte = llvm::Type::getInt8Ty(module.getContext());
  llvm::Type* type = llvm::ArrayType::get(byte, llvm::alignTo(bytes, alignment));
  auto* block = new llvm::GlobalVariable(
      module, type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
      "lathe_static_shared", nullptr, llvm::GlobalValue::NotThreadLocal, kSharedMemory);
  block->setAlignment(llvm::Align(alignment));
  llvm::Type* offset_type = llvm::Type::getInt64Ty(module.getContext());
  for (size_t i = 0; i < variables.size(); ++i) {
    llvm::Constant* offset = llvm::ConstantInt::get(offset_type, offsets[i]);
    variables[i]->replaceAllUsesWith(llvm::ConstantExpr::getGetElementPtr(byte, block, offset));
    variables[i]->eraseFromParent();
  }
}

}  // namespace lathe
