#include "core/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "json_leaves.h"

namespace lathe {
namespace {

CompileConfig panel() {
  PanelConfig c;
  c.tile_m = 96, c.tile_n = 512, c.tile_k = 256, c.register_m = 6, c.register_n = 32;
  c.lanes = 16, c.prefetch_lines = 1;
  return c;
}

CompileConfig ukernel() {
  PanelUkernelConfig c;
  c.tile_m = 96, c.tile_n = 512, c.tile_k = 256, c.register_m = 6, c.register_n = 32, c.lanes = 16;
  return {c, {"f", "argmax/rows@x86-64-v4", "alwaysinline"}};
}

CompileConfig external() {
  CompileConfig c = ExternalConfig();
  c.external = {"openblas", "cblas_sgemm"};
  return c;
}

TEST(CompileConfigTest, RoundTripsThroughJson) {
  for (const CompileConfig& c : {panel(), ukernel(), external(), CompileConfig()}) {
    const auto back = compile_config_from_json(to_json(c));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == c);
  }
}

TEST(CompileConfigTest, RoundTripsThroughJsonInEveryFamily) {
  for (size_t i = 0; i < std::size(kConfigFamilies); ++i)
    for (const KernelRow& kernel : kKernels) {
      if (!kConfigFamilies[i].covers(kernel.kind)) continue;
      CompileConfig c(static_cast<ConfigFamily>(i), kernel.kind);
      for (const auto& [field, value] : c.fields()) c.set(field->name, std::min(value + 1, field->most));
      if (kernel.kind == KernelKind::kUkernel) c.ukernel = ukernel().ukernel;
      if (kernel.kind == KernelKind::kExternal) c.external = external().external;
      const auto back = compile_config_from_json(to_json(c));
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(*back == c) << to_json(c).dump();
    }
}

TEST(CompileConfigTest, RefusesAFamilyThatTheKernelDoesNotHave) {
  Json j = to_json(panel());
  j["family"] = "panel_t";
  EXPECT_EQ(compile_config_from_json(j).status().message(),
            "compile config: kernel \"panel\" has no configs of family \"panel_t\"");
}

TEST(CompileConfigTest, ReadsEveryJsonLeaf) {
  int leaves = 0, read = 0;
  for_each_changed_leaf(to_json(ukernel()), [&](const std::string& path, const Json& changed) {
    ++leaves;
    const auto back = compile_config_from_json(changed);
    read += back.ok();
    if (back.ok()) EXPECT_FALSE(*back == ukernel()) << path;
  });
  const int fields = static_cast<int>(ukernel().fields().size());
  EXPECT_EQ(leaves,
            fields + 7);    // the kernel, its family, three texts of the ukernel, two of the external library
  EXPECT_GE(read, fields);  // a ukernel is of the kernel "ukernel" alone, an external library of "external"
}

TEST(CompileConfigTest, RefusesInvalidJson) {
  const Json good = to_json(panel());
  for (const auto& [name, value] : good.items()) {
    Json j = good;
    j.erase(name);
    EXPECT_FALSE(compile_config_from_json(j).ok()) << "without " << name;
    for (const Json& bad : {Json(), Json(false), Json(0.5), Json(-1), Json(INT64_MAX), Json::array()}) {
      j = good;
      j[name] = bad;
      EXPECT_FALSE(compile_config_from_json(j).ok()) << name << " = " << bad.dump();
    }
  }
  // These strings are pasted into MLIR text, so they must not contain a quote, a backslash or a control
  // character.
  for (const char* name : {"function", "bitcode", "attributes"})
    for (const Json& bad : {Json("\""), Json("a\nb"), Json("a\\"), Json("caf\xc3\xa9"), Json(1)}) {
      Json j = to_json(ukernel());
      j["ukernel"][name] = bad;
      EXPECT_FALSE(compile_config_from_json(j).ok()) << name << " = " << bad.dump();
    }
  for (const char* name : {"function", "bitcode"}) {
    Json without = to_json(ukernel());
    without["ukernel"][name] = "";
    EXPECT_FALSE(compile_config_from_json(without).ok()) << name;
  }
  for (const char* name : {"library", "routine"}) {
    for (const Json& bad : {Json(""), Json("\""), Json("a\nb"), Json(1)}) {
      Json j = to_json(external());
      j["external"][name] = bad;
      EXPECT_FALSE(compile_config_from_json(j).ok()) << name << " = " << bad.dump();
    }
  }
  Json stray = good;
  stray["external"] = to_json(external())["external"];
  EXPECT_FALSE(compile_config_from_json(stray).ok());
  Json with = good;
  with["ukernel"] = to_json(ukernel())["ukernel"];
  EXPECT_FALSE(compile_config_from_json(with).ok());
  Json extra = good;
  extra["swizzle"] = 1;
  EXPECT_FALSE(compile_config_from_json(extra).ok());
}

}  // namespace
}  // namespace lathe
