#include "compiler/codegen.h"

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compiler/cuda_assemblers.h"
#include "compiler/launch_facts.h"
#include "compiler/link_amdgpu.h"
#include "compiler/ukernel.h"
#include "core/amd_targets.h"
#include "core/args.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"

namespace lathe {
namespace {

// What to pass to LLVM for a target.
struct MachineRow {
  const char* triple;
  std::string cpu;
  std::string features;
  CodeFormat format;
};

bool has_all(const Target& t, std::initializer_list<const char*> features) {
  return std::all_of(features.begin(), features.end(), [&](const char* f) { return t.has(f); });
}

// An x86-64 level implies all of its instructions, so use its name only if the target has all of them.
const char* x86_cpu(const Target& t) {
  if (!has_all(t, {"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "popcnt"})) return "x86-64";
  return has_all(t, {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}) ? "x86-64-v4" : "x86-64-v3";
}

// The lowest PTX version that has all instructions used by a target's kernels. A lower version runs on older
// drivers. A kernel that needs a higher version raises its row; ptxas names the version it needs.
struct PtxRow {
  const char* arch;
  int64_t version;
};
constexpr PtxRow kPtxVersions[] = {
    // The first version that supports the target, and the CUDA release that introduced it.
    {"sm_75", 63},    // CUDA 10.0
    {"sm_80", 70},    // CUDA 11.0; has cp.async, mma for bf16 and tf32
    {"sm_86", 71},    // CUDA 11.1
    {"sm_87", 74},    // CUDA 11.4
    {"sm_89", 78},    // CUDA 11.8
    {"sm_90", 80},    // CUDA 12.0; sm_90 exists since 7.8, but barrier.cluster.arrive.release needs 8.0
    {"sm_90a", 80},   // CUDA 12.0; has wgmma, TMA, setmaxnreg
    {"sm_100a", 86},  // CUDA 12.7
    {"sm_103a", 88},  // CUDA 12.9
    {"sm_120", 87},   // CUDA 12.8
    {"sm_121", 88},   // CUDA 12.9
};

// `ptx`: the lowest PTX version that this kernel needs; 0 if the target's version is enough.
absl::StatusOr<MachineRow> machine_row(const Target& t, int64_t ptx) {
  switch (t.backend) {
    case Backend::kCpu: {
      if (t.arch == "aarch64")
        return MachineRow{"aarch64-unknown-linux-gnu", "generic", t.features, CodeFormat::kElfObject};
      if (t.arch != "x86-64") break;
      return MachineRow{"x86_64-unknown-linux-gnu", x86_cpu(t), t.features, CodeFormat::kElfObject};
    }
    case Backend::kCuda:
      for (const PtxRow& row : kPtxVersions)
        if (t.arch == row.arch)
          return MachineRow{"nvptx64-nvidia-cuda", t.arch, absl::StrCat("+ptx", std::max(row.version, ptx)),
                            CodeFormat::kPtx};
      break;
    case Backend::kRocm: return MachineRow{"amdgcn-amd-amdhsa", t.arch, t.features, CodeFormat::kHsaco};
    // SPIR-V 1.2 is the lowest version that has all features these kernels use. OpenCL 2.2 requires it.
    case Backend::kSpirv: return MachineRow{"spirv64v1.2-unknown-unknown", "", "", CodeFormat::kSpirv};
  }
  return absl::UnimplementedError(absl::StrCat("no code generator for target ", t.arch));
}

// Replaces fma by a multiplication and an addition, which rounds twice. Without FMA instructions an fma would
// become a library call.
void split_fma(llvm::Module& module) {
  llvm::SmallVector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i))
        if (call->getIntrinsicID() == llvm::Intrinsic::fma) calls.push_back(call);
  for (llvm::IntrinsicInst* call : calls) {
    llvm::IRBuilder<> b(call);
    llvm::Value* product = b.CreateFMul(call->getArgOperand(0), call->getArgOperand(1));
    call->replaceAllUsesWith(b.CreateFAdd(product, call->getArgOperand(2)));
    call->eraseFromParent();
  }
}

// Replaces floor by a truncation, minus one if it rounded up. Without SSE4.1 a floor would become a library
// call. If |x| >= 2^23 or x is NaN, the result is x.
void expand_floor(llvm::Module& module) {
  llvm::SmallVector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i))
        if (call->getIntrinsicID() == llvm::Intrinsic::floor) calls.push_back(call);
  for (llvm::IntrinsicInst* call : calls) {
    llvm::IRBuilder<> b(call);
    llvm::Value* x = call->getArgOperand(0);
    llvm::Type* type = x->getType();
    llvm::Value* whole = b.CreateSIToFP(b.CreateFPToSI(x, type->getWithNewType(b.getInt32Ty())), type);
    llvm::Value* one = llvm::ConstantFP::get(type, 1);
    whole = b.CreateSelect(b.CreateFCmpOGT(whole, x), b.CreateFSub(whole, one), whole);
    llvm::Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    llvm::Value* small = b.CreateFCmpOLT(magnitude, llvm::ConstantFP::get(type, 0x1p23));
    call->replaceAllUsesWith(b.CreateSelect(small, whole, x));
    call->eraseFromParent();
  }
}

// Converts f16 to f32. The bits of exponent and mantissa, shifted to their place in an f32, are the value times
// 2^-112, also for subnormals. Infinities and NaNs get the exponent of an f32 infinity.
llvm::Value* widen_half(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Type* f32) {
  const auto integers = [&](unsigned width) { return f32->getWithNewType(b.getIntNTy(width)); };
  const auto bits = [&](uint32_t v) { return llvm::ConstantInt::get(integers(32), v); };
  llvm::Value* raw = b.CreateZExt(b.CreateBitCast(x, integers(16)), integers(32));
  llvm::Value* magnitude = b.CreateShl(b.CreateAnd(raw, bits(0x7fff)), bits(13));
  llvm::Value* sign = b.CreateShl(b.CreateAnd(raw, bits(0x8000)), bits(16));
  llvm::Value* finite = b.CreateFMul(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p112));
  llvm::Value* special = b.CreateICmpUGE(magnitude, bits(0x7c00 << 13));
  llvm::Value* value =
      b.CreateSelect(special, b.CreateOr(magnitude, bits(0x7f800000)), b.CreateBitCast(finite, integers(32)));
  return b.CreateBitCast(b.CreateOr(value, sign), f32);
}

