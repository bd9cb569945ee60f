#include "core/key.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "json_leaves.h"

namespace lathe {
namespace {

ProblemClass base_class() {
  ProblemClass c;
  c.a = c.b = c.d = DType::kF32;
  c.n = 4096;
  c.k = 11008;
  return c;
}
const CompileConfig kConfig = []() -> CompileConfig {
  OuterConfig c;
  c.tile_m = 4, c.tile_n = 512, c.tile_k = 256, c.register_m = 4, c.register_n = 32;
  c.unroll_k = 2, c.lanes = 8;
  return c;
}();
const Target kTarget = {Backend::kCpu, "x86-64", "+avx2,+fma"};
constexpr char kCodegen[] = "0123456789abcdef-llvm22.1.0";

// Checks that every added key differs from all earlier ones in its text and its fingerprint.
class DistinctKeys {
 public:
  void add(const Key& key, const std::string& what) {
    EXPECT_TRUE(texts_.insert(key.text).second) << what << " did not change the key's text";
    EXPECT_TRUE(fingerprints_.insert(key.fingerprint).second) << what << " did not change the fingerprint";
  }

 private:
  std::set<std::string> texts_, fingerprints_;
};

// ProblemClass consists of plain words without padding (asserted in problem.h). So a loop over its words visits
// every field, including fields that are added later.
TEST(KeyTest, ChangesWithEveryWordOfTheClass) {
  DistinctKeys keys;
  const ProblemClass base = base_class();
  keys.add(key_of(base, kConfig, kTarget, kCodegen), "base");
  constexpr size_t kSmall = 18;  // words of 4 bytes, or pairs of 2 bytes; all further members have 8 bytes
  for (size_t word = 0; word < kSmall; ++word) {
    int32_t old;
    memcpy(&old, reinterpret_cast<const char*>(&base) + word * 4, 4);
    // Operand types take every value of their enum. All other fields take the values that are valid for all.
    const int32_t values = word >= 1 && word <= 6 ? 6 : 3;
    for (int32_t value = word == 0 ? 1 : 0; value < values; ++value) {
      if (value == old) continue;
      ProblemClass changed = base;
      memcpy(reinterpret_cast<char*>(&changed) + word * 4, &value, 4);
      keys.add(key_of(changed, kConfig, kTarget, kCodegen),
               "word " + std::to_string(word) + " = " + std::to_string(value));
      if (word < 15 || word > 17) continue;
      const int32_t second = old + value * 0x10000;  // the second member of a pair
      if (value == 0) continue;
      memcpy(reinterpret_cast<char*>(&changed) + word * 4, &second, 4);
      keys.add(key_of(changed, kConfig, kTarget, kCodegen),
               "second of word " + std::to_string(word) + " = " + std::to_string(value));
    }
  }
  for (size_t offset = kSmall * 4; offset < sizeof(ProblemClass); offset += 8) {
    for (int64_t value : {int64_t{5}, int64_t{1} << 20, int64_t{1} << 40}) {
      ProblemClass changed = base;
      memcpy(reinterpret_cast<char*>(&changed) + offset, &value, 8);
      keys.add(key_of(changed, kConfig, kTarget, kCodegen),
               "byte " + std::to_string(offset) + " = " + std::to_string(value));
    }
  }
}

TEST(KeyTest, ChangesWithEveryFieldOfTheConfig) {
  DistinctKeys keys;
  const auto add = [&](const std::string& what, const std::function<void(CompileConfig*)>& change) {
    CompileConfig changed = kConfig;
    change(&changed);
    keys.add(key_of(base_class(), changed, kTarget, kCodegen), what);
    EXPECT_FALSE(changed == kConfig) << what;
  };
  keys.add(key_of(base_class(), kConfig, kTarget, kCodegen), "base");
  add("kernel", [](CompileConfig* c) { *c = DotConfig(); });
  for (const auto& [field, value] : kConfig.fields())
    add(field->name, [field = field, value = value](CompileConfig* c) { c->set(field->name, value + 1); });
  for (std::string UkernelRef::*text : {&UkernelRef::function, &UkernelRef::bitcode, &UkernelRef::attributes})
    add("ukernel", [&](CompileConfig* c) { c->ukernel.*text = "another"; });
  for (std::string ExternalRef::*text : {&ExternalRef::provider, &ExternalRef::routine})
    add("external", [&](CompileConfig* c) { c->external.*text = "another"; });
}

TEST(KeyTest, ChangesWithEveryFieldOfTheTargetAndWithTheCodegenId) {
  DistinctKeys keys;
  const auto key = [](const Target& t, absl::string_view id) { return key_of(base_class(), kConfig, t, id); };
  keys.add(key(kTarget, kCodegen), "base");
  for (int field = 0; field < 3; ++field) {
    Target changed = kTarget;
    auto& [backend, arch, features] = changed;
    if (field == 0) backend = Backend::kRocm;
    if (field == 1) arch = "aarch64";
    if (field == 2) features = "+avx2";
    keys.add(key(changed, kCodegen), "target field " + std::to_string(field));
    EXPECT_FALSE(changed == kTarget) << field;
  }
  Target cuda = kTarget;
  cuda.backend = Backend::kCuda;
  keys.add(key(cuda, kCodegen), "backend cuda");
  keys.add(key(kTarget, "another"), "codegen id");
  keys.add(key(kTarget, ""), "empty codegen id");
  for (const char* gfx : {"gfx942", "gfx942:xnack+", "gfx942:sramecc-", "gfx942:sramecc-:xnack+", "gfx90a"})
    keys.add(key(parse_target(gfx).value(), kCodegen), gfx);
}

TEST(KeyTest, FingerprintChangesWithEveryLeafOfTheText) {
  const Key base = key_of(base_class(), kConfig, kTarget, kCodegen);
  DistinctKeys keys;
  keys.add(base, "base");
  int leaves = 0;
  for_each_changed_leaf(Json::parse(base.text), [&](const std::string& path, const Json& changed) {
    ++leaves;
    keys.add(key_from_text(canonical_text(changed)), path);
  });
  const int config_leaves =
      static_cast<int>(kConfig.fields().size()) + 7;  // the kernel, its family and five texts
  EXPECT_EQ(leaves, 30 + config_leaves + 3 + 1);
}

TEST(KeyTest, TextIsCanonicalAndHasNoPathOrDeviceOrdinal) {
  const Key key = key_of(base_class(), kConfig, parse_target("sm_90a").value(), codegen_id());
  const Json json = Json::parse(key.text);
  EXPECT_EQ(json.dump(), key.text);
  std::set<std::string> parts;
  for (const auto& [name, value] : json.items()) parts.insert(name);
  EXPECT_EQ(parts, (std::set<std::string>{"class", "codegen", "config", "target"}));
  EXPECT_EQ(key.text.find('/'), std::string::npos);
  EXPECT_EQ(key.text.find("cuda:"), std::string::npos);
  const Json leaves = json.flatten();
  for (const auto& [path, leaf] : leaves.items())
    for (const char* word : {"path", "ordinal", "device", "index", "directory"})
      EXPECT_EQ(path.find(word), std::string::npos) << path;
}

TEST(KeyTest, FingerprintDependsOnlyOnTheText) {
  const Key key = key_of(base_class(), kConfig, kTarget, kCodegen);
  const Key again = key_from_text(key.text);
  EXPECT_EQ(again.fingerprint, key.fingerprint);
  EXPECT_EQ(again, key);
  EXPECT_EQ(key.fingerprint.size(), 32u);
  EXPECT_EQ(key.fingerprint.find_first_not_of("0123456789abcdef"), std::string::npos);
  // XXH3-128 of the empty text in canonical (big-endian) byte order, from the test vectors of the algorithm.
  EXPECT_EQ(key_from_text("").fingerprint, "99aa06d3014798d86001c324468d497f");
}

TEST(KeyTest, CodegenIdContainsTheLlvmVersion) {
  EXPECT_NE(codegen_id().find("-llvm22"), absl::string_view::npos) << codegen_id();
  EXPECT_GT(codegen_id().size(), 20u);
}

}  // namespace
}  // namespace lathe
