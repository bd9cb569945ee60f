#include "cli/config_text.h"

#include <algorithm>
#include <iterator>

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

// " (ukernel mine)" for a user's ukernel "user/mine@DIGEST"; "" for a built-in one.
std::string users_name(absl::string_view bitcode) {
  if (!absl::ConsumePrefix(&bitcode, "user/")) return "";
  return absl::StrCat(" (ukernel ", bitcode.substr(0, bitcode.find('@')), ")");
}

// "prefetch" of a CPU kernel's config: a CpuFetch (kernels/matmul/cpu/shape.h).
const char* prefetch_text(int64_t prefetch) {
  switch (prefetch) {
    case 2: return "  prefetch into L1";
    case 3: return "  prefetch into L1 and L2";
    case 4: return "  prefetch ahead into L2";
    case 5: return "  no prefetch";
    case 6: return "  prefetch spread over all passes";
    case 7: return "  prefetch far ahead into L1";
    default: return "";
  }
}

// Fields that config_line writes in its own words, or not at all. Every other number that is not 0 is written
// as "NAME VALUE".
constexpr absl::string_view kWrittenOtherwise[] = {
    "tile_m",     "tile_n",     "tile_k",        "padded_k",
    "chunk_k",    "register_m", "register_n",    "columns",
    "unroll_k",   "stage_k",    "loads",         "lanes",
    "threads",    "stages",     "prefetch",      "prefetch_lines",
    "copy_rows",  "copy_ahead", "narrow_passes", "narrowest_rows",
    "group_n",    "chains",     "piece",         "store_directly",
    "split",      "cluster_m",  "cluster_n",     "cluster_k",
    "transposed", "matrix",     "plain_store",   "persistent",
    "raster",     "pace"};

}  // namespace

std::string config_line(const nlohmann::json& config, int64_t splits) {
  const auto number = [&](const char* name) { return config.value(name, 0); };
  if (config.contains("external") && !config["external"].value("library", "").empty())
    return absl::StrCat(config["external"].value("library", ""), " ",
                        config["external"].value("routine", ""));
  std::string out =
      absl::StrFormat("%-6s tile %dx%d", config.value("kernel", "?"), number("tile_m"), number("tile_n"));
  for (const char* depth : {"tile_k", "padded_k", "chunk_k"})
    if (number(depth) > 0) absl::StrAppend(&out, "x", number(depth));
  if (number("register_m") > 0)
    absl::StrAppend(&out, "  registers ", number("register_m"), "x", number("register_n"));
  if (number("columns") > 0) absl::StrAppend(&out, "  columns ", number("columns"));
  if (number("threads") > 1) absl::StrAppend(&out, "  threads ", number("threads"));
  if (number("stages") > 1) absl::StrAppend(&out, "  stages ", number("stages"));
  absl::StrAppend(&out, prefetch_text(number("prefetch")));
  if (number("copy_rows") != 0) absl::StrAppend(&out, "  rows copied first");
  const auto along = [&](const char* name) { return config.value(name, 1); };
  if (along("cluster_m") * along("cluster_n") * along("cluster_k") > 1)
    absl::StrAppend(&out, "  cluster ", along("cluster_m"), "x", along("cluster_n"), "x", along("cluster_k"));
  if (number("transposed") != 0) absl::StrAppend(&out, "  transposed");
  if (number("matrix") != 0) absl::StrAppend(&out, "  matrix instructions");
  if (number("persistent") > 0) absl::StrAppend(&out, "  persistent ", number("persistent"));
  if (number("raster") > 0) absl::StrAppend(&out, "  raster ", number("raster"));
  if (number("pace") > 0) absl::StrAppend(&out, "  at least ", number("pace"), " cycles per iteration");
  for (const auto& [name, value] : config.items()) {
    const bool known = std::find(std::begin(kWrittenOtherwise), std::end(kWrittenOtherwise), name) !=
                       std::end(kWrittenOtherwise);
    if (value.is_number_integer() && value != 0 && !known)
      absl::StrAppend(&out, "  ", name, " ", value.dump());
  }
  if (config.contains("ukernel") && !config["ukernel"].value("function", "").empty())
    absl::StrAppend(&out, "  ", config["ukernel"].value("function", ""),
                    users_name(config["ukernel"].value("bitcode", "")));
  if (splits > 1) absl::StrAppend(&out, "  splits ", splits, merge_text(number("split")));
  return out;
}

}  // namespace lathe::cli