// Converts f32 to the nearest f16, ties to even. If the result is subnormal, adding 0.5 rounds it, because one
// ulp of 0.5 in f32 is the smallest f16. Otherwise it adds half an ulp to the bits; a carry into the exponent
// is correct.
llvm::Value* narrow_to_half(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Type* f16) {
  llvm::Type* f32 = x->getType();
  const auto integers = [&](unsigned width) { return f32->getWithNewType(b.getIntNTy(width)); };
  const auto bits = [&](uint32_t v) { return llvm::ConstantInt::get(integers(32), v); };
  llvm::Value* raw = b.CreateBitCast(x, integers(32));
  llvm::Value* magnitude = b.CreateAnd(raw, bits(0x7fffffff));
  llvm::Value* sign = b.CreateLShr(b.CreateAnd(raw, bits(0x80000000)), bits(16));
  llvm::Value* shifted = b.CreateFAdd(b.CreateBitCast(magnitude, f32), llvm::ConstantFP::get(f32, 0.5));
  llvm::Value* small = b.CreateSub(b.CreateBitCast(shifted, integers(32)), bits(0x3f000000));
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(magnitude, bits(13)), bits(1));
  llvm::Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, bits(0xfff)), odd);
  llvm::Value* normal = b.CreateSub(b.CreateLShr(rounded, bits(13)), bits(112 << 10));
  llvm::Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, bits(0x38800000)), small, normal);
  // Values of 65520 and above round to infinity.
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, bits(0x477ff000)), bits(0x7c00), result);
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, bits(0x7f800000)), bits(0x7e00), result);
  return b.CreateBitCast(b.CreateTrunc(b.CreateOr(result, sign), integers(16)), f16);
}

