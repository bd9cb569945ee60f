// A fake compiler library that behaves in one way (kFakeWay). Only fake drivers launch its artifacts.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/artifact.h"
#include "core/compiler_abi.h"
#include "core/json.h"
#include "core/key.h"
#include "fake_compiler_way.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

void pass(lathe_compiler_sink sink, void* user, int output, const char* name, const std::string& bytes) {
  sink(user, output, name, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// What the fake HIP reads: the target in HSA's notation, and the kernel (tests/runtime/drivers).
std::string hsaco_for(const lathe::Json& target) {
  std::string isa = target["arch"];
  for (const char* mode : {"sramecc", "xnack"}) {
    const size_t at = target["features"].get<std::string>().find(mode);
    if (at == std::string::npos) continue;
    isa += std::string(":") + mode + target["features"].get<std::string>()[at - 1];
  }
  return "hsaco " + isa + "\nkernel fake threads=1024 shared=0 maps=0\n";
}

// Workspace: 4 bytes for each element of each split, and 128 bytes per worker unless it is a library's. The code is
// the request, so that tests can inspect it.
std::string artifact_for(const std::string& request, int steps) {
  using namespace lathe;
  Artifact artifact;
  artifact.code = request;
  if (Json::parse(request)["target"]["backend"] == "cuda") {
    artifact.format = CodeFormat::kPtx;
    artifact.metadata = R"({"messages":["fake: 8 bytes spill stores"]})";
  }
  artifact.recipe.steps.resize(static_cast<size_t>(steps));
  const bool rocm = Json::parse(request)["target"]["backend"] == "rocm";
  if (rocm) {
    artifact.format = CodeFormat::kHsaco;
    artifact.code = hsaco_for(Json::parse(request)["target"]);
  }
  for (Step& step : artifact.recipe.steps) {
    if (rocm) step.kind = StepKind::kGpuKernel;
    step.symbol = "fake";
    step.grid = {product(1, {{Var::kM, 1}}), constant(1), constant(1)};
  }
  if (const Json external = Json::parse(request)["config"]["external"]; external["library"] != "") {
    artifact.format = CodeFormat::kNone;
    artifact.code.clear();
    for (Step& step : artifact.recipe.steps) {
      step.kind = StepKind::kHostExtern;
      step.external = {external["library"], external["routine"],
                       *problem_class_from_json(Json::parse(request)["class"])};
    }
  }
  artifact.recipe.workspace_bytes = product(4, {{Var::kM}, {Var::kN}, {Var::kSplits}, {Var::kMerge}});
  if (artifact.format != CodeFormat::kNone) artifact.recipe.scratch_bytes_per_worker = constant(128);
  return serialize(artifact);
}

// Misbehaves for certain N of the request.
#ifdef __clang__
__attribute__((no_sanitize("address", "undefined", "thread")))  // the undefined behaviour is intended
#endif
void misbehave(int64_t n, lathe_compiler_sink sink, void* user) {
  volatile char* nowhere = nullptr;
  if (n == 1001) *nowhere = 1;
  if (n == 1002) abort();
  if (n == 1003) pause();
  if (n == 1004) _exit(3);
  if (n == 1005) {
    // Like LLVM when memory runs out.
    for (;;) {
      static volatile char* block;
      block = static_cast<char*>(malloc(1 << 20));
      if (block == nullptr) abort();
      *block = 1;
    }
  }
  if (n == 1006) {
    // Half an answer, written to the socket itself.
    if (send(STDIN_FILENO, "LFRM half a frame", 17, 0) < 0) abort();
    _exit(0);
  }
  if (n == 1007) {
    if (send(STDIN_FILENO, std::string(100, 'x').data(), 100, 0) < 0) abort();
  }
  if (n == 1008) pass(sink, user, LATHE_COMPILER_DUMP, "huge", std::string(20 << 20, 'd'));
  if (n == 1009 && system("sleep 1000 &") != 0) abort();
  if (n == 1009) pause();
}

}  // namespace

EXPORTED uint32_t lathe_compiler_abi_version() {
  return kFakeWay == FakeWay::kOtherAbi ? LATHE_COMPILER_ABI_VERSION + 1 : LATHE_COMPILER_ABI_VERSION;
}

EXPORTED const char* lathe_compiler_codegen_id() {
  if (kFakeWay == FakeWay::kOtherCodegen) return "0123456789abcdef-llvm0.0.0";
  static const std::string id(lathe::codegen_id());
  return id.c_str();
}

EXPORTED int lathe_compiler_compile(const uint8_t* request, size_t size, lathe_compiler_sink sink,
                                    void* user) {
  const std::string text(reinterpret_cast<const char*>(request), size);
  if (kFakeWay == FakeWay::kFails) {
    pass(sink, user, LATHE_COMPILER_ERROR, "", "stage vectorise: no such shape");
    return 1;
  }
  if (kFakeWay == FakeWay::kGivesNothing) return 0;
  if (kFakeWay == FakeWay::kGivesGarbage) {
    pass(sink, user, LATHE_COMPILER_ARTIFACT, "", "LATHEART and nothing after it");
    return 0;
  }
  if (kFakeWay == FakeWay::kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const bool misbehaves = kFakeWay == FakeWay::kMisbehaves;
  const lathe::Json json = lathe::Json::parse(text);
  if (json.contains("inspect")) {
    // The answer is the payload's text.
    const std::string answer = json["inspect"]["text"];
    if (misbehaves) misbehave(lathe::Json::parse(answer).value("n", int64_t{0}), sink, user);
    pass(sink, user, LATHE_COMPILER_JSON, "program", answer);
    return 0;
  }
  if (json.contains("ukernel")) {
    pass(sink, user, LATHE_COMPILER_JSON, "ukernel", json["ukernel"]["description"]);
    return 0;
  }
  if (misbehaves) misbehave(json["class"]["n"], sink, user);
  if (json.value("dump", false)) {
    pass(sink, user, LATHE_COMPILER_DUMP, "00-payload.mlir", "payload");
    pass(sink, user, LATHE_COMPILER_DUMP, "llvm.ll",
         json.contains("pipeline") ? json["pipeline"]["text"].get<std::string>() : "built-in");
  }
  const int steps = json["config"].value("split", 0) != 0 ? 2 : 1;
  pass(sink, user, LATHE_COMPILER_ARTIFACT, "", artifact_for(text, steps));
  return 0;
}
