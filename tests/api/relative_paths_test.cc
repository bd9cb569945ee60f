// A process that changes its directory. It loads the library by a relative name in the first directory, gives
// relative paths as options in the second, and works in the third, where nothing may be read or written.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "../string_pointers.h"
#include "options/path_options.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Strings = std::vector<std::string>;

// The path given for each row of kPathOptions. A missing row fails every test.
const std::map<std::string, std::string> kGiven = {
    {"cache_dir", "cache"},
    {"compiler_library", "./compiler.so"},
    {"compiler_program", "program"},
    {"fallback_bundle", "generic.bundle"},
    {"record", "record.json"},
    {"metrics", "metrics.txt"},
    {"trace", "trace.json"},
    {"tuning", "tuning.json"},
    {"calibration", "calibration.json"},
    {"ukernels", "own"},
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Strings names_in(const fs::path& directory) {
  Strings names;
  for (const auto& file : fs::directory_iterator(directory)) names.push_back(file.path().filename());
  return names;
}
Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class RelativePathsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::canonical(testing::TempDir()) / "lathe_paths_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    loaded_ = scratch_ / "loaded", given_ = scratch_ / "given", later_ = scratch_ / "later";
    for (const fs::path& directory : {loaded_, given_, later_}) fs::create_directory(directory);
    const fs::path lib = fs::path(LATHE_LIBRARY_FILE).parent_path();
    fs::create_directory_symlink(lib, loaded_ / "lib");
  }
  void TearDown() override { fs::remove_all(scratch_); }

  // Makes the files of kGiven that the library reads.
  void make_files() {
    const fs::path lib = fs::path(LATHE_LIBRARY_FILE).parent_path();
    fs::create_symlink(lib / "liblathe-compiler.so", given_ / "compiler.so");
    fs::create_symlink(lib / "lathe-compiler-process", given_ / "program");
    fs::create_symlink(lib / "lathe-fallback.bundle", given_ / "generic.bundle");
    std::ofstream(given_ / "calibration.json") << "{\"lathe_calibration\": 1, \"machines\": []}";
    const Outcome made = run(LATHE_LIBRARY_FILE,
                             {"chdir=" + given_.string(), "cache_dir=" + (scratch_ / "made").string(), "open",
                              "product=16", "pack=warm.bundle", "tune=tuning.json," + given_.string()},
                             {});
    ASSERT_TRUE(made.succeeded) << made.out << made.log;
  }

  struct Outcome {
    bool succeeded = false;
    std::string out, log;
  };
  // Runs relative_paths_child in `loaded_` with only `environment` as its environment.
  Outcome run(const std::string& library, const Strings& commands, const Strings& environment) const {
    Strings all = Strings{LATHE_RELATIVE_PATHS_CHILD, library} + commands, variables = environment;
    const std::vector<char*> argv = string_pointers(all), envp = string_pointers(variables);
    const fs::path out = scratch_ / "out", log = scratch_ / "log";
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDOUT_FILENO);
      dup2(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
      if (chdir(loaded_.c_str()) == 0) execve(argv[0], argv.data(), envp.data());
      _exit(3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return {status == 0, contents(out), contents(log)};
  }

  // `options` and `environment` give every path that can be given.
  void expect_work_in_given(const Strings& options, const Strings& environment) {
    make_files();
    const Strings before = names_in(given_);
    const Outcome outcome =
        run("lib/liblathe.so",
            Strings{"chdir=" + given_.string()} + options +
                Strings{"open", "chdir=" + later_.string(), "product=16", "product=32", "fallback",
                        "product=48", "chdir=" + given_.string(), "tune=tuned.json," + later_.string()},
            environment);
    EXPECT_TRUE(outcome.succeeded);
    EXPECT_THAT(outcome.log, IsEmpty());
    EXPECT_THAT(outcome.out, HasSubstr(" background_compiles=1 bundle_hits=1 fallback_runs=1\n"));
    EXPECT_THAT(outcome.out, HasSubstr("\"directory\":\"" + (given_ / "cache").string() + "\""));
    EXPECT_THAT(outcome.out, HasSubstr("\"directory\":\"" + (given_ / "own").string() + "\""));
    EXPECT_THAT(names_in(later_), IsEmpty());
    EXPECT_THAT(names_in(loaded_), UnorderedElementsAre("lib"));
    EXPECT_THAT(names_in(given_),
                testing::UnorderedElementsAreArray(
                    before + Strings{"cache", "record.json", "metrics.txt", "trace.json", "tuned.json"}))
        << outcome.out;
    EXPECT_THAT(contents(given_ / "metrics.txt"), HasSubstr("lathe_bundle_hits_total 1\n"));
    EXPECT_THAT(contents(given_ / "trace.json"), HasSubstr("n=32"));
    EXPECT_THAT(contents(given_ / "record.json"), HasSubstr("\"n\":32,"));
  }
  // Gives each path by an option if there is one, else by its variable.
  static Strings all_options() {
    Strings all = {"bundle=warm.bundle"};
    for (const PathOption& row : kPathOptions)
      if (row.given != nullptr) all.push_back(std::string(row.name) + "=" + kGiven.at(row.name));
    return all;
  }
  static Strings all_variables(bool options_too) {
    Strings all;
    if (options_too) all.push_back("LATHE_BUNDLES=warm.bundle");
    for (const PathOption& row : kPathOptions)
      if (options_too || row.given == nullptr)
        all.push_back(std::string(row.variable) + "=" + kGiven.at(row.name));
    return all;
  }
  // No option: the library uses the files beside itself.
  void expect_files_beside(const std::string& library, const Strings& environment) {
    for (const Strings& way : {Strings{}, Strings{"process"}}) {
      const Outcome outcome = run(library,
                                  way + Strings{"cache_dir=", "chdir=" + later_.string(), "open",
                                                "product=16", "fallback", "product=32"},
                                  environment);
      EXPECT_TRUE(outcome.succeeded);
      EXPECT_THAT(outcome.out, HasSubstr("compiles=2 background_compiles=1 bundle_hits=0 fallback_runs=1\n"));
      EXPECT_THAT(outcome.log, IsEmpty());
      EXPECT_THAT(names_in(later_), IsEmpty());
    }
  }

  fs::path scratch_, loaded_, given_, later_;
};