// Replaces conversions between f16 and f32 by integer arithmetic. Without F16C they would become library calls.
void expand_half(llvm::Module& module) {
  const auto is = [](llvm::Type* t, bool half) {
    return half ? t->getScalarType()->isHalfTy() : t->getScalarType()->isFloatTy();
  };
  llvm::SmallVector<llvm::Instruction*> conversions;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f)) {
      const bool widens = llvm::isa<llvm::FPExtInst>(i), narrows = llvm::isa<llvm::FPTruncInst>(i);
      if ((widens || narrows) && is(i.getOperand(0)->getType(), widens) && is(i.getType(), narrows))
        conversions.push_back(&i);
    }
  for (llvm::Instruction* i : conversions) {
    llvm::IRBuilder<> b(i);
    llvm::Value* x = i->getOperand(0);
    i->replaceAllUsesWith(llvm::isa<llvm::FPExtInst>(i) ? widen_half(b, x, i->getType())
                                                        : narrow_to_half(b, x, i->getType()));
    i->eraseFromParent();
  }
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> make_machine(const MachineRow& row) {
  llvm::Triple triple(row.triple);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return absl::UnimplementedError(error);
  // Disable the combiner of the SPIR-V back end: it narrows (x & 31) to 32 bits without narrowing x, so the
  // module becomes invalid. This costs nothing, because the device's compiler optimises again.
  const bool combines = row.format != CodeFormat::kSpirv;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, row.cpu, row.features, llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt,
      combines ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None));
  if (!machine)
    return absl::InternalError(absl::StrCat("LLVM has no machine for ", row.triple, " ", row.cpu));
  return machine;
}

// Collects LLVM's errors, such as an LDS overflow, which LLVM would otherwise print to stderr.
struct DiagnosticCollector : llvm::DiagnosticHandler {
  explicit DiagnosticCollector(std::string* out) : text(out) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(*text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    return true;
  }
  std::string* text;
};

// Kernels are already vectorised and unrolled as the plan says, so LLVM only has to clean up. On the CPU, -O1
// takes longer and gives the same inner loops. GPUs use -O1 because their back ends need its address-space
// passes.
constexpr char kCpuPasses[] =
    "always-inline,globaldce,function(early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-"
    "rotate,licm),early-cse<"
    "memssa>,"
    "simplifycfg)";

absl::Status optimize(llvm::Module& module, llvm::TargetMachine& machine, bool cpu) {
  llvm::PipelineTuningOptions options;
  options.LoopUnrolling = options.LoopVectorization = options.SLPVectorization = options.LoopInterleaving =
      false;
  llvm::PassBuilder builder(&machine, options);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  // Declare all library functions unavailable, so that copy loops do not become calls of memcpy.
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  if (!cpu) {
    passes = builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1);
  } else if (llvm::Error error = builder.parsePassPipeline(passes, kCpuPasses)) {
    return absl::InternalError(llvm::toString(std::move(error)));
  }
  passes.run(module, modules);
  return absl::OkStatus();
}

// Adds the passes of addPassesToEmitFile and returns the owner of the machine code, or null if LLVM cannot emit
// this file type. With keeps_order there is no scheduling before register allocation, so the instructions stay
// in the order of the emitters.
llvm::MachineModuleInfoWrapperPass* add_passes_in_order(llvm::TargetMachine& machine, bool keeps_order,
                                                        llvm::CodeGenFileType type,
                                                        llvm::legacy::PassManager* passes,
                                                        llvm::raw_pwrite_stream* stream) {
  llvm::TargetPassConfig* config = machine.createPassConfig(*passes);
  auto* functions = new llvm::MachineModuleInfoWrapperPass(&machine);
  if (keeps_order) config->disablePass(&llvm::MachineSchedulerID);
  passes->add(config);
  passes->add(functions);
  if (config->addISelPasses()) return nullptr;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(*passes, *stream, nullptr, type, functions->getMMI().getContext()))
    return nullptr;
  return functions;
}

// Adds LLVM's code generation passes. Two are left out on x86-64:
//   - Loop strength reduction costs compile time and does not shorten the inner loops, because x86 addresses
//     have a base, a scaled index and an offset. Only a global option of LLVM disables it, hence the mutex.
//   - The scheduler before register allocation moves loads ahead of multiplications, so that accumulators,
//     which fill the registers, spill in the innermost loop.
bool add_passes(llvm::TargetMachine& machine, llvm::CodeGenFileType type, llvm::legacy::PassManager* passes,
                llvm::raw_pwrite_stream* stream) {
  static std::mutex mutex;
  static llvm::cl::Option* const option = llvm::cl::getRegisteredOptions().lookup("disable-lsr");
  const std::lock_guard<std::mutex> lock(mutex);
  const bool x86 = machine.getTargetTriple().isX86_64();
  if (option) static_cast<llvm::cl::opt<bool>*>(option)->setValue(x86);
  if (x86) return add_passes_in_order(machine, true, type, passes, stream) != nullptr;
  return !machine.addPassesToEmitFile(*passes, *stream, nullptr, type);
}

