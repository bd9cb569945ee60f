#include "core/plan.h"

#include <stdexcept>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

auto fields_of(const CompileConfig& c) {
  return std::tie(c.kernel, c.tile_m, c.tile_n, c.tile_k, c.register_m, c.register_n, c.unroll_k, c.lanes,
                  c.threads, c.stages, c.split, c.cluster_m, c.cluster_n, c.cluster_k, c.swap, c.persistent,
                  c.raster, c.pace, c.ukernel, c.external);
}

// This text is pasted into the payload's MLIR text, so it must not contain a quote, a backslash or a control
// character.
std::string name_field(const Json& j, const char* name) {
  std::string text = text_field(j, name);
  for (char c : text)
    if (c < ' ' || c > '~' || c == '"' || c == '\\')
      throw std::invalid_argument(
          absl::StrCat("\"", name, "\" contains a character that is not allowed in a name"));
  return text;
}

}  // namespace

bool UkernelRef::operator==(const UkernelRef& o) const {
  return function == o.function && bitcode == o.bitcode && attributes == o.attributes;
}

bool CompileConfig::operator==(const CompileConfig& o) const { return fields_of(*this) == fields_of(o); }

Json to_json(const CompileConfig& c) {
  return json_object("kernel", c.kernel, "tile_m", c.tile_m, "tile_n", c.tile_n, "tile_k", c.tile_k,
                     "register_m", c.register_m, "register_n", c.register_n, "unroll_k", c.unroll_k, "lanes",
                     c.lanes, "threads", c.threads, "stages", c.stages, "split", c.split, "cluster_m",
                     c.cluster_m, "cluster_n", c.cluster_n, "cluster_k", c.cluster_k, "swap", c.swap,
                     "persistent", c.persistent, "raster", c.raster, "pace", c.pace, "ukernel",
                     json_object("function", c.ukernel.function, "bitcode", c.ukernel.bitcode, "attributes",
                                 c.ukernel.attributes),
                     "external", json_object("library", c.external.provider, "routine", c.external.routine));
}

absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j) {
  return read_json("compile config", [&] {
    constexpr int64_t kMaxTile = 1 << 24;  // far above any tile; the product of two still fits in 64 bits
    expect_fields(j, 20);
    CompileConfig c;
    c.kernel = text_field(j, "kernel");
    c.tile_m = int_field(j, "tile_m", 0, kMaxTile);
    c.tile_n = int_field(j, "tile_n", 0, kMaxTile);
    c.tile_k = int_field(j, "tile_k", 0, kMaxTile);
    c.register_m = int_field(j, "register_m", 0, kMaxTile);
    c.register_n = int_field(j, "register_n", 0, kMaxTile);
    c.unroll_k = int_field(j, "unroll_k", 1, 1024);
    c.lanes = int_field(j, "lanes", 1, 1024);
    c.threads = int_field(j, "threads", 1, 1024);
    c.stages = int_field(j, "stages", 1, 64);
    c.split = int_field(j, "split", kNoSplit, kMergeCluster);
    c.cluster_m = int_field(j, "cluster_m", 1, 16);
    c.cluster_n = int_field(j, "cluster_n", 1, 16);
    c.cluster_k = int_field(j, "cluster_k", 1, 16);
    c.swap = int_field(j, "swap", 0, 1);
    c.persistent = int_field(j, "persistent", 0, 1 << 20);
    c.raster = int_field(j, "raster", 0, 1024);
    c.pace = int_field(j, "pace", 0, kMostPace);
    const Json& ukernel = j.at("ukernel");
    expect_fields(ukernel, 3);
    c.ukernel.function = name_field(ukernel, "function");
    c.ukernel.bitcode = name_field(ukernel, "bitcode");
    c.ukernel.attributes = name_field(ukernel, "attributes");
    const bool named = !c.ukernel.function.empty();
    if (named != (c.kernel == "ukernel") || named != !c.ukernel.bitcode.empty())
      throw std::invalid_argument(
          "\"ukernel\" must name a function and its bitcode for kernel \"ukernel\", and nothing otherwise");
    const Json& external = j.at("external");
    expect_fields(external, 2);
    c.external.provider = name_field(external, "library");
    c.external.routine = name_field(external, "routine");
    const bool outside = !c.external.provider.empty();
    if (outside != (c.kernel == "external") || outside != !c.external.routine.empty())
      throw std::invalid_argument(
          "\"external\" must name a library and its routine for kernel \"external\", and nothing otherwise");
    return c;
  });
}

}  // namespace lathe
