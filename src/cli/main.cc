// The `lathe` command: the list of verbs, and what becomes of a command line.
#include <lathe/lathe.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

constexpr int kDone = 0, kFailed = 1, kBadUsage = 2;

std::vector<Verb> all_verbs() {
  std::vector<Verb> verbs = {devices_verb()};
  for (const std::vector<Verb>& of_ops :
       {run_verbs(), bench_verbs(), explain_verbs(), dump_verbs(), warm_verbs(), tune_verbs()})
    verbs.insert(verbs.end(), of_ops.begin(), of_ops.end());
  for (Verb verb : {calibrate_verb(),     manifest_verb(),     compile_verb(),       plan_verb(),
                    kernel_bench_verb(),  selftest_verb(),     cache_ls_verb(),      cache_stats_verb(),
                    cache_top_verb(),     cache_verify_verb(), cache_prune_verb(),   cache_export_verb(),
                    cache_import_verb(),  cache_clear_verb(),  bundle_create_verb(), bundle_ls_verb(),
                    bundle_verify_verb(), bundle_merge_verb(), ukernel_add_verb(),   ukernel_ls_verb(),
                    ukernel_remove_verb()})
    verbs.push_back(std::move(verb));
  return verbs;
}

int run(const std::vector<std::string>& line) {
  const std::vector<Verb> verbs = all_verbs();
  if (!line.empty() && line[0] == "--version") {
    std::printf("lathe %s\n", lathe_version());
    return kDone;
  }
  if (line.empty() || line[0] == "--help" || line[0] == "-h" || line[0] == "help") {
    std::fputs(help_of(verbs).c_str(), line.empty() ? stderr : stdout);
    return line.empty() ? kBadUsage : kDone;
  }
  if (const std::string help = help_of_group(line, verbs); !help.empty()) {
    std::fputs(help.c_str(), stdout);
    return kDone;
  }
  const Verb* verb = nullptr;
  absl::StatusOr<Arguments> arguments = parse(line, verbs, &verb);
  if (arguments.ok() && arguments->has("help")) {
    std::fputs(help_of(*verb).c_str(), stdout);
    return kDone;
  }
  const absl::Status status = arguments.ok() ? verb->run(*arguments) : arguments.status();
  if (status.ok()) return kDone;
  std::fflush(stdout);
  std::fprintf(stderr, "lathe: %s\n", std::string(status.message()).c_str());
  if (status.code() != absl::StatusCode::kInvalidArgument) return kFailed;
  std::fprintf(stderr, "See 'lathe %s--help'.\n", verb ? (verb->name + " ").c_str() : "");
  return kBadUsage;
}

// Fails if standard output could not be written. Output may still be buffered, so this must be the last step.
int with_output(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fputs("lathe: cannot write to standard output\n", stderr);
  return code == kDone ? kFailed : code;
}

}  // namespace
}  // namespace lathe::cli

int main(int argc, char** argv) {
  // Idle threads of an OpenMP library would otherwise spin on the cores that the next measurement uses. The library
  // reads this variable when it is loaded.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  try {
    return lathe::cli::with_output(lathe::cli::run(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lathe: %s\n", e.what());
    return 1;
  }
}