absl::StatusOr<std::string> emit_file(llvm::Module& module, llvm::TargetMachine& machine,
                                      llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  if (!add_passes(machine, type, &passes, &stream))
    return absl::InternalError("LLVM cannot emit this file type for the target");
  passes.run(module);
  return std::string(buffer.begin(), buffer.end());
}

// Like emit_file, with workarounds for the SPIR-V back end of LLVM 22:
//   - a new target machine for every module, because it remembers values of the previous one;
//   - one module at a time, because it keeps its state in a static variable;
//   - the machine code is leaked (about 0.5 MB per kernel). The state numbers basic blocks by address; a block
//     at the address of a freed one would get its number, and identifiers would be defined twice.
absl::StatusOr<std::string> emit_spirv(llvm::Module& module, const MachineRow& row,
                                       llvm::CodeGenFileType type) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, make_machine(row));
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  auto* functions = add_passes_in_order(*machine, /*keeps_order=*/false, type, &passes, &stream);
  if (functions == nullptr) return absl::InternalError("LLVM cannot emit SPIR-V");
  passes.run(module);
  new llvm::MachineModuleInfo(std::move(functions->getMMI()));
  return std::string(buffer.begin(), buffer.end());
}

// A CPU kernel is loaded without any other object, so it must define every symbol that it uses.
absl::Status check_self_contained(const std::string& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernel"));
  if (!file) return absl::InternalError(llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      return absl::InternalError("unreadable symbol table");
    }
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty())
      return absl::AbortedError(absl::StrCat("the kernel needs the undefined symbol '", name->str(), "'"));
  }
  return absl::OkStatus();
}

// Replaces llvm.maximum by comparisons, because the SPIR-V back end would turn it into OpenCL's fmax, which
// ignores NaNs. For two zeros of different sign the result may be either; kernels do not distinguish them.
void expand_maximum(llvm::Module& module) {
  llvm::SmallVector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i))
        if (call->getIntrinsicID() == llvm::Intrinsic::maximum) calls.push_back(call);
  for (llvm::IntrinsicInst* call : calls) {
    llvm::IRBuilder<> b(call);
    llvm::Value *x = call->getArgOperand(0), *y = call->getArgOperand(1);
    // `greater` is y if y is a NaN. The second select returns x if x is a NaN.
    llvm::Value* greater = b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
    call->replaceAllUsesWith(b.CreateSelect(b.CreateFCmpUNO(x, x), x, greater));
    call->eraseFromParent();
  }
}

// Expands operations that the target lacks or treats differently.
void expand_missing(llvm::Module& module, const Target& target) {
  if (target.backend == Backend::kSpirv) expand_maximum(module);
  if (target.arch == "x86-64" && !target.has("fma")) split_fma(module);
  if (target.arch == "x86-64" && !target.has("avx")) expand_floor(module);
  if (target.arch == "x86-64" && !target.has("f16c")) expand_half(module);
}

void set_cpu_attributes(llvm::Function& f, const MachineRow& row, const Target& target) {
  f.addFnAttr("target-cpu", row.cpu);
  f.addFnAttr("target-features", row.features);
  f.addFnAttr("no-builtins");
  // Without this attribute LLVM splits 512-bit vectors for CPUs whose tuning prefers 256 bits.
  if (target.has("avx512f")) f.addFnAttr("prefer-vector-width", "512");
  f.addFnAttr(llvm::Attribute::NoUnwind);
}

mlir::Operation* translatable(mlir::ModuleOp module, const Target& target) {
  if (target.backend == Backend::kCpu) return module;
  for (mlir::gpu::GPUModuleOp gpu : module.getOps<mlir::gpu::GPUModuleOp>()) return gpu;
  return nullptr;
}

