// The entry points of liblathe-compiler: they turn a request into an artifact (core/compiler_abi.h).
#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "compiler/assemble_ptx.h"
#include "compiler/check_grid.h"
#include "compiler/codegen.h"
#include "compiler/context.h"
#include "compiler/cpu_task.h"
#include "compiler/dialect.h"
#include "compiler/external.h"
#include "compiler/inspect.h"
#include "compiler/launch_facts.h"
#include "compiler/mlir.h"
#include "compiler/pipeline.h"
#include "compiler/registry.h"
#include "compiler/ukernel.h"
#include "compiler/user_ukernel.h"
#include "core/artifact.h"
#include "core/compiler_abi.h"
#include "core/elementwise.h"
#include "core/json.h"
#include "core/kernel_name.h"
#include "core/key.h"
#include "llvm/Support/ErrorHandling.h"

namespace lathe {
namespace {

struct CompileRequest {
  ProblemClass problem;
  CompileConfig config;
  Target target;
  std::optional<PipelineText> pipeline;  // absent: use the built-in one
  bool dump = false;
  std::string bitcode;  // of a user's ukernel; empty if the config uses a built-in one or none
  std::optional<ElementwiseProgram> program;  // of an elementwise op
  std::optional<AssemblerSearch> assembler;   // absent: do not assemble PTX
};

// Decodes a base64 field of a request.
absl::StatusOr<std::string> bytes_field(const Json& j, const char* name) {
  LATHE_ASSIGN_OR_RETURN(const std::string text, read_json("request", [&] { return text_field(j, name); }));
  std::string bytes;
  if (absl::Base64Unescape(text, &bytes)) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("request: '", name, "' is not valid base64"));
}

absl::StatusOr<CompileRequest> parse_request(absl::string_view bytes) {
  LATHE_ASSIGN_OR_RETURN(Json j, parse_json(bytes, "compile request"));
  CompileRequest r;
  auto part = [&](const char* name) { return j.contains(name) ? j[name] : Json(); };
  LATHE_ASSIGN_OR_RETURN(r.problem, problem_class_from_json(part("class")));
  LATHE_ASSIGN_OR_RETURN(r.config, compile_config_from_json(part("config")));
  LATHE_ASSIGN_OR_RETURN(r.target, target_from_json(part("target")));
  if (j.contains("pipeline")) {
    LATHE_ASSIGN_OR_RETURN(r.pipeline, pipeline_text_from_json(j["pipeline"]));
  }
  r.dump = j.contains("dump") && j["dump"] == true;
  if (j.contains("bitcode")) {
    LATHE_ASSIGN_OR_RETURN(r.bitcode, bytes_field(j, "bitcode"));
  }
  if (has_program(r.problem.op)) {
    LATHE_ASSIGN_OR_RETURN(const std::string text,
                           read_json("request", [&] { return text_field(j, "program"); }));
    LATHE_ASSIGN_OR_RETURN(r.program, parse_elementwise(text));
    if (!is_program_of(r.problem, *r.program))
      return absl::InvalidArgumentError("request: 'program' does not have the digest that the class names");
  }
  if (j.contains("assemble")) {
    LATHE_ASSIGN_OR_RETURN(r.assembler, assembler_search_from_json(j["assemble"]));
  }
  return r;
}

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, mlir::OpPrintingFlags().elideLargeResourceString(0));
  return text;
}

// Metadata is for people and tests only; no code depends on it.
Json metadata_of(const BoundPipeline& pipeline, const StageTimes& times) {
  Json stages = Json::array();
  double total = 0;
  for (const auto& [name, milliseconds] : times.milliseconds()) {
    stages.push_back({name, milliseconds});
    total += milliseconds;
  }
  return {{"compile_milliseconds", total}, {"pipeline", pipeline.name}, {"stages", stages}};
}

absl::string_view code_file(CodeFormat format) {
  switch (format) {
    case CodeFormat::kElfObject: return "kernel.o";
    case CodeFormat::kPtx: return "kernel.ptx";
    case CodeFormat::kCubin: return "kernel.cubin";
    case CodeFormat::kHsaco: return "kernel.hsaco";
    case CodeFormat::kSpirv: return "kernel.spv";
    case CodeFormat::kNone: break;
  }
  return "kernel";
}

