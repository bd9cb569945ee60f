#include "assembler.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

namespace lathe {
namespace {

namespace fs = std::filesystem;

// Searches where the library searches, as documented at lathe_device_describe.
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

}  // namespace lathe
