// The C interface of the compiler: every request, valid or not, gets exactly one answer.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "compiler_process.h"
#include "core/assembler_search.h"
#include "core/compiler_abi.h"
#include "core/json.h"
#include "core/key.h"
#include "core/packed.h"
#include "tests/config_field.h"

namespace lathe::testing {
namespace {

Target avx512() { return *parse_target("x86-64-avx512"); }

TEST(CompilerTest, HasTheCodegenIdAndAbiOfThisBuild) {
  void* library = dlopen(LATHE_COMPILER_PATH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto id = reinterpret_cast<lathe_compiler_codegen_id_fn>(dlsym(library, "lathe_compiler_codegen_id"));
  auto abi = reinterpret_cast<lathe_compiler_abi_version_fn>(dlsym(library, "lathe_compiler_abi_version"));
  ASSERT_NE(id, nullptr);
  ASSERT_NE(abi, nullptr);
  EXPECT_EQ(absl::string_view(id()), codegen_id());
  EXPECT_EQ(abi(), static_cast<uint32_t>(LATHE_COMPILER_ABI_VERSION));
  // The library exports no symbols of MLIR or LLVM.
  EXPECT_EQ(dlsym(library, "LLVMInitializeX86Target"), nullptr);
  EXPECT_EQ(dlsym(library, "_ZN4mlir11MLIRContextC1ENS0_9ThreadingE"), nullptr);
}

TEST(CompilerTest, AnswersARequestOnceWithAnArtifact) {
  CompilerAnswer answer = compile(matmul_class(4, 64, 96), cpu_config("dot", avx512()), avx512());
  EXPECT_EQ(answer.code, 0) << answer.error;
  EXPECT_EQ(answer.artifacts, 1);
  EXPECT_EQ(answer.errors, 0);
  EXPECT_TRUE(answer.dumps.empty());
  auto artifact = parse_artifact(answer.artifact);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format, CodeFormat::kElfObject);
  ASSERT_EQ(artifact->recipe.steps.size(), 1u);
  EXPECT_EQ(artifact->recipe.steps[0].argument_bytes, static_cast<int32_t>(sizeof(ArgumentBlock)));
  // M = 4 is one tile of 16 rows and N = 64 is one tile of 128 columns, so there is one task.
  VarValues v = {4, 64, 96, 1, 1, 0};
  for (const Formula& axis : artifact->recipe.steps[0].grid) EXPECT_EQ(evaluate(axis, v), 1);
}

TEST(CompilerTest, IsDeterministic) {
  for (const char* kernel : {"dot", "panel"}) {
    CompileConfig config = cpu_config(kernel, avx512());
    EXPECT_EQ(code_of(compile(matmul_class(20, 100, 99), config, avx512())),
              code_of(compile(matmul_class(20, 100, 99), config, avx512())));
  }
}

TEST(CompilerTest, CompilesInSeveralThreads) {
  const std::string expected =
      code_of(compile(matmul_class(3, 70, 50), cpu_config("dot", avx512()), avx512()));
  std::vector<std::thread> threads;
  std::vector<std::string> codes(4);
  for (std::string& code : codes)
    threads.emplace_back(
        [&code] { code = code_of(compile(matmul_class(3, 70, 50), cpu_config("dot", avx512()), avx512())); });
  for (std::thread& t : threads) t.join();
  for (const std::string& code : codes) EXPECT_EQ(code, expected);
}

// Without "assemble" in the request, the artifact holds PTX.
TEST(CompilerTest, AssemblesPtxOnRequest) {
  Json request = {{"class", to_json(matmul_class(33, 50, 70))},
                  {"config", to_json(simt_config())},
                  {"target", to_json(*parse_target("sm_90a"))},
                  {"dump", true}};
  CompilerAnswer plain = compile_bytes(request.dump());
  ASSERT_EQ(plain.code, 0) << plain.error;
  EXPECT_EQ(parse_artifact(plain.artifact)->format, CodeFormat::kPtx);
  EXPECT_EQ(Json::parse(parse_artifact(plain.artifact)->metadata)["assembler"],
            "none: the driver assembles the PTX");
  EXPECT_EQ(plain.dumps.count("kernel.cubin"), 0u);

  // The error names the stage and the program. The PTX is dumped even so.
  AssemblerSearch search;
  search.ptxas = "/bin/true";
  request["assemble"] = to_json(search);
  CompilerAnswer refused = compile_bytes(request.dump());
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.error.find("stage assemble: "), std::string::npos) << refused.error;
  EXPECT_NE(refused.error.find("/bin/true"), std::string::npos) << refused.error;
  EXPECT_EQ(refused.dumps["kernel.ptx"], plain.dumps["kernel.ptx"]);

  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("compiler_test" + std::to_string(getpid())) / "works";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(LATHE_FAKE_PTXAS, folder / "ptxas");
  search.ptxas = folder / "ptxas";
  search.directories = {"/usr/bin", "/bin"};
  request["assemble"] = to_json(search);
  CompilerAnswer answer = compile_bytes(request.dump());
  std::filesystem::remove_all(folder.parent_path());
  ASSERT_EQ(answer.code, 0) << answer.error;
  const auto artifact = parse_artifact(answer.artifact);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format, CodeFormat::kCubin);
  EXPECT_NE(artifact->code.find("for sm_90a"), std::string::npos);
  EXPECT_EQ(answer.dumps["kernel.cubin"], artifact->code);
  const Json metadata = Json::parse(artifact->metadata);
  EXPECT_EQ(metadata["assembler"], "ptxas 9.8.7");
  EXPECT_EQ(metadata["kernels"]["k"]["registers"], 40);
  EXPECT_EQ(metadata["stages"].back()[0], "assemble");
  EXPECT_EQ(Json::parse(answer.dumps["metadata.json"]), metadata);
}

