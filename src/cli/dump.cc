#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/files.h"
#include "cli/ops.h"
#include "cli/params.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

absl::Status write_files(const std::vector<Text>& stages, const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot create directory '", directory, "': ", error.message()));
  for (const Text& stage : stages) {
    const fs::path path = fs::path(directory) / fs::path(stage.name).filename();
    if (absl::Status s = write_file(path.string(), stage.text); !s.ok()) return s;
    absl::PrintF("%8d bytes  %s\n", stage.text.size(), path.string());
  }
  return absl::OkStatus();
}

bool is_code(const Text& stage) { return absl::StartsWith(stage.text, "\177ELF"); }

absl::Status print_stages(lathe_plan* plan, const Arguments& arguments) {
  std::vector<Text> stages;
  // The stages before a failure are printed too, because they help to find the cause.
  absl::Status status = check(lathe_plan_dump(plan, nullptr, collect_text, &stages));
  if (arguments.has("stage")) {
    std::vector<std::string> names;
    for (const Text& stage : stages) {
      names.push_back(stage.name);
      if (stage.name != arguments.text("stage", "")) continue;
      std::fwrite(stage.text.data(), 1, stage.text.size(), stdout);
      return status;
    }
    if (!status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat("there is no stage '", arguments.text("stage", ""),
                                                   "'; the stages are ", absl::StrJoin(names, ", ")));
  }
  if (arguments.has("output")) {
    if (absl::Status s = write_files(stages, arguments.text("output", "")); !s.ok()) return s;
  } else {
    for (const Text& stage : stages) {
      if (is_code(stage)) {
        absl::PrintF("==> %s\n%d bytes of machine code; --output DIR writes them to a file\n\n", stage.name,
                     stage.text.size());
        continue;
      }
      absl::PrintF("==> %s\n%s%s\n", stage.name, stage.text,
                   stage.text.empty() || stage.text.back() == '\n' ? "" : "\n");
    }
  }
  return status;
}

absl::Status dump(const Arguments& arguments, const AnyRequest& request) {
  if (absl::Status s = arguments.not_both("stage", "output"); !s.ok()) return s;
  if (absl::Status s = refuse_entries(arguments); !s.ok()) return s;
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Plan> made = plan(opened->device.get(), request);
  return made.ok() ? print_stages(made->get(), arguments) : made.status();
}

std::vector<Flag> dump_flags() {
  return {facts_flag(),
          target_flag(),
          {"output", "DIR", "write each stage to a file in this directory instead of printing it"},
          {"stage", "NAME", "print only this stage"},
          pipeline_flag(),
          params_flag(),
          device_flag()};
}

}  // namespace

std::vector<Verb> dump_verbs() {
  return verbs_of_ops("dump", "compile %s and print the IR after each stage, LLVM IR, and assembly or PTX",
                      dump_flags(), /*runs=*/false, dump);
}

}  // namespace lathe::cli
