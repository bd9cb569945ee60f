#include "cli/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A compile config as `lathe explain` writes it. All fields have their defaults, except those in `set`.
Json config(const Json& set) {
  Json c = {{"kernel", "wgmma"}, {"tile_m", 128},  {"tile_n", 256},  {"tile_k", 64},   {"register_m", 0},
            {"register_n", 0},   {"unroll_k", 1},  {"lanes", 1},     {"threads", 384}, {"stages", 4},
            {"split", 0},        {"cluster_m", 1}, {"cluster_n", 1}, {"cluster_k", 1}, {"transposed", 0},
            {"persistent", 0},   {"raster", 0},    {"pace", 0},      {"prefetch", 0}};
  c.update(set);
  return c;
}

TEST(ConfigLine, ShowsFieldsThatAreSet) {
  EXPECT_EQ(config_line(config(Json::object()), 1), "wgmma  tile 128x256x64  threads 384  stages 4");
  EXPECT_EQ(
      config_line(config({{"cluster_m", 2}, {"transposed", 1}, {"persistent", 132}, {"raster", 8}}), 1),
      "wgmma  tile 128x256x64  threads 384  stages 4  cluster 2x1x1  transposed  persistent 132  raster 8");
  EXPECT_EQ(
      config_line(
          config({{"kernel", "dot"}, {"register_m", 4}, {"register_n", 2}, {"threads", 1}, {"stages", 1}}),
          1),
      "dot    tile 128x256x64  registers 4x2");
  const auto with_prefetch = [](int prefetch) {
    return config_line(config({{"kernel", "dot"}, {"threads", 1}, {"stages", 1}, {"prefetch", prefetch}}), 1);
  };
  EXPECT_EQ(with_prefetch(2), "dot    tile 128x256x64  prefetch into L1");
  EXPECT_EQ(with_prefetch(3), "dot    tile 128x256x64  prefetch into L1 and L2");
  EXPECT_EQ(with_prefetch(4), "dot    tile 128x256x64  prefetch ahead into L2");
  EXPECT_EQ(with_prefetch(5), "dot    tile 128x256x64  no prefetch");
  EXPECT_EQ(with_prefetch(6), "dot    tile 128x256x64  prefetch spread over all passes");
  EXPECT_EQ(with_prefetch(7), "dot    tile 128x256x64  prefetch far ahead into L1");
  EXPECT_EQ(config_line(config({{"kernel", "amx"}, {"threads", 1}, {"stages", 1}, {"copy_rows", 1}}), 1),
            "amx    tile 128x256x64  rows copied first");
  EXPECT_EQ(config_line(config({{"kernel", "dot_t"}, {"threads", 1}, {"stages", 1}, {"pace", 40}}), 1),
            "dot_t  tile 128x256x64  at least 40 cycles per iteration");
  EXPECT_EQ(config_line({{"kernel", "skinny"},
                         {"tile_m", 4},
                         {"tile_n", 64},
                         {"chunk_k", 512},
                         {"columns", 32},
                         {"threads", 256},
                         {"matrix", 1},
                         {"cluster_k", 8}},
                        1),
            "skinny tile 4x64x512  columns 32  threads 256  cluster 1x1x8  matrix instructions");
  EXPECT_EQ(config_line({{"kernel", "bytes"}, {"tile_m", 4}, {"tile_n", 64}}, 1), "bytes  tile 4x64");
  EXPECT_EQ(config_line(config({{"new_field", 3}, {"another", 0}}), 1),
            "wgmma  tile 128x256x64  threads 384  stages 4  new_field 3");
}

TEST(ConfigLine, ShowsHowSplitsAreMerged) {
  EXPECT_THAT(config_line(config({{"split", 1}}), 7), HasSubstr("  splits 7 merged in a second step"));
  EXPECT_THAT(config_line(config({{"split", 2}}), 7), HasSubstr("  splits 7 merged by the last workgroup"));
  EXPECT_THAT(config_line(config({{"split", 3}, {"cluster_k", 4}}), 4),
              HasSubstr("  cluster 1x1x4  splits 4 merged in the cluster"));
  EXPECT_THAT(config_line(config({{"split", 2}}), 1), Not(HasSubstr("splits")));
}

TEST(ConfigLine, NamesTheUkernel) {
  const auto with_bitcode = [](const char* bitcode) {
    const Json ukernel = {{"function", "row_f32"}, {"bitcode", bitcode}};
    return config_line(config({{"kernel", "ukernel"}, {"ukernel", ukernel}}), 1);
  };
  EXPECT_THAT(with_bitcode("argmax/rows@x86-64-v4"), EndsWith("  row_f32"));
  EXPECT_THAT(with_bitcode("user/mine@0123abcd"), EndsWith("  row_f32 (ukernel mine)"));
}

