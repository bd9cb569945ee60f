#include "compiler/assemble_ptx.h"

#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "compiler/nvjitlink.h"
#include "compiler/run_executable.h"
#include "compiler/temporary_directory.h"

namespace lathe {
namespace {

// Any program can be named ptxas, so check what it wrote.
bool is_cubin(absl::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == EM_CUDA;
}

// Whether the assembler is absent or too old for the target or the PTX version, so that another could work.
bool another_may_do(const absl::Status& status) {
  const absl::string_view words = status.message();
  return absl::IsNotFound(status) || absl::IsUnimplemented(status) ||
         absl::StrContains(words, "Unsupported .version") ||
         absl::StrContains(words, "Unsupported .target") ||
         absl::StrContains(words, "is not defined for option 'gpu-name'");
}
absl::Status failed(absl::string_view why) {
  return absl::AbortedError(absl::StrCat("stage assemble: ", why));
}

// All ptxas programs, in the order in which to try them.
std::vector<std::string> find_ptxas(const AssemblerSearch& search) {
  if (!search.ptxas.empty()) return {search.ptxas};
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (const std::string& directory : search.directories) {
    // Skip relative paths, which depend on the current directory.
    if (!absl::StartsWith(directory, "/") || !seen.insert(directory).second) continue;
    std::string path = absl::StrCat(directory, "/ptxas");
    if (access(path.c_str(), X_OK) == 0) found.push_back(std::move(path));
  }
  return found;
}

ExecutableRun ptxas_run(const AssemblerSearch& search, const std::string& directory,
                        std::vector<std::string> arguments) {
  ExecutableRun run;
  run.arguments = std::move(arguments);
  run.environment = {absl::StrCat("PATH=", absl::StrJoin(search.directories, ":")),
                     absl::StrCat("TMPDIR=", directory)};
  run.timeout_seconds = search.timeout_seconds;
  return run;
}

// Extracts "13.0.88" from "Cuda compilation tools, release 13.0, V13.0.88". "of unknown version" if there is no
// version.
std::string version_in(absl::string_view words) {
  const size_t at = words.find(", V");
  if (at == absl::string_view::npos) return "of unknown version";
  absl::string_view version = words.substr(at + 3);
  return std::string(version.substr(0, version.find_first_not_of("0123456789.")));
}

absl::StatusOr<AssembledPtx> run_ptxas(const std::string& ptxas, const std::string& ptx,
                                       absl::string_view arch, const AssemblerSearch& search) {
  const TemporaryDirectory directory(search.temporary);
  LATHE_RETURN_IF_ERROR(directory.status());
  const std::string in = directory.file("kernel.ptx"), out = directory.file("kernel.cubin");
  LATHE_RETURN_IF_ERROR(write_file(in, ptx));
  LATHE_ASSIGN_OR_RETURN(const ExecutableResult version,
                         run_executable(ptxas_run(search, directory.path(), {ptxas, "--version"})));
  LATHE_ASSIGN_OR_RETURN(
      const ExecutableResult result,
      run_executable(
          ptxas_run(search, directory.path(), {ptxas, "-v", absl::StrCat("-arch=", arch), in, "-o", out})));
  const std::string name = absl::StrCat("ptxas ", version_in(version.output));
  const std::string words = absl::StrReplaceAll(result.output, {{absl::StrCat(directory.path(), "/"), ""}});
  const auto refused = [&](absl::string_view why) {
    return absl::AbortedError(
        absl::StrCat(name, " (", ptxas, ") ", why, ": ", absl::StripAsciiWhitespace(words).substr(0, 4000)));
  };
  if (result.status > 0 && WIFSIGNALED(result.status))
    return refused(absl::StrCat("was killed by signal ", WTERMSIG(result.status)));
  if (result.status > 0) return refused(absl::StrCat("failed with exit code ", WEXITSTATUS(result.status)));
  absl::StatusOr<std::string> cubin = read_file(out);
  if (!cubin.ok()) return refused("wrote no cubin");
  if (!is_cubin(*cubin)) return refused("wrote a file that is not a cubin");
  return AssembledPtx{name, *std::move(cubin), parse_assembler_log(words)};
}

}  // namespace

absl::StatusOr<AssembledPtx> assemble_ptx(const std::string& ptx, absl::string_view arch,
                                          const AssemblerSearch& search) {
  std::vector<std::string> passed_over;
  const auto finished = [&](AssembledPtx assembled) {
    assembled.log.messages.insert(assembled.log.messages.begin(), passed_over.begin(), passed_over.end());
    return assembled;
  };
  for (const std::string& ptxas : find_ptxas(search)) {
    absl::StatusOr<AssembledPtx> assembled = run_ptxas(ptxas, ptx, arch, search);
    if (assembled.ok()) return finished(*std::move(assembled));
    if (!search.ptxas.empty() || !another_may_do(assembled.status()))
      return failed(assembled.status().message());
    passed_over.emplace_back(assembled.status().message());
  }
  if (is_worse_linked(ptx)) return finished({kAssembledByLoader, "", {}});
  absl::StatusOr<JitLinked> linked = nvjitlink_ptx(ptx, arch, search.nvjitlink_directories);
  if (linked.ok())
    return finished({absl::StrCat("nvJitLink ", linked->version), std::move(linked->cubin),
                     parse_assembler_log(linked->log)});
  if (!another_may_do(linked.status())) return failed(linked.status().message());
  if (!absl::IsNotFound(linked.status())) passed_over.emplace_back(linked.status().message());
  return finished({kNoAssembler, "", {}});
}

Json to_json(const AssembledPtx& a) {
  Json kernels = Json::object();
  for (const auto& [symbol, k] : a.log.kernels)
    kernels[symbol] = {{"registers", k.registers},
                       {"shared_bytes", k.shared_bytes},
                       {"stack_bytes", k.stack_bytes},
                       {"spill_bytes", k.spill_bytes}};
  return {{"assembler", a.assembler}, {"messages", a.log.messages}, {"kernels", std::move(kernels)}};
}

}  // namespace lathe
