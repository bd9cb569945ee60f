#include "cross_compile.h"

#include <map>
#include <stdexcept>

#include "core/json.h"

namespace lathe {

lathe_context_options no_disk() {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_dir = "";
  return options;
}

lathe_matmul_desc describe_matmul(const MatmulForm& f) {
  alignas(16) static float present[4] = {};  // planning does not read through pointers
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = f.m, desc.n = f.n, desc.k = f.k;
  desc.a.dtype = desc.b.dtype = f.dtype;
  desc.c.dtype = desc.d.dtype = f.out;
  desc.a.layout = f.transposed_a ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.b.layout = f.transposed_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.a.data = desc.b.data = desc.c.data = desc.d.data = present;
  static lathe_scale scales[] = {LATHE_SCALE_INIT, LATHE_SCALE_INIT};
  if (f.scaled > 0) {
    lathe_scale& scale = scales[f.scaled == 128];
    scale.data = present;
    scale.dtype = f.scaled == 128 ? LATHE_F32 : LATHE_F8_E8M0;
    scale.granularity = LATHE_PER_BLOCK;
    scale.block_size = f.scaled;
    desc.a.scale = desc.b.scale = &scale;
  }
  desc.epilogue.activation = f.activation;
  if (f.everything) {
    desc.epilogue.beta = 1;
    desc.epilogue.bias = present;
    desc.epilogue.bias_dtype = f.out;
    desc.epilogue.residual.data = present;
    desc.epilogue.residual.dtype = f.out;
  }
  return desc;
}

Plan plan_matmul(const Device& device, const MatmulForm& form, int32_t split_k, int32_t candidate) {
  lathe_matmul_desc desc = describe_matmul(form);
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.split_k = split_k;
  tuning.candidate = candidate;
  desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
  return device.plan(desc);
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
    throw std::runtime_error("ptxas is present, but there is no cubin: " + files["metadata.json"]);
  return code;
}

}  // namespace lathe
