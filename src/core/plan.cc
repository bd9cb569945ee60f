#include "core/plan.h"

#include <tuple>

namespace lathe {
namespace {

auto fields_of(const CompileConfig& c) {
  return std::tie(c.kernel, c.tile_m, c.tile_n, c.tile_k, c.register_m, c.register_n, c.unroll_k, c.lanes,
                  c.threads, c.stages, c.split, c.cluster_m, c.cluster_n, c.cluster_k, c.swap,
                  c.persistent, c.raster);
}

}  // namespace

bool CompileConfig::operator==(const CompileConfig& o) const { return fields_of(*this) == fields_of(o); }

Json to_json(const CompileConfig& c) {
  return {{"kernel", c.kernel},
          {"tile_m", c.tile_m},
          {"tile_n", c.tile_n},
          {"tile_k", c.tile_k},
          {"register_m", c.register_m},
          {"register_n", c.register_n},
          {"unroll_k", c.unroll_k},
          {"lanes", c.lanes},
          {"threads", c.threads},
          {"stages", c.stages},
          {"split", c.split},
          {"cluster_m", c.cluster_m},
          {"cluster_n", c.cluster_n},
          {"cluster_k", c.cluster_k},
          {"swap", c.swap},
          {"persistent", c.persistent},
          {"raster", c.raster}};
}

absl::StatusOr<CompileConfig> compile_config_from_json(const Json& j) {
  return read_json("compile config", [&] {
    constexpr int64_t kMaxTile = 1 << 24;  // far above any tile, far below overflow in a product of two
    expect_fields(j, 17);
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
    return c;
  });
}

}  // namespace lathe
