#include "cli/config_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace lathe::cli {
namespace {

// How a config's "split" merges the partial sums of split-K.
const char* merge_text(int64_t split) {
  switch (split) {
    case 1: return " merged in a second step";
    case 2: return " merged by the last workgroup";
    case 3: return " merged in the cluster";
    default: return "";
  }
}

// " of mine" for a user's ukernel "user/mine@DIGEST"; "" for a built-in one.
std::string users_name(absl::string_view bitcode) {
  if (!absl::ConsumePrefix(&bitcode, "user/")) return "";
  return absl::StrCat(" of ", bitcode.substr(0, bitcode.find('@')));
}

// The field "stages" as text. "dot", "direct", "outer", "bytes" and "amx" store their prefetch mode in it (CpuFetch in
// kernels/matmul/cpu/shape.h), all other kernels a number of buffers.
std::string stages_text(absl::string_view kernel, int64_t stages) {
  if (!absl::StartsWith(kernel, "dot") && !absl::StartsWith(kernel, "direct") && kernel != "outer" &&
      kernel != "bytes" && !absl::StartsWith(kernel, "amx"))
    return absl::StrCat("stages ", stages);
  return stages == 2   ? "fetches near"
         : stages == 3 ? "fetches near and next"
         : stages == 4 ? "fetches ahead"
         : stages == 5 ? "fetches nothing"
         : stages == 6 ? "fetches evenly"
         : stages == 8 ? "copies"
                       : "fetches far";
}

}  // namespace

std::string config_line(const nlohmann::json& config, int64_t splits) {
  const auto number = [&](const char* name) { return config.value(name, 0); };
  if (config.contains("external") && !config["external"].value("library", "").empty())
    return absl::StrCat(config["external"].value("library", ""), " ",
                        config["external"].value("routine", ""));
  std::string out = absl::StrFormat("%-6s tile %dx%dx%d", config.value("kernel", "?"), number("tile_m"),
                                    number("tile_n"), number("tile_k"));
  if (number("register_m") > 0) {
    absl::StrAppend(&out, "  registers ", number("register_m"), "x", number("register_n"));
  }
  if (number("threads") > 1) absl::StrAppend(&out, "  threads ", number("threads"));
  if (number("stages") > 1)
    absl::StrAppend(&out, "  ", stages_text(config.value("kernel", "?"), number("stages")));
  if (number("cluster_m") * number("cluster_n") * number("cluster_k") > 1) {
    absl::StrAppend(&out, "  cluster ", number("cluster_m"), "x", number("cluster_n"), "x",
                    number("cluster_k"));
  }
  if (number("swap") != 0) absl::StrAppend(&out, "  swapped");
  if (number("persistent") > 0) absl::StrAppend(&out, "  persistent ", number("persistent"));
  if (number("raster") > 0) absl::StrAppend(&out, "  raster ", number("raster"));
  if (number("pace") > 0) absl::StrAppend(&out, "  a turn in ", number("pace"), " cycles");
  if (config.contains("ukernel") && !config["ukernel"].value("function", "").empty())
    absl::StrAppend(&out, "  ", config["ukernel"].value("function", ""),
                    users_name(config["ukernel"].value("bitcode", "")));
  if (splits > 1) absl::StrAppend(&out, "  splits ", splits, merge_text(number("split")));
  return out;
}

}  // namespace lathe::cli
