#include "cross_compile.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/json.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

std::string find_assembler() {
  std::vector<fs::path> candidates;
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) candidates.push_back(fs::path(folder) / "ptxas");
  glob_t found = {};
  if (glob("/usr/local/cuda*/bin/ptxas", 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) candidates.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  for (const fs::path& p : candidates)
    if (access(p.c_str(), X_OK) == 0) return p.string();
  return "";
}

const std::string& assembler() {
  static const std::string path = find_assembler();
  return path;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "lathe-gpu-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

KernelTable assemble(const std::string& ptx) {
  TemporaryDirectory directory;
  const fs::path in = directory / "kernel.ptx", out = directory / "kernel.cubin", log = directory / "log";
  std::ofstream(in, std::ios::binary) << ptx;
  const size_t target = ptx.find("\n.target ");
  if (target == std::string::npos) throw std::runtime_error("PTX without .target");
  const std::string arch = ptx.substr(target + 9, ptx.find_first_of(", \n", target + 9) - target - 9);
  const std::string command = "'" + assembler() + "' -v -arch=" + arch + " '" + in.string() + "' -o '" +
                              out.string() + "' > '" + log.string() + "' 2>&1";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("ptxas: " + read_file(log));
  return read_cubin(read_file(out), read_file(log));
}

}  // namespace

const std::string& no_assembler() {
  static const std::string reason =
      assembler().empty() ? "ptxas is neither on PATH nor in /usr/local/cuda*/bin: PTX was not assembled"
                          : "";
  return reason;
}

GpuCode compile_gpu(const Plan& plan) {
  GpuCode code;
  for (const auto& [name, text] : plan.dump()) {
    if (name == "recipe.json") {
      auto json = parse_json(text, "recipe.json");
      auto recipe = json.ok() ? recipe_from_json(*json) : absl::StatusOr<Recipe>(json.status());
      if (!recipe.ok()) throw std::runtime_error(std::string(recipe.status().message()));
      code.recipe = *recipe;
    } else if (name == "kernel.hsaco") {
      code.kernels = read_hsaco(text);
    } else if (name == "kernel.ptx") {
      code.text = text;
      if (no_assembler().empty()) code.kernels = assemble(text);
    } else if (name == "assembly.s") {
      code.text = text;
    }
  }
  return code;
}

}  // namespace lathe
