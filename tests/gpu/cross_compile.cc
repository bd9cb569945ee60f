#include "cross_compile.h"

#include <map>
#include <stdexcept>

#include "core/json.h"

namespace lathe {
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
    throw std::runtime_error("ptxas is present, but there is no cubin: " + files["metadata.json"]);
  return code;
}

}  // namespace lathe
