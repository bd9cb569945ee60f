#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "'"));
  return text.str();
}

absl::Status write_files(const std::vector<Text>& stages, const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make '", directory, "': ", error.message()));
  for (const Text& stage : stages) {
    const fs::path path = fs::path(directory) / fs::path(stage.name).filename();
    std::ofstream out(path, std::ios::binary);
    out << stage.text;
    out.close();
    if (!out) return absl::UnavailableError(absl::StrCat("cannot write '", path.string(), "'"));
    absl::PrintF("%8d bytes  %s\n", stage.text.size(), path.string());
  }
  return absl::OkStatus();
}

bool is_code(const Text& stage) { return absl::StartsWith(stage.text, "\177ELF"); }

absl::Status dump(lathe_plan* plan, const Arguments& arguments) {
  absl::StatusOr<std::string> pipeline = std::string();
  if (arguments.has("pipeline")) pipeline = read_file(arguments.text("pipeline", ""));
  if (!pipeline.ok()) return pipeline.status();
  std::vector<Text> stages;
  const char* yaml = arguments.has("pipeline") ? pipeline->c_str() : nullptr;
  // Stages that came before a failure are shown all the same: they are what the user is looking for.
  absl::Status status = check(lathe_plan_dump(plan, yaml, collect_text, &stages));
  if (arguments.has("stage")) {
    std::vector<std::string> names;
    for (const Text& stage : stages) {
      names.push_back(stage.name);
      if (stage.name != arguments.text("stage", "")) continue;
      std::fwrite(stage.text.data(), 1, stage.text.size(), stdout);
      return absl::OkStatus();
    }
    if (!status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat("no stage '", arguments.text("stage", ""), "'; there are ", absl::StrJoin(names, ", ")));
  }
  if (arguments.has("output")) {
    if (absl::Status s = write_files(stages, arguments.text("output", "")); !s.ok()) return s;
  } else {
    for (const Text& stage : stages) {
      if (is_code(stage)) {
        absl::PrintF("==> %s\n%d bytes of machine code; --output DIR writes them\n\n", stage.name,
                     stage.text.size());
        continue;
      }
      absl::PrintF("==> %s\n%s%s\n", stage.name, stage.text,
                   stage.text.empty() || stage.text.back() == '\n' ? "" : "\n");
    }
  }
  return status;
}

template <typename Desc, typename PlanFn>
absl::Status plan_and_dump(const Arguments& arguments, const Desc& desc, PlanFn make_plan) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  lathe_plan* made = nullptr;
  if (absl::Status s = check(make_plan(device->get(), &desc, &made)); !s.ok()) return s;
  const Plan plan(made);
  return dump(plan.get(), arguments);
}

absl::Status dump_matmul(const Arguments& arguments) {
  absl::StatusOr<MatmulRequest> request = matmul_request_with_shape(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  const auto plan = [&](lathe_device* device, const lathe_matmul_desc* plain, lathe_plan** made) {
    return plan_matmul(device, *request, *plain, made);
  };
  return plan_and_dump(arguments, descriptor(*request, &tuning), plan);
}

absl::Status dump_argmax(const Arguments& arguments) {
  absl::StatusOr<ArgmaxRequest> request = argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return plan_and_dump(arguments, descriptor(*request, &tuning), lathe_plan_argmax);
}

absl::Status dump_matmul_argmax(const Arguments& arguments) {
  absl::StatusOr<MatmulArgmaxRequest> request = matmul_argmax_request(arguments);
  if (!request.ok()) return request.status();
  lathe_tuning tuning;
  return plan_and_dump(arguments, descriptor(*request, &tuning), lathe_plan_matmul_argmax);
}

std::vector<Flag> dump_flags() {
  return {facts_flag(),
          target_flag(),
          {"output", "DIR", "write a file a stage instead of printing them"},
          {"stage", "NAME", "print that stage alone"},
          {"pipeline", "FILE", "a YAML pipeline in place of the built-in one"},
          device_flag()};
}

}  // namespace

Verb dump_matmul_verb() {
  return {"dump matmul",
          "MxNxK",
          1,
          "the IR after each stage, LLVM IR, assembly or PTX; nothing is cached",
          matmul_flags(dump_flags()),
          {"lathe dump matmul 16x4096x4096 --output /tmp/ir",
           "lathe dump matmul 64x4096x4096 --dtype f16 --facts h200 --stage kernel.ptx"},
          dump_matmul};
}

Verb dump_argmax_verb() {
  return {"dump argmax",
          "ROWSxN",
          1,
          "the same for argmax",
          argmax_flags(dump_flags()),
          {"lathe dump argmax 4x151936 --facts mi300x"},
          dump_argmax};
}

Verb dump_matmul_argmax_verb() {
  return {"dump matmul_argmax",
          "MxNxK",
          1,
          "the same for matmul_argmax",
          matmul_argmax_flags(dump_flags()),
          {"lathe dump matmul_argmax 16x128256x4096 --dtype bf16 --facts h200 --stage kernel.ptx"},
          dump_matmul_argmax};
}

}  // namespace lathe::cli
