// Tests with fake assemblers that misbehave in many ways, and with the real ones if they are installed.
#include "compiler/assemble_ptx.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

// NVIDIA's library leaks memory.
extern "C" const char* __lsan_default_suppressions() { return "leak:libnvJitLink"; }

namespace lathe {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kPtx[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) .maxntid 128 {
  .reg .b64 %a; .reg .b32 %v;
  .shared .align 4 .b8 held[512];
  ld.param.u64 %a, [p];
  cvta.to.global.u64 %a, %a;
  ld.global.u32 %v, [%a];
  st.shared.u32 [held], %v;
  bar.sync 0;
  ld.shared.u32 %v, [held + 4];
  SETMAXNREG
  st.global.u32 [%a], %v;
  ret;
})";
std::string ptx(const std::string& setmaxnreg = "") {
  std::string text = kPtx;
  text.replace(text.find("SETMAXNREG"), 10, setmaxnreg);
  return text;
}

// Makes folders with a fake ptxas, which behaves as the name of its folder says (fake_ptxas).
class AssemblePtx : public ::testing::Test {
 protected:
  AssemblePtx() : root_(fs::path(::testing::TempDir()) / ("assemblers" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~AssemblePtx() override { fs::remove_all(root_); }

  std::string folder(const std::string& way) const {
    fs::create_directories(root_ / way);
    if (!fs::exists(root_ / way / "ptxas")) fs::create_symlink(LATHE_FAKE_PTXAS, root_ / way / "ptxas");
    return root_ / way;
  }
  // Searches only these folders, so that the result does not depend on what is installed on this machine.
  AssemblerSearch search(const std::vector<std::string>& ways) const {
    AssemblerSearch s;
    for (const std::string& way : ways) s.directories.push_back(folder(way));
    // The script needs the tools in these folders. They come last, because they may contain the real ptxas.
    s.directories.push_back("/usr/bin");
    s.directories.push_back("/bin");
    s.timeout_seconds = 20;
    return s;
  }
  AssemblerSearch named(const std::string& way) const {
    AssemblerSearch s = search({});
    s.ptxas = folder(way) + "/ptxas";
    return s;
  }
  static std::string refusal(const AssemblerSearch& s) {
    const auto assembled = assemble_ptx(ptx(), "sm_90a", s);
    EXPECT_FALSE(assembled.ok());
    EXPECT_EQ(assembled.status().code(), absl::StatusCode::kAborted) << assembled.status();
    return std::string(assembled.status().message());
  }

  fs::path root_;
};

TEST_F(AssemblePtx, ReturnsTheCubinAndItsResources) {
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"works"}));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_EQ(assembled->assembler, "ptxas 9.8.7");
  EXPECT_THAT(assembled->cubin, HasSubstr("for sm_90a of " + std::to_string(ptx().size()) + " bytes"));
  EXPECT_THAT(assembled->log.messages, IsEmpty());
  ASSERT_EQ(assembled->log.kernels.size(), 1u);
  const KernelResources& k = assembled->log.kernels.at("k");
  EXPECT_EQ(k.registers, 40);
  EXPECT_EQ(k.shared_bytes, 512);
  EXPECT_EQ(k.spill_bytes, 0);
  EXPECT_EQ(to_json(*assembled)["kernels"]["k"],
            Json({{"registers", 40}, {"shared_bytes", 512}, {"stack_bytes", 0}, {"spill_bytes", 0}}));
}

TEST_F(AssemblePtx, UsesTheFirstWritableTemporaryDirectory) {
  AssemblerSearch s = search({"works"});
  s.temporary.insert(s.temporary.begin(), "/nonexistent");
  EXPECT_TRUE(assemble_ptx(ptx(), "sm_90a", s).ok());
  s.temporary = {"/nonexistent", "/proc"};
  const auto without = assemble_ptx(ptx(), "sm_90a", s);
  ASSERT_TRUE(without.ok()) << "nvJitLink or the driver may assemble it: " << without.status();
  EXPECT_NE(without->assembler, "ptxas 9.8.7");
  EXPECT_THAT(without->log.messages,
              Contains(StartsWith("cannot create a temporary directory (/nonexistent: ")));
}

TEST_F(AssemblePtx, KeepsWarningsAboutAKernel) {
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"spills"}));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_THAT(assembled->log.messages,
              ElementsAre(HasSubstr("(C7508)"), "k: 24 bytes spill stores, 36 bytes spill loads",
                          HasSubstr("Something else is odd")));
  EXPECT_EQ(assembled->log.kernels.at("k").spill_bytes, 60);
  EXPECT_EQ(assembled->log.kernels.at("k").stack_bytes, 64);
  EXPECT_EQ(assembled->log.kernels.at("k").registers, 255);
}

