#include "options/path_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "lathe/pipelines.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;
using Names = std::set<std::string>;

absl::StatusOr<ContextOptions> read(const lathe_context_options* options, const Variables& variables = {}) {
  return read_options(options, [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

// The names of the fields of this type in a public struct.
Names fields_of(const std::string& header, const std::string& name, const std::string& type) {
  std::ifstream file(std::string(LATHE_INCLUDE_DIR) + "/lathe/" + header);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text = std::regex_replace(text, std::regex(R"(/\*(.|\n)*?\*/)"), "");
  const size_t begin = text.find("typedef struct " + name + " {"), end = text.find("} " + name + ";");
  Names names;
  if (begin == std::string::npos || end == std::string::npos) return names;
  text = text.substr(begin, end - begin);
  const std::regex field("\\n  " + type + " (\\w+);");
  for (std::sregex_iterator at(text.begin(), text.end(), field), none; at != none; ++at)
    names.insert((*at)[1]);
  return names;
}

class PathOptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::canonical(testing::TempDir()) / "lathe_options_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    here_ = name;
    before_ = fs::current_path();
    fs::current_path(here_);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(here_);
  }
  std::string here_;
  fs::path before_;
};

// A new path in the public structs must be a row of the table, or one of the exceptions named here.
TEST_F(PathOptionsTest, TableHasEveryPathField) {
  Names rows;
  for (const PathOption& row : kPathOptions)
    if (row.given != nullptr) rows.insert(row.name);
  Names fields = fields_of("lathe.h", "lathe_context_options", "const char\\*");
  EXPECT_EQ(fields.erase("remote"), 1u) << "a URL";
  EXPECT_EQ(fields, rows);
  EXPECT_EQ(fields_of("lathe.h", "lathe_context_options", "const char\\* const\\*"), Names{"bundles"});
  EXPECT_EQ(fields_of("pipelines.h", "lathe_pipelines", "const char\\*"), Names{"parameters"});
  EXPECT_EQ(fields_of("pipelines.h", "lathe_pipelines", "const char\\* const\\*"), Names{"paths"});
  EXPECT_EQ(fields_of("tune.h", "lathe_tune_options", "const char\\*"), Names{"output"});
  Names of_calibration = fields_of("calibrate.h", "lathe_calibrate_options", "const char\\*");
  EXPECT_EQ(of_calibration.erase("device"), 1u) << "a name";
  EXPECT_EQ(of_calibration, Names{"output"});
}

// The same for variables: every variable that is read is listed here, as a path or as none.
TEST_F(PathOptionsTest, TableHasEveryPathVariable) {
  Names asked;
  ASSERT_TRUE(read_options(nullptr, [&](const char* name) -> const char* {
                asked.insert(name);
                return nullptr;
              }).ok());
  Names known = {"LATHE_BUNDLES", "XDG_CACHE_HOME", "HOME", "LATHE_PTXAS",
                 "CUDA_HOME"};  // paths, tested below
  for (const char* no_path : {"LATHE_CACHE_BYTES", "LATHE_COMPILER", "LATHE_COMPILER_SECONDS",
                              "LATHE_COMPILER_BYTES", "LATHE_REMOTE", "LATHE_LOG", "LATHE_WORKERS",
                              "LATHE_VALIDATE", "LATHE_PERF_MAP", "LATHE_EXTERNAL", "LATHE_CPU_TARGET"})
    known.insert(no_path);
  // Relative directories in these are ignored.
  known.insert({"PATH", "TMPDIR"});
  for (const PathOption& row : kPathOptions) known.insert(row.variable);
  EXPECT_EQ(asked, known);
}

TEST_F(PathOptionsTest, EveryRowIsMadeAbsolute) {
  for (const PathOption& row : kPathOptions) {
    const auto variable = read(nullptr, {{row.variable, "a/b"}});
    EXPECT_EQ((*variable).*row.path, here_ + "/a/b") << row.variable;
    EXPECT_EQ((*read(nullptr, {{row.variable, "/a/b"}})).*row.path, "/a/b") << row.variable;
    EXPECT_EQ((*read(nullptr, {{row.variable, ""}})).*row.path, "") << row.variable;
    const auto name = read(nullptr, {{row.variable, "a"}});
    EXPECT_EQ((*name).*row.path, row.may_be_searched ? "a" : here_ + "/a") << row.variable;
    if (row.given == nullptr) continue;
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.*row.given = "c/d";
    EXPECT_EQ((*read(&options, {{row.variable, "a/b"}})).*row.path, here_ + "/c/d") << row.name;
    options.*row.given = "";
    EXPECT_EQ((*read(&options, {{row.variable, "a/b"}})).*row.path, "") << row.name;
  }
}

TEST_F(PathOptionsTest, OnlyTheCompilerLibraryMayBeAPlainName) {
  for (const PathOption& row : kPathOptions)
    EXPECT_EQ(row.may_be_searched, std::string(row.name) == "compiler_library") << row.name;
}

TEST_F(PathOptionsTest, DefaultsAreMadeAbsolute) {
  EXPECT_EQ(read(nullptr, {{"XDG_CACHE_HOME", "x"}})->cache_dir, here_ + "/x/lathe");
  EXPECT_EQ(read(nullptr, {{"HOME", "h"}})->cache_dir, here_ + "/h/.cache/lathe");
  EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_DIR", "c"}})->ukernels, here_ + "/c/ukernels");
  EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_DIR", "c"}})->calibration, here_ + "/c/calibration.json");
  EXPECT_EQ(read(nullptr, {{"LATHE_CACHE_DIR", ""}})->calibration, "") << "no cache directory";
}

TEST_F(PathOptionsTest, ListsAreMadeAbsolute) {
  EXPECT_EQ(read(nullptr, {{"LATHE_BUNDLES", "a:/b::./c"}})->bundles,
            (std::vector<std::string>{here_ + "/a", "/b", here_ + "/./c"}));
  const char* const paths[] = {"x", "/y", "z:z"};
  lathe_pipelines pipelines = LATHE_PIPELINES_INIT;
  pipelines.paths = paths;
  pipelines.count = 2;
  pipelines.parameters = "p.json";
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.next = reinterpret_cast<const lathe_chain*>(&pipelines);
  options.bundles = paths;
  options.bundle_count = 3;
  const auto out = read(&options);
  EXPECT_EQ(out->bundles, (std::vector<std::string>{here_ + "/x", "/y", here_ + "/z:z"}));
  EXPECT_EQ(out->pipelines, (std::vector<std::string>{here_ + "/x", "/y"}));
  EXPECT_EQ(out->pipeline_parameters, here_ + "/p.json");
}

TEST_F(PathOptionsTest, AssemblersAreMadeAbsolute) {
  const auto out = read(nullptr, {{"LATHE_PTXAS", "ptxas"}, {"CUDA_HOME", "cuda"}});
  EXPECT_EQ(out->assembler->ptxas, here_ + "/ptxas");
  EXPECT_EQ(out->assembler->directories, std::vector<std::string>{here_ + "/cuda/bin"});
  EXPECT_EQ(out->assembler->nvjitlink_directories, std::vector<std::string>{here_ + "/cuda/lib64"});
}

TEST_F(PathOptionsTest, ErrorNamesTheOptionIfThereIsNoCurrentDirectory) {
  fs::remove_all(here_);
  const std::string cause = " is relative, and the current directory is unknown: No such file or directory";
  for (const PathOption& row : kPathOptions) {
    const absl::Status variable = read(nullptr, {{row.variable, "a/b"}}).status();
    EXPECT_TRUE(absl::IsUnavailable(variable)) << row.variable;
    EXPECT_EQ(variable.message(), std::string(row.variable) + ": 'a/b'" + cause);
    EXPECT_TRUE(read(nullptr, {{row.variable, "/a/b"}}).ok()) << row.variable;
    if (row.given == nullptr) continue;
    lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
    options.*row.given = "a/b";
    EXPECT_EQ(read(&options).status().message(),
              std::string("lathe_context_options: ") + row.name + ": 'a/b'" + cause);
    options.*row.given = "/a/b";
    EXPECT_TRUE(read(&options).ok()) << row.name;
  }
  const char* const paths[] = {"/x", "y"};
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.bundles = paths;
  options.bundle_count = 2;
  EXPECT_EQ(read(&options).status().message(), "lathe_context_options: bundles[1]: 'y'" + cause);
  EXPECT_EQ(read(nullptr, {{"LATHE_BUNDLES", "/x:y"}}).status().message(), "LATHE_BUNDLES: 'y'" + cause);
  EXPECT_TRUE(read(nullptr, {{"PATH", "bin:."}, {"HOME", "/h"}, {"TMPDIR", "t"}}).ok())
      << "a path that was not given causes no error";
}

}  // namespace
}  // namespace lathe