// Assembles PTX to a cubin if the request asks for it and an assembler is found. Returns the metadata about the
// assembler.
absl::StatusOr<Json> assemble(const CompileRequest& r, MachineCode* code) {
  if (!r.assembler) return Json{{"assembler", kNoAssembler}};
  LATHE_ASSIGN_OR_RETURN(AssembledPtx assembled, assemble_ptx(code->bytes, r.target.arch, *r.assembler));
  const Json said = to_json(assembled);
  if (!assembled.cubin.empty()) *code = {CodeFormat::kCubin, std::move(assembled.cubin)};
  return said;
}

void dump_outcome(const Artifact& artifact, const Json& metadata, const TextSink& dump) {
  if (!dump) return;
  // generate_code has already dumped PTX.
  if (artifact.format != CodeFormat::kPtx && artifact.format != CodeFormat::kNone)
    dump(std::string(code_file(artifact.format)), artifact.code);
  dump("recipe.json", to_json(artifact.recipe).dump(2));
  // An assembler's output is not always UTF-8.
  dump("metadata.json", metadata.dump(2, ' ', false, Json::error_handler_t::replace));
}

absl::StatusOr<Artifact> compile(const CompileRequest& r, const TextSink& dump) {
  StageTimes times;
  const OpEmitters* op = emitters_of(r.problem.op);
  if (!op) return absl::UnimplementedError(absl::StrCat("no payload for op ", name_of(r.problem.op)));
  if (const std::string why = refusal_of(r.config, r.problem.op, r.target.backend); !why.empty())
    return absl::InvalidArgumentError(why);
  const bool external = !r.config.external.provider.empty();
  const std::string serves =
      external ? external_pipeline_name(r.problem.op) : pipeline_name(r.problem.op, r.target.backend);
  PipelineText text;
  if (r.pipeline) {
    text = *r.pipeline;
  } else {
    LATHE_ASSIGN_OR_RETURN(text, builtin_pipeline(serves));
  }
  CompilerContext context(dialects_of(r.target.backend));
  LATHE_ASSIGN_OR_RETURN(
      const BoundPipeline pipeline,
      bind_pipeline(text, serves, r.config, r.target, kernel_name(r.problem, r.config), &context.get()));
  if (!pipeline.unused.empty())
    return absl::InvalidArgumentError(absl::StrCat(pipeline.unused.begin()->second, " of ", pipeline.name));
  LATHE_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                         context.parse(op->payload_of ? op->payload_of(r.problem, r.config, *r.program)
                                                      : op->payload(r.problem, r.config)));
  mlir::OpBuilder b(module->getContext());
  (*module)->setAttr(ir::kBackendAttr, b.getStringAttr(std::string(name_of(r.target.backend))));
  (*module)->setAttr(ir::kArchAttr, b.getStringAttr(r.target.arch));
  (*module)->setAttr(ir::kFeaturesAttr, b.getStringAttr(r.target.features));
  const bool dependent = has_dependent_launch(r.target);
  (*module)->setAttr(ir::kDependentLaunchAttr,
                     b.getI32IntegerAttr(dependent ? static_cast<int32_t>(r.problem.dependent_launch) : 0));
  (*module)->setAttr(ir::kAlignmentAttr, b.getI32IntegerAttr(static_cast<int32_t>(r.problem.alignment)));
  if (r.problem.rows != Rows::kPlain)
    (*module)->setAttr(ir::kRowsAttr, b.getI32IntegerAttr(static_cast<int32_t>(r.problem.rows)));
  if (is_grouped(r.problem.rows) && r.problem.m_hi == 1)
    (*module)->setAttr(ir::kTilePerSlotAttr, b.getUnitAttr());
  if (r.problem.generic) (*module)->setAttr(ir::kGenericAttr, b.getUnitAttr());
  LATHE_RETURN_IF_ERROR(attach_bitcode(*module, r.bitcode));
  times.lap("payload");
  if (dump) dump("00-payload.mlir", print(*module));
  hoist_bitcode(*module);
  int stage = 0;
  absl::Status grid;
  const bool is_scheduled = std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                                        [](const BoundStage& s) { return s.schedule != nullptr; });
  LATHE_RETURN_IF_ERROR(run_pipeline(pipeline, *module, [&](const std::string& name, mlir::ModuleOp m) {
    if (is_scheduled && grid.ok())
      grid = check_grid(m, r.problem, op->recipe(r.problem, r.config, r.target, 0));
    if (!grid.ok()) return;
    times.lap(name);
    if (dump) dump(absl::StrFormat("%02d-%s.mlir", ++stage, name), print(m));
  }));

  if (!grid.ok()) return absl::InvalidArgumentError(absl::StrCat(pipeline.name, ": ", grid.message()));
  if (external) {
    Artifact artifact;
    artifact.format = CodeFormat::kNone;
    LATHE_ASSIGN_OR_RETURN(artifact.recipe, external_recipe(*module, r.problem, r.target));
    const Json metadata = metadata_of(pipeline, times);
    artifact.metadata = canonical_text(metadata);
    dump_outcome(artifact, metadata, dump);
    return artifact;
  }
  int64_t scratch = 0;
  if (auto bytes = (*module)->getAttrOfType<mlir::IntegerAttr>(emit::kScratchAttr)) scratch = bytes.getInt();
  LATHE_ASSIGN_OR_RETURN(MachineCode code, generate_code(*module, r.target, dump, &times));
  Json assembly = Json::object();
  if (code.format == CodeFormat::kPtx) {
    LATHE_ASSIGN_OR_RETURN(assembly, assemble(r, &code));
    if (r.assembler) times.lap("assemble");
  }
  Artifact artifact;
  artifact.format = code.format;
  artifact.code = std::move(code.bytes);
  artifact.recipe = op->recipe(r.problem, r.config, r.target, scratch);
  emit::complete_recipe(*module, &artifact.recipe);
  Json metadata = metadata_of(pipeline, times);
  metadata.update(assembly);
  artifact.metadata = canonical_text(metadata);
  dump_outcome(artifact, metadata, dump);
  return artifact;
}