TEST_F(AssemblePtx, NamesTheStageAndQuotesTheAssembler) {
  const std::string refused = refusal(search({"refuses", "works"}));
  EXPECT_THAT(refused, StartsWith("stage assemble: ptxas 9.8.7"));
  EXPECT_THAT(refused, HasSubstr("failed with exit code 255"));
  EXPECT_THAT(refused, HasSubstr("ptxas kernel.ptx, line 7; error   : Not a name of any known instruction"));
  EXPECT_THAT(refused, HasSubstr(folder("refuses")));
  EXPECT_THAT(refusal(search({"crashes"})), HasSubstr("signal 11"));
  EXPECT_THAT(refusal(search({"writes_nothing"})), HasSubstr("wrote no cubin"));
  EXPECT_THAT(refusal(search({"writes_garbage"})), HasSubstr("wrote a file that is not a cubin"));
  EXPECT_THAT(refusal(search({"writes_too_little"})), HasSubstr("wrote a file that is not a cubin"));
}

TEST_F(AssemblePtx, KillsAnAssemblerAfterTheTimeout) {
  for (const char* way : {"hangs", "floods"}) {
    AssemblerSearch s = search({way});
    s.timeout_seconds = 0.3;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(refusal(s), HasSubstr("did not end within 0.3 s")) << way;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << way;
  }
}

// A child process that the assembler leaves behind holds the output open.
TEST_F(AssemblePtx, DoesNotWaitForAChildOfTheAssembler) {
  const auto start = std::chrono::steady_clock::now();
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"leaves_a_child"}));
  EXPECT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(AssemblePtx, SkipsAssemblersThatAreTooOld) {
  const auto assembled =
      assemble_ptx(ptx(), "sm_90a", search({"too_old", "knows_no_target", "works", "refuses"}));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_EQ(assembled->assembler, "ptxas 9.8.7");
  EXPECT_THAT(assembled->log.messages,
              ElementsAre(HasSubstr("current version is '7.4'"), HasSubstr("'sm_90a' is not defined")));
  EXPECT_THAT(refusal(named("too_old")), HasSubstr("current version is '7.4'"))
      << "an assembler that the user named is not skipped";
}

TEST_F(AssemblePtx, SkipsFilesThatAreNotPrograms) {
  const fs::path broken = folder("broken");
  fs::remove(broken / "ptxas");
  std::ofstream(broken / "ptxas") << "\177ELF but no more";
  fs::permissions(broken / "ptxas", fs::perms::owner_all);
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"broken", "works"}));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_THAT(assembled->log.messages, ElementsAre(HasSubstr("cannot be started")));
  EXPECT_THAT(refusal(named("broken")), HasSubstr("cannot be started"));
  AssemblerSearch missing;
  missing.ptxas = "/nowhere/ptxas";
  EXPECT_THAT(refusal(missing), HasSubstr("/nowhere/ptxas cannot be started: No such file"));
}

TEST_F(AssemblePtx, DoesNotSearchRelativeFolders) {
  AssemblerSearch s = search({});
  const fs::path here = fs::current_path();
  fs::current_path(folder("crashes"));
  s.directories.insert(s.directories.begin(), ".");
  s.directories.insert(s.directories.begin() + 1, folder("works"));
  const auto assembled = assemble_ptx(ptx(), "sm_90a", s);
  fs::current_path(here);
  EXPECT_TRUE(assembled.ok()) << assembled.status();
}

TEST_F(AssemblePtx, SurvivesALogOfUnknownForm) {
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"says_garbage"}));
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  EXPECT_FALSE(canonical_text(to_json(*assembled)).empty());
}

TEST_F(AssemblePtx, HidesEnvironmentAndFilesFromTheAssembler) {
  setenv("LATHE_TEST_SECRET", "1", 1);
  const int open_file = open("/dev/null", O_RDONLY);
  ASSERT_GT(open_file, 2);
  const auto assembled = assemble_ptx(ptx(), "sm_90a", search({"shows_itself"}));
  close(open_file);
  unsetenv("LATHE_TEST_SECRET");
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  const std::vector<std::string>& said = assembled->log.messages;
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[0], "warning: environment PATH TMPDIR");
  EXPECT_EQ(said[1], "warning: files 0 1 2 3");  // 3 is the folder that `ls` lists
  EXPECT_EQ(said[2], "warning: stdin 0");
  ASSERT_THAT(said[3], StartsWith("warning: folder /tmp/lathe-"));
  EXPECT_FALSE(fs::exists(said[3].substr(sizeof "warning: folder " - 1))) << "left behind";
}

// If the host process ignores SIGCHLD, the exit status of a child is lost.
TEST_F(AssemblePtx, WorksIfTheHostIgnoresSigchld) {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &before), 0);
  const auto good = assemble_ptx(ptx(), "sm_90a", search({"works"}));
  const std::string refused = refusal(search({"refuses"}));
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(refused, HasSubstr("Not a name of any known instruction"));
}