TEST(CompilerTest, AnswersEveryInvalidRequestWithOneError) {
  Json good = {{"class", to_json(matmul_class(4, 64, 96))},
               {"config", to_json(cpu_config("dot", avx512()))},
               {"target", to_json(avx512())}};
  Json no_search = good;
  no_search["assemble"] = true;
  std::vector<std::string> bad = {
      no_search.dump(), "", "{", "null", "[]", "{}", std::string(3, '\0'), good.dump().substr(0, 100)};
  for (const char* part : {"class", "config", "target"}) {
    Json missing = good;
    missing.erase(part);
    bad.push_back(missing.dump());
    Json wrong = good;
    wrong[part] = 7;
    bad.push_back(wrong.dump());
  }
  for (const std::string& request : bad) {
    CompilerAnswer answer = compile_bytes(request);
    EXPECT_NE(answer.code, 0) << request;
    EXPECT_EQ(answer.errors, 1) << request;
    EXPECT_EQ(answer.artifacts, 0) << request;
    EXPECT_FALSE(answer.error.empty()) << request;
  }
}

TEST(CompilerTest, NamesTheInvalidFieldOfAConfig) {
  CompileConfig c = cpu_config("panel", avx512());
  set_field(&c, "tile_k", 100);
  EXPECT_NE(compile(matmul_class(40, 64, 96), c, avx512()).error.find("tile_k"), std::string::npos);
  c = cpu_config("panel", avx512());
  set_field(&c, "register_n", 17);
  EXPECT_NE(compile(matmul_class(40, 64, 96), c, avx512()).error.find("register_n"), std::string::npos);
  Json unknown = {{"class", to_json(matmul_class(40, 64, 96))},
                  {"config", to_json(cpu_config("panel", avx512()))},
                  {"target", to_json(avx512())}};
  unknown["config"]["kernel"] = "no_such_kernel";
  EXPECT_NE(compile_bytes(unknown.dump()).error.find("no_such_kernel"), std::string::npos)
      << compile_bytes(unknown.dump()).error;
  c = cpu_config("panel", avx512());
  EXPECT_NE(compile(matmul_class(40, 64, 96), simt_config(), avx512()).error.find("'simt'"),
            std::string::npos);
  unknown = {{"class", to_json(matmul_class(40, 64, 96))},
             {"config", to_json(cpu_config("panel", avx512()))},
             {"target", to_json(avx512())}};
  unknown["config"]["narrow_passes"] = 1;
  EXPECT_NE(compile_bytes(unknown.dump()).error.find("fields"), std::string::npos)
      << compile_bytes(unknown.dump()).error;
  c = cpu_config("dot", avx512());
  ProblemClass nn = matmul_class(4, 64, 96);
  nn.trans_b = 0;
  EXPECT_NE(compile(nn, c, avx512()).error.find("K-contiguous"), std::string::npos);
  set_field(&c, "tile_n", -5);
  EXPECT_NE(compile(matmul_class(4, 64, 96), c, avx512()).error.find("tile_n"), std::string::npos);
}

