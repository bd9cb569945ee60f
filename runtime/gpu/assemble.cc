#include "runtime/gpu/assemble.h"

#include "absl/strings/str_cat.h"
#include "core/assembler_log.h"
#include "core/json.h"
#include "runtime/gpu/jit_log.h"
#include "runtime/gpu/scopes.h"

namespace lathe::gpu {
namespace {

absl::StatusOr<std::string> link(const std::string& ptx, const Library& library, const Contexts& contexts,
                                 JitLog& log) {
  ContextScope scope(library);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts.primary()));
  const RelaxedCapture relaxed(library);
  const Calls& call = library.call();
  LinkState state = nullptr;
  LATHE_RETURN_IF_ERROR(library.check(
      call.link_create(log.option_count(), log.options(), log.values(), &state), "making a linker"));
  // PTX is passed with its terminating NUL.
  int result = call.link_add(state, kJitInputPtx, const_cast<char*>(ptx.c_str()), ptx.size() + 1,
                             "kernel.ptx", 0, nullptr, nullptr);
  void* image = nullptr;
  size_t bytes = 0;
  if (result == kSuccess) result = call.link_complete(state, &image, &bytes);
  std::string cubin;
  if (result == kSuccess)
    cubin.assign(static_cast<const char*>(image), bytes);  // `image` is the linker's memory
  call.link_destroy(state);
  LATHE_RETURN_IF_ERROR(library.check(result, "linking PTX"));
  if (cubin.empty()) return absl::InternalError("linking PTX: the driver returned an empty image");
  return cubin;
}

std::string assembler_name(const Library& library) {
  int version = 0;
  library.call().driver_version(&version);  // 13000 for 13.0
  return absl::StrCat("CUDA driver ", version / 1000, ".", version % 1000 / 10);
}

// Adds the assembler and its messages to the artifact's metadata. A driver's messages are not always UTF-8.
void describe(Artifact* artifact, const std::string& assembler, const std::vector<std::string>& messages) {
  absl::StatusOr<Json> metadata = parse_json(artifact->metadata, "metadata");
  if (!metadata.ok() || !metadata->is_object()) metadata = Json::object();
  (*metadata)["assembler"] = assembler;
  if (!messages.empty()) (*metadata)["messages"] = messages;
  artifact->metadata = metadata->dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Artifact link_ptx(Artifact artifact, const Library& library, const Contexts& contexts, const Logger& logger) {
  if (artifact.format != CodeFormat::kPtx) return artifact;
  if (is_worse_linked(artifact.code)) {
    describe(&artifact, kAssembledByLoader, {});
    logger.log(LogLevel::kInfo, "PTX is kept as PTX: it uses setmaxnreg, which the driver's linker ignores");
    return artifact;
  }
  JitLog log(JitLog::kForLinker);
  absl::StatusOr<std::string> cubin = link(artifact.code, library, contexts, log);
  if (!cubin.ok()) {
    logger.log(LogLevel::kWarning,
               absl::StrCat("PTX is kept as PTX: ", cubin.status().message(), log.suffix()));
    return artifact;
  }
  artifact.format = CodeFormat::kCubin;
  artifact.code = *std::move(cubin);
  const std::string assembler = assembler_name(library);
  const std::vector<std::string> messages = parse_assembler_log(log.info()).messages;
  for (const std::string& message : messages)
    logger.log(LogLevel::kWarning, absl::StrCat("linking PTX with ", assembler, ": ", message));
  describe(&artifact, assembler, messages);
  return artifact;
}

}  // namespace lathe::gpu