TEST(PlanText, FactsShowWhereTheyComeFrom) {
  EXPECT_EQ(where_from({{"source", "NVIDIA H200 datasheet"}}), "NVIDIA H200 datasheet");
  EXPECT_EQ(where_from({{"source", "measured: one core"}, {"origin", "measured"}}), "measured one core");
  EXPECT_EQ(where_from({{"source", "default: Zen 4, a guess"}, {"origin", "table"}}),
            "table    Zen 4, a guess");
  EXPECT_EQ(where_from({{"source", "cpuid leaf 4"}, {"origin", "system"}}), "system   cpuid leaf 4");
  const Json facts = {{"cores", {{"value", 2}, {"source", "/sys"}, {"origin", "system"}}}};
  const std::string line = facts_lines(facts, "  ");
  EXPECT_EQ(line.substr(0, 8), "  cores ");
  EXPECT_THAT(line, HasSubstr(" 2   system   /sys\n"));
}

// A class with several sizes has one predicted time, and the text must say so.
TEST(PlanText, PredictionNamesTheRepresentativeSize) {
  const auto of = [](Json problem) {
    return prediction({{"predicted_seconds", 2e-3}, {"class", std::move(problem)}});
  };
  const std::string alone = duration(2e-3), shared = alone + " for the representative size of its class";
  EXPECT_EQ(of({{"op", "matmul"}, {"m_lo", 5}, {"m_hi", 5}}), alone);
  EXPECT_EQ(of({{"op", "matmul"}, {"m_lo", 17}, {"m_hi", 32}}), shared);
  EXPECT_EQ(of({{"op", "argmax"}, {"m_lo", 1}, {"m_hi", 1}, {"row_lo", 1}, {"row_hi", 1024}}), shared);
  EXPECT_EQ(of({{"op", "elementwise"}}), shared);
  const auto of_groups = [](const char* rows, int64_t m_hi) {
    return prediction({{"predicted_seconds", 2e-3},
                       {"dims", {{"batch", 8}}},
                       {"class", {{"op", "matmul"}, {"m_lo", 17}, {"m_hi", m_hi}, {"rows", rows}}}});
  };
  EXPECT_EQ(of_groups("offsets", 17), alone + " for all groups");
  EXPECT_EQ(of_groups("indexed", 32),
            alone + " for all groups, each for the representative size of its class");
  EXPECT_EQ(of_groups("device_m", 32), shared);
}

// For each kind: the fastest measured candidate, else the one with the best prediction, else a rejected one with its
// reason.
TEST(ExplainText, ShowsTheBestOfEachKind) {
  const auto candidate = [](const Json& set, const Json& more) {
    Json c = {{"config", config(set)}, {"splits", 1}, {"legal", !more.contains("rejection")}};
    c.update(more);
    return c;
  };
  const auto library = [](const char* name) {
    return Json{{"kernel", "external"}, {"external", {{"library", name}, {"routine", "product"}}}};
  };
  const auto ukernel = [](const char* name) {
    return Json{{"kernel", "ukernel"}, {"ukernel", {{"function", name}, {"bitcode", "matmul/x@y"}}}};
  };
  const Json plan = {{"config", config(Json::object())},
                     {"candidates",
                      {candidate({{"stages", 4}}, {{"predicted_seconds", 1e-3}, {"measured_seconds", 5e-3}}),
                       candidate({{"stages", 5}}, {{"predicted_seconds", 2e-3}, {"measured_seconds", 4e-3}}),
                       candidate({{"stages", 6}}, {{"predicted_seconds", 3e-3}}),
                       candidate(ukernel("first"), {{"predicted_seconds", 6e-3}}),
                       candidate(ukernel("second"), {{"predicted_seconds", 7e-3}}),
                       candidate(library("fast"), {{"rejection", "libraries are off"},
                                                   {"predicted_seconds", 8e-4},
                                                   {"measured_seconds", 9e-4}}),
                       candidate(library("absent"), {{"rejection", "no such file"}})}}};
  const std::string text = explain_text(plan);
  const size_t from = text.find("Best of each kind"), to = text.find("Legal candidates");
  ASSERT_LT(from, to);
  const std::string row = "tile 128x256x64  threads 384  stages ";
  EXPECT_EQ(text.substr(from, to - from),
            "Best of each kind\n"
            "             predicted   measured\n"
            "  generated       2 ms       4 ms  wgmma  " +
                row +
                "5\n"
                "  ukernel         6 ms          -  ukernel " +
                row +
                "4  first\n"
                "  fast          800 us     900 us  fast product; libraries are off\n"
                "  absent             -          -  absent product; no such file\n\n");
  EXPECT_THAT(text, HasSubstr("libraries are off; predicted 800 us; measured 900 us"));
}

TEST(PlanText, ShowsTheFieldsOfTheChoiceWithTheirMeaning) {
  const Json plan = {{"config", config(Json::object())},
                     {"fields", {{{"name", "tile_m"}, {"value", 16}, {"meaning", "rows of D of a task"}}}}};
  EXPECT_THAT(
      explain_text(plan),
      HasSubstr(
          "\nFields of the choice\n  tile_m              16  rows of D of a task\n\nBest of each kind"));
}

TEST(DeviceLine, NamesDeviceAndTarget) {
  EXPECT_EQ(
      device_line(
          {{"device", "cuda:0"}, {"facts", {{"name", "NVIDIA H200"}}}, {"target", {{"arch", "sm_90a"}}}}),
      "NVIDIA H200, sm_90a");
}

}  // namespace
}  // namespace lathe::cli
