#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/files.h"
#include "cli/params.h"
#include "cli/planned.h"
#include "cli/request.h"
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

template <typename Request>
absl::Status dump(const Arguments& arguments, const absl::StatusOr<Request>& request) {
  if (!request.ok()) return request.status();
  if (absl::Status s = arguments.not_both("stage", "output"); !s.ok()) return s;
  if (absl::Status s = refuse_entries(arguments); !s.ok()) return s;
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Plan> made = plan(opened->device.get(), *request);
  return made.ok() ? print_stages(made->get(), arguments) : made.status();
}

absl::Status dump_matmul(const Arguments& arguments) {
  return dump(arguments, matmul_request_with_shape(arguments));
}
absl::Status dump_argmax(const Arguments& arguments) { return dump(arguments, argmax_request(arguments)); }
absl::Status dump_matmul_argmax(const Arguments& arguments) {
  return dump(arguments, matmul_argmax_request(arguments));
}
absl::Status dump_elementwise(const Arguments& arguments) {
  return dump(arguments, elementwise_request(arguments));
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

Verb dump_matmul_verb() {
  return {"dump matmul",
          "MxNxK",
          1,
          "compile a matmul and print the IR after each stage, LLVM IR, and assembly or PTX",
          matmul_flags(dump_flags()),
          {"lathe dump matmul 16x4096x4096 --output /tmp/ir",
           "lathe dump matmul 64x4096x4096 --dtype f16 --facts h200 --stage kernel.ptx"},
          dump_matmul};
}

Verb dump_argmax_verb() {
  return {"dump argmax",
          "ROWSxN",
          1,
          "compile an argmax and print the IR after each stage, LLVM IR, and assembly or PTX",
          argmax_flags(dump_flags()),
          {"lathe dump argmax 4x151936 --facts mi300x"},
          dump_argmax};
}

Verb dump_matmul_argmax_verb() {
  return {"dump matmul_argmax",
          "MxNxK",
          1,
          "compile a matmul_argmax and print the IR after each stage, LLVM IR, and assembly or PTX",
          matmul_argmax_flags(dump_flags()),
          {"lathe dump matmul_argmax 16x128256x4096 --dtype bf16 --facts h200 --stage kernel.ptx"},
          dump_matmul_argmax};
}

Verb dump_elementwise_verb() {
  return {"dump elementwise",
          "MxN",
          1,
          "compile an elementwise program and print the IR after each stage, LLVM IR, and assembly or PTX",
          elementwise_flags(dump_flags()),
          {"lathe dump elementwise 2048x4096 --program scaled.json --facts h200 --stage kernel.ptx"},
          dump_elementwise};
}

}  // namespace lathe::cli