// Emitters follow these fields, and refuse values with which a kernel would be wrong.
TEST(CompilerTest, RefusesPassesAndGroupsThatTheTileDoesNotAllow) {
  ProblemClass problem = matmul_class(40, 64, 96);
  const int64_t lanes = vector_lanes(avx512());
  CompileConfig c = cpu_config("panel_t", avx512());
  set_field(&c, "tile_m", 4 * lanes), set_field(&c, "register_m", 4 * lanes);
  set_field(&c, "tile_n", 16), set_field(&c, "register_n", 4), set_field(&c, "tile_k", 16 * lanes);
  const auto error = [&] { return compile(problem, c, avx512()).error; };
  problem.m_lo = 33, problem.m_hi = 64;  // the tile has all rows, 3 vectors at least
  set_field(&c, "narrow_passes", 3);
  EXPECT_EQ(error(), "");
  set_field(&c, "narrow_passes", 4);
  EXPECT_NE(error().find("narrow_passes 4: the last pass may have fewer vectors"), std::string::npos)
      << error();
  set_field(&c, "tile_m", 8 * lanes),
      set_field(&c, "narrow_passes", 2);  // two passes, so the last one may have a single vector
  EXPECT_NE(error().find("narrow_passes 2: the last pass may have fewer vectors"), std::string::npos)
      << error();

  problem = matmul_class(4, 64, 96);
  c = cpu_config("dot", avx512());
  set_field(&c, "tile_k", 32);
  for (const int32_t group : {0, 3}) {
    set_field(&c, "group_n", group);
    EXPECT_NE(error().find("must be a multiple of register_n 2 if tile_k is set"), std::string::npos)
        << error();
  }
  set_field(&c, "group_n", 4);
  EXPECT_EQ(error(), "");
  set_field(&c, "tile_k", 0);
  EXPECT_NE(error().find("and 0 otherwise"), std::string::npos) << error();
}

TEST(CompilerTest, RefusesAWgmmaConfigThatTheKernelCannotFollow) {
  ProblemClass problem = matmul_class(100, 512, 256);
  problem.a = problem.b = problem.d = DType::kBF16;
  problem.alignment = Alignment::k16;
  WgmmaConfig c;
  c.tile_m = 64, c.tile_n = 128, c.tile_k = 64, c.register_m = 64, c.register_n = 128;
  c.threads = 256, c.stages = 4, c.plain_store = 1;
  const auto error = [&] { return compile(problem, c, *parse_target("sm_90a")).error; };
  EXPECT_EQ(error(), "");
  problem.activation = Activation::kRelu;
  EXPECT_EQ(error(), "");
  for (const Activation activation : {Activation::kGelu, Activation::kSilu}) {
    problem.activation = activation;
    EXPECT_NE(error().find("'wgmma': plain_store needs"), std::string::npos) << error();
  }
  problem.activation = Activation::kNone, problem.residual = DType::kBF16;
  EXPECT_NE(error().find("'wgmma': plain_store needs"), std::string::npos) << error();
  problem.residual = DType::kNone, problem.d = DType::kF32;
  EXPECT_NE(error().find("'wgmma': plain_store needs"), std::string::npos) << error();
  c.plain_store = 0;
  EXPECT_EQ(error(), "");
  c.register_m = 128, c.register_n = 64;
  EXPECT_NE(error().find("a warpgroup computes 64 x 128 of D, not 128 x 64"), std::string::npos) << error();
}

// "direct_packed" takes only f32 and only whole panels.
TEST(CompilerTest, NamesTheConflictOfAConfigWithPackedWeights) {
  ProblemClass packed = matmul_class(300, 64, 96);
  packed.packed_b = kColumns16;
  const auto error = [](const ProblemClass& problem, const char* kernel, int32_t columns,
                        const char* target) {
    CompileConfig c = cpu_config(kernel, *parse_target(target));
    set_field(&c, "tile_k", 256), set_field(&c, "register_n", columns);
    return compile(problem, c, *parse_target(target)).error;
  };
  EXPECT_EQ(error(packed, "direct_packed", 32, "x86-64-avx512"), "");
  const std::string parts = error(packed, "direct_packed", 24, "x86-64-avx2");
  EXPECT_NE(parts.find("register_n is not a multiple of 16"), std::string::npos) << parts;
  ProblemClass bytes = packed;
  bytes.a = bytes.b = DType::kI8;
  const std::string of_bytes = error(bytes, "direct_packed", 32, "x86-64-avx512");
  EXPECT_NE(of_bytes.find("'direct_packed': multiplies only f32"), std::string::npos) << of_bytes;
}

}  // namespace
}  // namespace lathe::testing