// Removes the parameters that no stage uses. They may belong to another pipeline that reads the same file.
absl::StatusOr<PipelineText> without_unused(PipelineText text,
                                            const std::map<std::string, std::string>& unused) {
  if (unused.empty()) return text;
  LATHE_ASSIGN_OR_RETURN(Json json, parse_json(text.parameters, text.parameters_name));
  Json& parameters = json["parameters"];
  for (const auto& [name, why] : unused) parameters.erase(std::string(absl::StripPrefix(name, "params.")));
  text.parameters = canonical_text({{"parameters", parameters}});
  if (parameters.empty()) text.parameters_name.clear();
  return text;
}

// Binds a pipeline to a placeholder plan. Families have different fields, so values of `plan.` must be those of one
// family that serves the op and the backend. The error is that for the first family.
absl::StatusOr<BoundPipeline> bind_to_a_family(const PipelineText& text, Op op, const Target& target,
                                               mlir::MLIRContext* context) {
  const std::string serves = pipeline_name(op, target.backend);
  absl::Status error;
  for (const KernelRow& kernel : kKernels) {
    const ConfigFamily family = family_of(kernel.kind, op, target.backend);
    if (family == ConfigFamily::kNone) continue;
    const CompileConfig config(KernelConfig(family, kernel.kind), UkernelRef());
    absl::StatusOr<BoundPipeline> bound = bind_pipeline(text, serves, config, target, "kernel", context);
    if (bound.ok()) return bound;
    error.Update(bound.status());
  }
  return error;
}

// Reads a user's pipeline and checks it with a placeholder plan. Returns {"for", "pipeline": as in a compile
// request, "unused": {"params.NAME": a message with file and line}}.
absl::StatusOr<Json> checked_pipeline(const Json& question) {
  LATHE_ASSIGN_OR_RETURN(const auto paths, read_json("read_pipeline", [&] {
                           return std::make_pair(text_field(question, "path"),
                                                 text_field(question, "parameters"));
                         }));
  LATHE_ASSIGN_OR_RETURN(const PipelineText text, read_pipeline(paths.first, paths.second));
  LATHE_ASSIGN_OR_RETURN(const Pipeline pipeline, parse_pipeline(text.name, text.yaml));
  for (const OpRow& row : ops::kRows)
    for (const Backend backend : kBackends) {
      if (pipeline.serves != pipeline_name(row.op, backend)) continue;
      Target target;
      target.backend = backend;
      CompilerContext context(dialects_of(backend));
      LATHE_ASSIGN_OR_RETURN(const BoundPipeline bound,
                             bind_to_a_family(text, row.op, target, &context.get()));
      LATHE_ASSIGN_OR_RETURN(const PipelineText used, without_unused(text, bound.unused));
      return Json{{"for", pipeline.serves}, {"pipeline", to_json(used)}, {"unused", bound.unused}};
    }
  return absl::InvalidArgumentError(
      absl::StrCat(text.name, ":1: 'for: ", pipeline.serves,
                   "' is not an op and a backend (matmul.cpu, argmax.cuda, ...)"));
}

