// fp8 with block scales on Hopper's warpgroup instructions: every form of kernel and layout of scales, with edges along
// M, N and K, against float64.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "block_scaled_product.h"
#include "candidates.h"

namespace lathe::conformance {
namespace {

using reference::ScaledElements;

class ScaledForms : public BlockScaled {
 protected:
  void SetUp() override {
    BlockScaled::SetUp();
    if (IsSkipped()) return;
    const ScaledElements& f = *scaled_format("f8_128");
    ScaledProduct product(aligned_case(f, f, 64, 64, 128), &random_);
    if (candidates(product).empty()) GTEST_SKIP() << "the device has no warpgroup instructions";
  }
  std::vector<nlohmann::json> candidates(const ScaledProduct& product) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& candidate : legal_candidates(device(), product.desc))
      if (candidate["config"].value("kernel", "") == "wgmma") found.push_back(candidate);
    return found;
  }
  // Operands whose rows are aligned to 16 bytes, which tensor copies need.
  ScaledCase aligned_case(const ScaledElements& a, const ScaledElements& b, int64_t m, int64_t n, int64_t k) {
    ScaledCase c;
    c.m = c.a.lines = m, c.b.lines = n, c.a.k = c.b.k = k;
    c.a.batch = c.b.batch = m * n * k < 8 << 20 ? one_of({1, 2}) : 1;
    c.a.shared_scales = random_.below(4) == 0, c.b.shared_scales = random_.below(4) == 0;
    c.a.format = &a, c.b.format = &b;
    c.a.padding = one_of({0, 16}), c.b.padding = one_of({0, 128});
    c.a.scale_padding = one_of({0, 3}), c.b.scale_padding = one_of({0, 5});
    c.a.global = random_.below(2) != 0, c.b.global = random_.below(2) != 0;
    c.out = random_.below(2) != 0 ? LATHE_BF16 : LATHE_F32;
    return c;
  }
  // The best candidate of every form: forms differ in the number of warpgroups, in clusters, in the way to merge splits
  // and in whether the product is transposed. On an emulated device only a few forms, drawn at random.
  std::vector<nlohmann::json> forms(const ScaledProduct& product) {
    std::vector<nlohmann::json> found;
    std::set<std::string> seen;
    for (const nlohmann::json& candidate : candidates(product)) {
      std::string form;
      for (const char* field : {"threads", "cluster_m", "cluster_n", "split", "transposed"})
        absl::StrAppend(&form, field, "=", candidate["config"].value(field, 0), " ");
      if (seen.insert(form).second) found.push_back(candidate);
    }
    for (size_t i = found.size(); i > 1; --i)
      std::swap(found[i - 1], found[static_cast<size_t>(random_.below(static_cast<int64_t>(i)))]);
    found.resize(std::min(found.size(), static_cast<size_t>(quick_or(3, 1000))));
    return found;
  }
  void expect_forms(const ScaledCase& c, void (*change)(ScaledProduct&) = nullptr) {
    if (leaves_out({c.m, c.b.lines, c.b.k})) return;
    SCOPED_TRACE(c.text());
    ScaledProduct product(c, &random_);
    if (change != nullptr) change(product);
    product.refresh();
    const std::vector<nlohmann::json> all = forms(product);
    ASSERT_FALSE(all.empty());
    for (const nlohmann::json& form : all) {
      if (is_over()) return;
      SCOPED_TRACE(form["config"].dump());
      lathe_tuning tuning = LATHE_TUNING_INIT;
      tuning.candidate = form.value("rank", 0);
      product.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
      ASSERT_LATHE_OK(product.run(device()));
      ASSERT_EQ(product.check(), "");
    }
  }
};

TEST_F(ScaledForms, EveryLayoutOfScalesWithEdges) {
  int64_t i = 0;
  for (const char* name : {"f8_128", "f8_128_e8m0", "mxf8", "mxf8_e5m2"})
    for (const lathe_scale_layout layout : kLayouts)
      for (const int64_t lines_each : {128, 1}) {
        const ScaledElements& f = *scaled_format(name);
        if ((lines_each > 1 && !f.takes_tall) || !has_layout(f, layout, lines_each)) continue;
        constexpr int64_t kShapes[][2] = {{70, 264}, {40, 136}, {130, 72}, {200, 104}, {16, 264}};
        const auto& [m, n] = kShapes[i++ % 5];
        ScaledCase c = aligned_case(f, f, m, n, f.takes_tall ? 640 : 416);
        c.b.layout = layout, c.b.lines_each = lines_each;
        c.a.layout = has_layout(f, layout, 1) ? layout : LATHE_SCALES_BY_LINE;
        expect_forms(c);
      }
}

TEST_F(ScaledForms, EveryDepth) {
  for (const int64_t k : {128, 256, 7168})
    for (const int64_t lines_each : {128, 1})
      for (const int64_t m : {24, 136}) {
        if (is_quick() && k > 1000 && m > 100) continue;
        const ScaledElements& f = *scaled_format("f8_128");
        ScaledCase c = aligned_case(f, f, m, k > 1000 ? 72 : 264, k);
        c.a.layout = LATHE_SCALES_BY_BLOCK;
        c.b.lines_each = lines_each;
        expect_forms(c);
      }
}

TEST_F(ScaledForms, AAndBOfDifferentFormats) {
  const char* kPairs[][2] = {
      {"f8_128", "mxf8"}, {"mxf8", "f8_128"}, {"f8_128_e8m0", "mxf8_e5m2"}, {"f8_128", "f8_128_e8m0"}};
  for (const auto& [a, b] : kPairs)
    for (const int64_t m : {24, 100}) {
      ScaledCase c = aligned_case(*scaled_format(a), *scaled_format(b), m, 200, 384);
      if (c.b.format->takes_tall) c.b.lines_each = 128;
      expect_forms(c);
    }
}

// A NaN among A's scales reaches its row, one among B's its columns.
TEST_F(ScaledForms, NanScales) {
  for (const char* name : {"f8_128", "f8_128_e8m0", "mxf8"})
    for (const int64_t m : {24, 100}) {
      const ScaledElements& f = *scaled_format(name);
      ScaledCase c = aligned_case(f, f, m, 200, 384);
      if (f.takes_tall) c.b.lines_each = 128;
      expect_forms(c, [](ScaledProduct& p) {
        const double nan = p.a().spec().format->scale == LATHE_F32 ? NAN : 255;
        p.a().set_scale(0, 17, 1, nan);
        p.b().set_scale(0, 130, 2, nan);
      });
    }
}

}  // namespace
}  // namespace lathe::conformance