// Generic targets need version 6. All others use version 5, which older runtimes can load too.
uint32_t code_object_version(const Target& target) { return is_amd_generic(target.arch) ? 600 : 500; }

// Functions that a SPIR-V module may call: OpenCL functions that the back end turns into built-in variables and
// instructions, and Intel's functions that the device's driver provides. Nothing else would be defined.
bool is_spirv_builtin(llvm::StringRef name) {
  size_t length = 0;
  if (!name.consume_front("_Z") || name.consumeInteger(10, length)) return false;
  name = name.take_front(length);
  return name.starts_with("intel_sub_group_") ||
         llvm::is_contained(
             {"get_local_id", "get_group_id", "get_sub_group_id", "get_sub_group_local_id", "barrier"}, name);
}

// Finds an op that cannot be translated to LLVM IR. The translation itself would fail without its name.
absl::Status check_lowered(mlir::Operation* root) {
  std::string left;
  root->walk([&](mlir::Operation* op) {
    if (op == root || llvm::isa<mlir::LLVM::LLVMDialect>(op->getDialect()) || !left.empty()) return;
    llvm::StringRef dialect = op->getName().getDialectNamespace();
    if (dialect != "nvvm" && dialect != "rocdl" && dialect != "builtin" && dialect != "gpu")
      left = op->getName().getStringRef().str();
    if (op->getName().getStringRef() == "builtin.unrealized_conversion_cast")
      left = "builtin.unrealized_conversion_cast";
  });
  if (left.empty()) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("op '", left, "' remains after the last stage: the pipeline does not lower it"));
}

// Adds attributes that MLIR's conversions do not set. Parameters after the argument block are tensor maps,
// passed by value and used by address. The emitter's function attributes are copied. Inline assembly is
// convergent, because it contains warp-wide instructions and barriers, which must not move across branches.
void finish_cuda_kernel(mlir::ModuleOp module, llvm::Function& f) {
  llvm::LLVMContext& context = f.getContext();
  for (unsigned i = std::size(kArgumentFields); i < f.arg_size(); ++i) {
    llvm::Type* map = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kTensorMapBytes);
    f.addParamAttr(i, llvm::Attribute::getWithByValType(context, map));
    f.addParamAttr(i, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
    f.addParamAttr(i, llvm::Attribute::get(context, "nvvm.grid_constant"));
  }
  for (const auto& [name, value] : emit::launch_facts(module, f.getName()).function_attributes)
    f.addFnAttr(name, value);
  bool convergent = false;
  for (llvm::Instruction& i : llvm::instructions(f)) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    if (!call || !call->isInlineAsm()) continue;
    call->addFnAttr(llvm::Attribute::Convergent);
    convergent = true;
  }
  if (convergent) f.addFnAttr(llvm::Attribute::Convergent);
}

}  // namespace

void StageTimes::lap(const std::string& name) {
  const auto now = std::chrono::steady_clock::now();
  laps_.emplace_back(name, std::chrono::duration<double, std::milli>(now - last_).count());
  last_ = now;
}

