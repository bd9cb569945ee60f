#include "compile_client/compiler_library.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/assembler_search.h"
#include "core/facts.h"
#include "core/key.h"
#include "fake_device.h"

namespace lathe {
namespace {

struct Something {
  ProblemClass problem;
  CompileConfig config;
  Target target;
  CompileRequest request() const { return {problem, config, target, nullptr}; }
};

bool says(const absl::Status& status, const std::string& part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

TEST(CompilerLibrary, LoadsAtFirstUse) {
  CompilerLibrary library(fake_compiler());
  EXPECT_EQ(library.load_milliseconds(), 0.0);
  ASSERT_TRUE(library.load().ok()) << library.load();
  EXPECT_TRUE(library.mapped());
  EXPECT_GT(library.load_milliseconds(), 0.0);
}

TEST(CompilerLibrary, MissingLibraryIsNotAvailable) {
  CompilerLibrary library("/nowhere/liblathe-compiler.so");
  const absl::Status status = library.compile(Something().request()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(says(status, "/nowhere/liblathe-compiler.so")) << status;
  EXPECT_TRUE(says(status, "No such file")) << status;
  EXPECT_FALSE(library.mapped());
}

TEST(CompilerLibrary, FindsALibraryThatAppearsLater) {
  const std::string path = ::testing::TempDir() + "appears_later_" + std::to_string(getpid()) + ".so";
  CompilerLibrary library(path);
  EXPECT_EQ(library.load().code(), absl::StatusCode::kUnavailable);
  std::ofstream(path, std::ios::binary) << std::ifstream(fake_compiler(), std::ios::binary).rdbuf();
  EXPECT_TRUE(library.load().ok()) << library.load();
  std::remove(path.c_str());
}

TEST(CompilerLibrary, RefusesOtherLibraries) {
  const std::pair<const char*, const char*> strangers[] = {
      {"other_abi", "ABI version"},
      {"other_codegen", "codegen id 0123456789abcdef-llvm0.0.0"},
      {"lacks_symbols", "not a Lathe compiler"}};
  for (const auto& [way, cause] : strangers) {
    CompilerLibrary library(fake_compiler(way));
    const absl::Status status = library.load();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << way;
    EXPECT_TRUE(says(status, cause)) << status;
    EXPECT_TRUE(says(status, fake_compiler(way))) << status;
  }
  EXPECT_TRUE(says(CompilerLibrary(fake_compiler("other_codegen")).load(), std::string(codegen_id())));
}

TEST(CompilerLibrary, PassesRequestAndArtifact) {
  Something s;
  s.problem.n = 4711;
  s.config = PanelConfig();
  s.target.arch = "x86-64";
  CompilerLibrary library(fake_compiler());
  const absl::StatusOr<Artifact> artifact = library.compile(s.request());
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  // The fake compiler returns the request as the code.
  const Json request = Json::parse(artifact->code);
  EXPECT_EQ(request["class"], to_json(s.problem));
  EXPECT_EQ(request["config"], to_json(s.config));
  EXPECT_EQ(request["target"], to_json(s.target));
  EXPECT_FALSE(request.contains("dump"));
  EXPECT_FALSE(request.contains("assemble"));
}

TEST(CompilerLibrary, PassesTheAssemblerSearch) {
  Something s;
  AssemblerSearch search;
  search.directories = {"/a", "/b"};
  CompileRequest request = s.request();
  request.assembler = &search;
  const absl::StatusOr<Artifact> artifact = CompilerLibrary(fake_compiler()).compile(request);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(Json::parse(artifact->code)["assemble"], to_json(search));
}

// Paths and pipelines may be in Latin-1, which is not valid UTF-8. The request is still accepted.
TEST(CompilerLibrary, AcceptsTextThatIsNotUtf8) {
  Something s;
  AssemblerSearch search;
  search.directories = {"/caf\xe9/bin", "/b"};
  CompileRequest request = s.request();
  request.assembler = &search;
  CompilerLibrary library(fake_compiler());
  const absl::StatusOr<Artifact> artifact = library.compile(request);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  search.directories[0] = "/caf\xef\xbf\xbd/bin";
  EXPECT_EQ(Json::parse(artifact->code)["assemble"], to_json(search));
  std::string last;
  const auto collect = [&](absl::string_view, absl::string_view text) { last = std::string(text); };
  const absl::Status dumped = library.dump(s.request(), "# caf\xe9\n", collect);
  ASSERT_TRUE(dumped.ok()) << dumped;
  EXPECT_EQ(last, "# caf\xef\xbf\xbd\n");
}

TEST(CompilerLibrary, ReportsTheCompilersMessage) {
  const absl::Status failed = CompilerLibrary(fake_compiler("fails")).compile(Something().request()).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(says(failed, "stage vectorise: no such shape")) << failed;
  const absl::Status garbage =
      CompilerLibrary(fake_compiler("gives_garbage")).compile(Something().request()).status();
  EXPECT_EQ(garbage.code(), absl::StatusCode::kInternal) << garbage;
  const absl::Status nothing =
      CompilerLibrary(fake_compiler("gives_nothing")).compile(Something().request()).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kInternal) << nothing;
  EXPECT_TRUE(says(nothing, "0 artifacts")) << nothing;
}

TEST(CompilerLibrary, DumpsEachStage) {
  CompilerLibrary library(fake_compiler());
  std::vector<std::pair<std::string, std::string>> stages;
  const auto collect = [&, caller = std::this_thread::get_id()](absl::string_view name,
                                                                absl::string_view text) {
    EXPECT_EQ(std::this_thread::get_id(), caller) << "lathe_text_fn is called on the calling thread";
    stages.emplace_back(std::string(name), std::string(text));
  };
  ASSERT_TRUE(library.dump(Something().request(), "stages: []", collect).ok());
  ASSERT_TRUE(library.dump(Something().request(), "", collect).ok());
  const std::vector<std::pair<std::string, std::string>> want = {{"00-payload.mlir", "payload"},
                                                                 {"llvm.ll", "stages: []"},
                                                                 {"00-payload.mlir", "payload"},
                                                                 {"llvm.ll", "built-in"}};
  EXPECT_EQ(stages, want);
}

TEST(CompilerLibrary, ExceptionOfTheSinkDoesNotCrossTheCompiler) {
  CompilerLibrary library(fake_compiler());
  EXPECT_THROW(
      (void)library.dump(Something().request(), "",
                         [](absl::string_view, absl::string_view) { throw std::runtime_error("sink"); }),
      std::runtime_error);
}

TEST(CompilerLibrary, ManyThreadsLoadTheLibraryOnce) {
  CompilerLibrary library(fake_compiler());
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { good += library.compile(Something().request()).ok(); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good.load(), 4);
}

}  // namespace
}  // namespace lathe
