#include "compiler/config_text.h"

#include "absl/strings/str_format.h"

namespace lathe {

std::string kernel_config_text(const CompileConfig& c) {
  return absl::StrFormat(
      "#lathe.kernel_config<kernel = \"%s\", tile_m = %d, tile_n = %d, tile_k = %d, register_m = %d, "
      "register_n = %d, unroll_k = %d, lanes = %d, threads = %d, stages = %d, split = %d, "
      "cluster_m = %d, cluster_n = %d, cluster_k = %d, swap = %d, persistent = %d, raster = %d, pace = %d>",
      c.kernel, c.tile_m, c.tile_n, c.tile_k, c.register_m, c.register_n, c.unroll_k, c.lanes, c.threads,
      c.stages, c.split, c.cluster_m, c.cluster_n, c.cluster_k, c.swap, c.persistent, c.raster, c.pace);
}

std::string config_aliases(const CompileConfig& c) {
  std::string text = absl::StrFormat("#config = %s\n", kernel_config_text(c));
  if (!c.ukernel.function.empty())
    absl::StrAppendFormat(
        &text, "#ukernel = #lathe.ukernel<function = \"%s\", bitcode = \"%s\", attributes = \"%s\">\n",
        c.ukernel.function, c.ukernel.bitcode, c.ukernel.attributes);
  if (!c.external.provider.empty())
    absl::StrAppendFormat(&text, "#external = #lathe.external<library = \"%s\", routine = \"%s\">\n",
                          c.external.provider, c.external.routine);
  return text;
}

std::string config_entries(const CompileConfig& c) {
  std::string text = "lathe.config = #config";
  if (!c.ukernel.function.empty()) text += ", lathe.ukernel = #ukernel";
  if (!c.external.provider.empty()) text += ", lathe.external = #external";
  return text;
}

}  // namespace lathe