absl::StatusOr<MachineCode> generate_code(mlir::ModuleOp module, const Target& target, const TextSink& dump,
                                          StageTimes* times) {
  LATHE_ASSIGN_OR_RETURN(MachineRow row, machine_row(target, emit::least_ptx(module)));
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, make_machine(row));
  mlir::Operation* root = translatable(module, target);
  if (!root) return absl::AbortedError("the pipeline's last stage leaves no gpu.module");
  LATHE_RETURN_IF_ERROR(check_lowered(root));

  std::string complaint;
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<DiagnosticCollector>(&complaint));
  std::unique_ptr<llvm::Module> ir = mlir::translateModuleToLLVMIR(root, context);
  if (!ir) return absl::AbortedError("translation to LLVM IR failed");
  ir->setTargetTriple(machine->getTargetTriple());
  ir->setDataLayout(machine->createDataLayout());
  if (absl::Status linked = link_ukernels(root, ir.get()); !linked.ok())
    return absl::AbortedError(absl::StrCat(linked.message(), complaint.empty() ? "" : ": ", complaint));
  if (target.backend == Backend::kRocm)
    ir->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", code_object_version(target));
  expand_missing(*ir, target);
  for (llvm::Function& f : *ir) {
    if (f.isDeclaration()) continue;
    if (target.backend == Backend::kCuda) finish_cuda_kernel(module, f);
    // The plan fixes the workgroup size, but MLIR translates it to an upper bound.
    if (f.hasFnAttribute("nvvm.maxntid")) {
      f.addFnAttr("nvvm.reqntid", f.getFnAttribute("nvvm.maxntid").getValueAsString());
      f.removeFnAttr("nvvm.maxntid");
    }
    if (target.backend == Backend::kCpu) set_cpu_attributes(f, row, target);
  }
  if (target.backend == Backend::kCuda) store_floats_as_integers(*ir);
  times->lap("translate");
  LATHE_RETURN_IF_ERROR(optimize(*ir, *machine, target.backend == Backend::kCpu));
  if (target.backend == Backend::kCuda) gather_static_shared_memory(*ir);
  times->lap("optimize");
  if (dump) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    ir->print(stream, nullptr);
    dump("llvm.ll", text);
    if (row.format != CodeFormat::kPtx) {
      std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*ir);
      constexpr auto kText = llvm::CodeGenFileType::AssemblyFile;
      LATHE_ASSIGN_OR_RETURN(const std::string assembly, target.backend == Backend::kSpirv
                                                             ? emit_spirv(*copy, row, kText)
                                                             : emit_file(*copy, *machine, kText));
      dump("assembly.s", assembly);
    }
  }
  for (const llvm::Function& f : *ir)
    if (f.isDeclaration() && !f.isIntrinsic() &&
        !(target.backend == Backend::kSpirv && is_spirv_builtin(f.getName())))
      return absl::AbortedError(
          absl::StrCat("the kernel calls the undefined function '", f.getName().str(), "'"));
  const bool ptx = row.format == CodeFormat::kPtx;
  MachineCode code{row.format, ""};
  const auto type = ptx ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  LATHE_ASSIGN_OR_RETURN(code.bytes, target.backend == Backend::kSpirv ? emit_spirv(*ir, row, type)
                                                                       : emit_file(*ir, *machine, type));
  times->lap("generate code");
  if (!complaint.empty()) return absl::AbortedError(complaint);
  if (ptx && dump) dump("kernel.ptx", code.bytes);
  if (target.backend == Backend::kCpu) LATHE_RETURN_IF_ERROR(check_self_contained(code.bytes));
  if (target.backend == Backend::kRocm) {
    LATHE_ASSIGN_OR_RETURN(code.bytes, link_amdgpu(code.bytes));
    times->lap("link");
  }
  return code;
}

std::string triple_of(const Target& target) {
  const absl::StatusOr<MachineRow> row = machine_row(target, 0);
  return row.ok() ? row->triple : "";
}

absl::Status check_code(llvm::Module& module, const Target& target) {
  LATHE_ASSIGN_OR_RETURN(const MachineRow row, machine_row(target, 0));
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, make_machine(row));
  module.setTargetTriple(machine->getTargetTriple());
  if (target.backend != Backend::kCpu) {
    LATHE_RETURN_IF_ERROR(optimize(module, *machine, /*cpu=*/false));
    return emit_file(module, *machine, llvm::CodeGenFileType::AssemblyFile).status();
  }
  expand_missing(module, target);
  for (llvm::Function& f : module)
    if (!f.isDeclaration()) set_cpu_attributes(f, row, target);
  LATHE_RETURN_IF_ERROR(optimize(module, *machine, /*cpu=*/true));
  LATHE_ASSIGN_OR_RETURN(const std::string object,
                         emit_file(module, *machine, llvm::CodeGenFileType::ObjectFile));
  return check_self_contained(object);
}

void initialize_targets() {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo(), LLVMInitializeX86Target(), LLVMInitializeX86TargetMC(),
        LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo(), LLVMInitializeAArch64Target(), LLVMInitializeAArch64TargetMC(),
        LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC(),
        LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo(), LLVMInitializeAMDGPUTarget(), LLVMInitializeAMDGPUTargetMC(),
        LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeSPIRVTargetInfo(), LLVMInitializeSPIRVTarget(), LLVMInitializeSPIRVTargetMC(),
        LLVMInitializeSPIRVAsmPrinter();
    return true;
  }();
  (void)once;
}

}  // namespace lathe