TEST_F(RelativePathsTest, OptionsAreRelativeToWhereTheyWereGiven) {
  expect_work_in_given(all_options(), all_variables(/*options_too=*/false));
}

TEST_F(RelativePathsTest, OptionsForCompilerProcessesAreRelativeToWhereTheyWereGiven) {
  expect_work_in_given(all_options() + Strings{"process"}, all_variables(/*options_too=*/false));
}

TEST_F(RelativePathsTest, VariablesAreRelativeToWhereTheyWereRead) {
  expect_work_in_given({}, all_variables(/*options_too=*/true));
}

TEST_F(RelativePathsTest, VariablesForCompilerProcessesAreRelativeToWhereTheyWereRead) {
  expect_work_in_given({}, all_variables(/*options_too=*/true) + Strings{"LATHE_COMPILER=process"});
}

TEST_F(RelativePathsTest, LibraryFindsTheFilesBesideIt) { expect_files_beside("lib/liblathe.so", {}); }

TEST_F(RelativePathsTest, LibraryFoundBySearchFindsTheFilesBesideIt) {
  expect_files_beside("liblathe.so", {"LD_LIBRARY_PATH=lib"});
}

// dlopen searches a name without a slash.
TEST_F(RelativePathsTest, DynamicLinkerSearchesACompilerLibraryWithoutASlash) {
  const Outcome outcome = run("lib/liblathe.so",
                              {"cache_dir=", "compiler_library=liblathe-compiler.so",
                               "chdir=" + later_.string(), "open", "product=16"},
                              {"LD_LIBRARY_PATH=" + (loaded_ / "lib").string()});
  EXPECT_TRUE(outcome.succeeded) << outcome.out << outcome.log;
}

}  // namespace
}  // namespace lathe