// LLVM ends the process on fatal errors such as "Cannot select". Throwing an exception through LLVM's frames
// fails only this kernel, at the price of leaking the memory of its compilation.
struct FatalError : std::exception {
  explicit FatalError(std::string t) : text(std::move(t)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};
void throw_fatal_error(void*, const char* reason, bool) { throw FatalError(reason); }
// The same if LLVM runs out of memory.
void throw_bad_alloc(void*, const char*, bool) { throw std::bad_alloc(); }

void initialize() {
  static const bool once = [] {
    llvm::install_fatal_error_handler(throw_fatal_error);
    llvm::install_bad_alloc_error_handler(throw_bad_alloc);
    initialize_targets();
    register_passes();
    return true;
  }();
  (void)once;
}

// Sends exactly one result to the sink.
class Answer {
 public:
  Answer(lathe_compiler_sink sink, void* user) : sink_(sink), user_(user) {}

  void send(int output, const char* name, absl::string_view bytes) const {
    sink_(user_, output, name, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  int refuse(absl::string_view why) const {
    send(LATHE_COMPILER_ERROR, "error", why);
    return 1;
  }
  int answer(absl::string_view request) const {
    initialize();
    absl::StatusOr<Json> json = parse_json(request, "compile request");
    if (json.ok() && json->is_object() && json->contains("inspect")) return inspect((*json)["inspect"]);
    if (json.ok() && json->is_object() && json->contains("read_pipeline"))
      return read_pipeline((*json)["read_pipeline"]);
    if (json.ok() && json->is_object() && json->contains("ukernel")) return check((*json)["ukernel"]);
    return compile(request);
  }

 private:
  int check(const Json& ukernel) const {
    const absl::StatusOr<std::string> yaml =
        read_json("ukernel", [&] { return text_field(ukernel, "description"); });
    if (!yaml.ok()) return refuse(yaml.status().message());
    const absl::StatusOr<std::string> bitcode = bytes_field(ukernel, "bitcode");
    if (!bitcode.ok()) return refuse(bitcode.status().message());
    const absl::StatusOr<Json> checked = check_user_ukernel(*yaml, *bitcode);
    if (!checked.ok()) return refuse(checked.status().message());
    send(LATHE_COMPILER_JSON, "ukernel", canonical_text(*checked));
    return 0;
  }
  int inspect(const Json& payload) const {
    const absl::StatusOr<Json> program = read_json(
        "inspect", [&] { return inspect_payload(text_field(payload, "name"), text_field(payload, "text")); });
    if (!program.ok()) return refuse(program.status().message());
    send(LATHE_COMPILER_JSON, "program", canonical_text(*program));
    return 0;
  }
  int read_pipeline(const Json& question) const {
    const absl::StatusOr<Json> pipeline = checked_pipeline(question);
    if (!pipeline.ok()) return refuse(pipeline.status().message());
    send(LATHE_COMPILER_JSON, "pipeline", canonical_text(*pipeline));
    return 0;
  }
  int compile(absl::string_view request) const {
    absl::StatusOr<CompileRequest> r = parse_request(request);
    if (!r.ok()) return refuse(r.status().message());
    TextSink dump;
    if (r->dump)
      dump = [this](const std::string& name, const std::string& text) {
        send(LATHE_COMPILER_DUMP, name.c_str(), text);
      };
    absl::StatusOr<Artifact> artifact = lathe::compile(*r, dump);
    if (!artifact.ok()) return refuse(artifact.status().message());
    send(LATHE_COMPILER_ARTIFACT, "artifact", serialize(*artifact));
    return 0;
  }

  lathe_compiler_sink sink_;
  void* user_;
};

}  // namespace
}  // namespace lathe

extern "C" {

__attribute__((visibility("default"))) uint32_t lathe_compiler_abi_version(void) {
  return LATHE_COMPILER_ABI_VERSION;
}

__attribute__((visibility("default"))) const char* lathe_compiler_codegen_id(void) {
  static const std::string id(lathe::codegen_id());
  return id.c_str();
}

__attribute__((visibility("default"))) int lathe_compiler_compile(const uint8_t* request, size_t size,
                                                                  lathe_compiler_sink sink, void* user) {
  const lathe::Answer answer(sink, user);
  try {
    return answer.answer(absl::string_view(reinterpret_cast<const char*>(request), size));
  } catch (const std::bad_alloc&) {
    return LATHE_COMPILER_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return answer.refuse(e.what());
  }
}

}  // extern "C"
