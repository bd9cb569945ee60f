#include "compiler_process.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/compiler_abi.h"
#include "core/json.h"
#include "tests/config_field.h"

namespace lathe::testing {
namespace {

lathe_compiler_compile_fn entry() {
  static auto* function = [] {
    void* library = dlopen(LATHE_COMPILER_PATH, RTLD_NOW | RTLD_LOCAL);
    if (!library) ADD_FAILURE() << dlerror();
    return library ? reinterpret_cast<lathe_compiler_compile_fn>(dlsym(library, "lathe_compiler_compile"))
                   : nullptr;
  }();
  return function;
}

void collect(void* user, int output, const char* name, const uint8_t* data, size_t size) {
  auto* answer = static_cast<CompilerAnswer*>(user);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (output == LATHE_COMPILER_ARTIFACT) answer->artifact = bytes, ++answer->artifacts;
  if (output == LATHE_COMPILER_JSON) answer->program = bytes, ++answer->programs;
  if (output == LATHE_COMPILER_ERROR) answer->error = bytes, ++answer->errors;
  if (output == LATHE_COMPILER_DUMP) answer->dumps[name] = bytes;
}

}  // namespace

CompilerAnswer compile_bytes(const std::string& request) {
  CompilerAnswer answer;
  if (entry() == nullptr) return answer;
  answer.code = entry()(reinterpret_cast<const uint8_t*>(request.data()), request.size(), collect, &answer);
  return answer;
}

CompilerAnswer compile(const ProblemClass& c, const CompileConfig& config, const Target& target, bool dump,
                       const std::string& pipeline) {
  Json request = {
      {"class", to_json(c)}, {"config", to_json(config)}, {"target", to_json(target)}, {"dump", dump}};
  if (!pipeline.empty()) request["pipeline"] = {{"name", "p.yaml"}, {"text", pipeline}};
  return compile_bytes(request.dump());
}

const std::string& dump_of(const CompilerAnswer& answer, const std::string& ending) {
  static const std::string none;
  for (const auto& [name, text] : answer.dumps)
    if (name.size() >= ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      return text;
  ADD_FAILURE() << "no dump " << ending;
  return none;
}

std::string code_of(const CompilerAnswer& answer) {
  EXPECT_EQ(answer.code, 0) << answer.error;
  auto artifact = parse_artifact(answer.artifact);
  EXPECT_TRUE(artifact.ok()) << artifact.status();
  return artifact.ok() ? artifact->code : "";
}

ProblemClass matmul_class(int64_t m, int64_t n, int64_t k) {
  ProblemClass c;
  c.a = c.b = c.d = DType::kF32;
  c.trans_b = 1;
  c.n = n, c.k = k;
  Bucket bucket = m_bucket(m);
  c.m_lo = bucket.lo, c.m_hi = bucket.hi;
  return c;
}

CompileConfig simt_config() {
  SimtConfig config;
  config.tile_m = config.tile_n = 64, config.tile_k = 16;
  config.register_m = config.register_n = 4;
  config.threads = 256;
  return config;
}

CompileConfig cpu_config(const std::string& kernel, const Target& target) {
  const int lanes = vector_lanes(target);
  KernelKind kind = KernelKind::kNone;
  EXPECT_TRUE(parse(kernel, &kind)) << kernel;
  CompileConfig c(family_of(kind, Op::kMatmul, Backend::kCpu), kind);
  set_field(&c, "lanes", lanes);
  set_field(&c, "tile_m", 16), set_field(&c, "tile_n", 8 * lanes);
  set_field(&c, "register_m", 4), set_field(&c, "register_n", kernel == "dot" ? 2 : 2 * lanes);
  if (kernel == "dot" || kernel == "direct_packed") set_field(&c, "prefetch", 1);
  if (kernel == "panel") set_field(&c, "tile_k", 16 * lanes);
  return c;
}

}  // namespace lathe::testing