TEST_F(AssemblePtx, RunsInSeveralThreads) {
  const AssemblerSearch s = search({"works"});
  std::vector<std::thread> threads;
  std::vector<std::string> cubins(4);
  for (size_t i = 0; i < cubins.size(); ++i)
    threads.emplace_back([&, i] {
      const auto assembled = assemble_ptx(ptx(), "sm_" + std::to_string(i), s);
      if (assembled.ok()) cubins[i] = assembled->cubin;
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < cubins.size(); ++i) EXPECT_THAT(cubins[i], HasSubstr("for sm_" + std::to_string(i)));
}

AssemblerSearch machine() {
  AssemblerSearch s;
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) s.directories.push_back(folder);
  s.directories.push_back("/usr/local/cuda/bin");
  s.nvjitlink_directories = {"/usr/local/cuda/lib64"};
  return s;
}

void expect_cubin(const AssembledPtx& a) {
  ASSERT_GT(a.cubin.size(), sizeof(Elf64_Ehdr));
  EXPECT_EQ(reinterpret_cast<const Elf64_Ehdr*>(a.cubin.data())->e_machine, EM_CUDA);
  ASSERT_EQ(a.log.kernels.count("k"), 1u);
  EXPECT_EQ(a.log.kernels.size(), 1u);
  EXPECT_GE(a.log.kernels.at("k").registers, 4);
  EXPECT_EQ(a.log.kernels.at("k").shared_bytes, 512);
  EXPECT_EQ(a.log.kernels.at("k").spill_bytes, 0);
}

TEST(Ptxas, Assembles) {
  const auto assembled = assemble_ptx(ptx("setmaxnreg.inc.sync.aligned.u32 128;"), "sm_90a", machine());
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  if (assembled->assembler.rfind("ptxas", 0) != 0) GTEST_SKIP() << "no ptxas here: " << assembled->assembler;
  expect_cubin(*assembled);
  // An advisory, because the kernel has neither .reqntid nor .minnctapersm.
  EXPECT_THAT(assembled->log.messages, ElementsAre(HasSubstr("(C75")));
  const auto refused = assemble_ptx("no PTX at all", "sm_90a", machine());
  EXPECT_THAT(std::string(refused.status().message()), StartsWith("stage assemble: ptxas "));
}

TEST(NvJitLink, AssemblesUnlessSetmaxnregWouldBeLost) {
  AssemblerSearch s = machine();
  s.directories.clear();
  const auto assembled = assemble_ptx(ptx(), "sm_90a", s);
  ASSERT_TRUE(assembled.ok()) << assembled.status();
  if (assembled->assembler == kNoAssembler) GTEST_SKIP() << "no libnvJitLink here";
  EXPECT_THAT(assembled->assembler, StartsWith("nvJitLink 1"));
  expect_cubin(*assembled);
  EXPECT_THAT(assembled->log.messages, IsEmpty());
  const auto kept = assemble_ptx(ptx("setmaxnreg.inc.sync.aligned.u32 128;"), "sm_90a", s);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->assembler, kAssembledByLoader);
  EXPECT_EQ(kept->cubin, "");
  const auto refused = assemble_ptx("no PTX at all", "sm_90a", s);
  EXPECT_THAT(std::string(refused.status().message()), StartsWith("stage assemble: nvJitLink 1"));
  const auto unknown = assemble_ptx(ptx(), "sm_999", s);
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_EQ(unknown->assembler, kNoAssembler) << "a target that the library does not support";
  EXPECT_EQ(unknown->log.messages.size(), 1u);
}

TEST(AssemblerSearchJson, RoundTripsAndRefusesInvalidFields) {
  AssemblerSearch s;
  s.ptxas = "/a/ptxas";
  s.directories = {"/b", "/c"};
  s.nvjitlink_directories = {"/d"};
  s.timeout_seconds = 7;
  const auto back = assembler_search_from_json(to_json(s));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(to_json(*back), to_json(s));
  for (const char* field : {"ptxas", "directories", "nvjitlink_directories", "timeout_seconds"}) {
    Json j = to_json(s);
    j[field] = nullptr;
    EXPECT_FALSE(assembler_search_from_json(j).ok()) << field;
    j.erase(field);
    EXPECT_FALSE(assembler_search_from_json(j).ok()) << field;
  }
  for (double seconds : {0.0, -1.0, 1e9}) {
    Json j = to_json(s);
    j["timeout_seconds"] = seconds;
    EXPECT_FALSE(assembler_search_from_json(j).ok()) << seconds;
  }
}

}  // namespace
}  // namespace lathe
