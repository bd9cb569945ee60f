// Compiles every generic kernel into the fallback bundle, at build time.
//
// usage: lathe_build_fallback COMPILER_LIBRARY OUTPUT [FEATURES]
//
// With FEATURES, only the kernels for this machine's CPU architecture with exactly these features are compiled ("":
// the baseline). A test can then run code that a newer processor would not choose.
#include <chrono>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/bundle.h"
#include "compile_client/compiler_library.h"
#include "core/generic.h"
#include "core/json_object.h"
#include "core/key.h"
#include "kernels/candidates_generic.h"

namespace lathe {
namespace {

absl::StatusOr<std::string> build(const std::string& compiler_library, const char* features) {
  CompilerLibrary compiler(compiler_library);
  std::vector<std::pair<std::string, std::string>> artifacts;
  for (const Target& target : generic_targets()) {
    if (features != nullptr && (target.backend != Backend::kCpu || target.features != features)) continue;
    for (const ProblemClass& c : generic_classes(target)) {
      const CompileConfig config = plan_generic(c, target);
      absl::StatusOr<Artifact> artifact = compiler.compile({c, config, target});
      if (!artifact.ok())
        return absl::Status(artifact.status().code(),
                            absl::StrCat(describe(c, {}), " for ", target.arch, " ", target.features, ": ",
                                         artifact.status().message()));
      artifact->metadata = "{}";  // it has the times of this build; the bundle must be reproducible
      artifacts.emplace_back(key_of(c, config, target, codegen_id()).text, serialize(*artifact));
    }
  }
  return make_bundle(canonical_text(json_object("kind", "fallback", "codegen", std::string(codegen_id()))),
                     artifacts);
}

int run(const char* compiler_library, const char* output, const char* features) {
  const absl::StatusOr<std::string> bytes = build(compiler_library, features);
  if (!bytes.ok()) {
    std::fprintf(stderr, "lathe_build_fallback: %s\n", std::string(bytes.status().message()).c_str());
    return 1;
  }
  // Write a temporary file and rename it, so that an interrupted build leaves no partial bundle.
  const std::string temporary = absl::StrCat(output, ".tmp");
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << *bytes;
  file.close();
  if (!file || std::rename(temporary.c_str(), output) != 0) {
    std::fprintf(stderr, "lathe_build_fallback: %s cannot be written\n", output);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc == 3 || argc == 4) return lathe::run(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  std::fprintf(stderr, "usage: %s COMPILER_LIBRARY OUTPUT [FEATURES]\n", argv[0]);
  return 2;
}
