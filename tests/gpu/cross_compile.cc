#include "cross_compile.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

#include "core/json.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

// Where the library is documented to look (lathe_device_describe).
bool has_assembler() {
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  std::vector<fs::path> folders;
  for (std::string folder; std::getline(path, folder, ':');) folders.emplace_back(folder);
  const char* home = std::getenv("CUDA_HOME");
  folders.push_back(fs::path(home != nullptr && *home != 0 ? home : "/usr/local/cuda") / "bin");
  for (const fs::path& folder : folders)
    if (access((folder / "ptxas").c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

const std::string& no_assembler() {
  static const std::string reason =
      has_assembler() ? ""
                      : "ptxas is neither on PATH nor in CUDA_HOME or /usr/local/cuda: PTX was not assembled";
  return reason;
}

GpuCode compile_gpu(const Plan& plan) {
  std::map<std::string, std::string> files;
  for (auto& [name, text] : plan.dump()) files[name] = text;
  GpuCode code;
  auto recipe_json = parse_json(files["recipe.json"], "recipe.json");
  auto recipe =
      recipe_json.ok() ? recipe_from_json(*recipe_json) : absl::StatusOr<Recipe>(recipe_json.status());
  if (!recipe.ok()) throw std::runtime_error(std::string(recipe.status().message()));
  code.recipe = *recipe;
  code.metadata = Json::parse(files["metadata.json"]);
  code.text = files[files.count("kernel.ptx") ? "kernel.ptx" : "assembly.s"];
  if (files.count("kernel.hsaco")) code.kernels = read_hsaco(files["kernel.hsaco"]);
  if (files.count("kernel.cubin")) code.kernels = read_cubin(files["kernel.cubin"], code.metadata);
  if (files.count("kernel.ptx") && !files.count("kernel.cubin") && no_assembler().empty())
    throw std::runtime_error("there is a ptxas and no cubin: " + files["metadata.json"]);
  return code;
}

}  // namespace lathe
