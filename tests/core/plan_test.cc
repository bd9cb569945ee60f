#include "core/plan.h"

#include <gtest/gtest.h>

#include "json_leaves.h"

namespace lathe {
namespace {

CompileConfig panel() { return {"panel", 96, 512, 256, 6, 32, 4, 16, 1, 2, 1}; }

TEST(CompileConfigTest, JsonRoundTrips) {
  for (const CompileConfig& c : {panel(), CompileConfig()}) {
    const auto back = compile_config_from_json(to_json(c));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == c);
  }
}

TEST(CompileConfigTest, EveryJsonLeafIsRead) {
  int leaves = 0;
  for_each_changed_leaf(to_json(panel()), [&](const std::string& path, const Json& changed) {
    ++leaves;
    const auto back = compile_config_from_json(changed);
    if (back.ok()) EXPECT_FALSE(*back == panel()) << path;
  });
  EXPECT_EQ(leaves, 17);
}

TEST(CompileConfigTest, HostileJsonIsAnError) {
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
  Json extra = good;
  extra["swizzle"] = 1;
  EXPECT_FALSE(compile_config_from_json(extra).ok());
}

}  // namespace
}  // namespace lathe
