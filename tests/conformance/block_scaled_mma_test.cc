// fp8 and fp4 with block scales on matrix instructions ("mma"): tiles of every pair of formats of A and B, with edges
// along M, N and K, against float64.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "block_scaled_product.h"

namespace lathe::conformance {
namespace {

using reference::ScaledElements;
using reference::ScaledSpec;

class ScaledTiles : public BlockScaled {
 protected:
  void SetUp() override {
    BlockScaled::SetUp();
    if (IsSkipped()) return;
    ScaledProduct product(aligned_case("mxf8", "mxf8", 64, 64, 128), &random_);
    if (tiles(product).empty()) GTEST_SKIP() << "the device has no matrix instructions of this family";
  }
  // `a`: a format with scales, or "f16", "bf16".
  ScaledCase aligned_case(const std::string& a, const char* b, int64_t m, int64_t n, int64_t k) {
    ScaledCase c;
    c.b.format = scaled_format(b);
    c.m = m, c.b.lines = n, c.b.k = k;
    if (a == "f16" || a == "bf16") {
      c.a_dtype = a == "f16" ? LATHE_F16 : LATHE_BF16;
    } else {
      c.a.format = scaled_format(a.c_str());
      c.a.lines = m, c.a.k = k;
    }
    if (c.b.format->takes_tall) c.b.lines_each = one_of({1, 128});
    return c;
  }
  lathe_scale_layout some_layout(const ScaledElements& f, int64_t lines_each) {
    lathe_scale_layout layout;
    do layout = kLayouts[random_.below(4)];
    while (!has_layout(f, layout, lines_each));
    return layout;
  }
  // Edges, strides and layouts at random.
  ScaledCase random_case(const std::string& a, const char* b) {
    const int64_t block = std::max<int64_t>(32, scaled_format(b)->block);
    const bool of_a = a != "f16" && a != "bf16";
    const int64_t least = of_a ? std::max(block, scaled_format(a.c_str())->block) : block;
    ScaledCase c = aligned_case(a, b, one_of({1, 13, 16, 40, 67, 101}), one_of({1, 7, 31, 64, 97, 128}),
                                least * one_of({1, 1, 3, least == 128 ? 5 : 9}));
    c.b.batch = one_of({1, 1, 2});
    c.b.padding = one_of({0, 0, 128});
    c.b.scale_padding = one_of({0, 3});
    c.b.misalign = static_cast<size_t>(one_of({0, 0, 0, 2, 8}));
    c.b.global = random_.below(3) == 0;
    c.b.shared_scales = random_.below(4) == 0;
    c.b.layout = some_layout(*c.b.format, c.b.lines_each);
    c.out = random_.below(2) != 0 ? LATHE_BF16 : LATHE_F32;
    if (of_a) {
      c.a.batch = c.b.batch;
      c.a.padding = one_of({0, 0, 6, 32});
      c.a.scale_padding = one_of({0, 5});
      c.a.misalign = static_cast<size_t>(one_of({0, 0, 0, 2}));
      c.a.global = random_.below(3) == 0;
      c.a.layout = some_layout(*c.a.format, 1);
    }
    if (c.a.misalign + c.b.misalign != 0) {
      // The candidates come from a plan, which knows no pointers. So rows of D are misaligned if a pointer is.
      c.b.lines |= 1;
      c.m = std::max<int64_t>(c.m, 2);
      if (of_a) c.a.lines = c.m;
    }
    return c;
  }
  std::vector<nlohmann::json> tiles(ScaledProduct& product) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& candidate : product.candidates(device())) {
      const std::string kernel = candidate["config"].value("kernel", "");
      if (kernel == "mma" || kernel == "mma32") found.push_back(candidate);
    }
    return found;
  }
  // Multiplies with a few of the tiles, drawn at random.
  void expect(const ScaledCase& c, void (*change)(ScaledProduct&) = nullptr) {
    SCOPED_TRACE(c.text());
    ScaledProduct product(c, &random_);
    if (change != nullptr) change(product);
    product.refresh();
    std::vector<nlohmann::json> all = tiles(product);
    ASSERT_FALSE(all.empty());
    for (int64_t i = 0; i < quick_or(1, 6) && !all.empty(); ++i) {
      const auto drawn = all.begin() + random_.below(static_cast<int64_t>(all.size()));
      const nlohmann::json tile = *drawn;
      all.erase(drawn);
      SCOPED_TRACE(tile["config"].dump());
      lathe_tuning tuning = LATHE_TUNING_INIT;
      tuning.candidate = tile.value("rank", 0);
      product.desc.next = reinterpret_cast<const lathe_chain*>(&tuning);
      ASSERT_LATHE_OK(product.run(device()));
      ASSERT_EQ(product.check(), "");
    }
  }
};

// The pairs in an order of their own in each run, so that a short run tests some of all.
TEST_F(ScaledTiles, EveryPairOfFormats) {
  std::vector<std::pair<std::string, const char*>> pairs;
  for (const ScaledElements& b : reference::scaled_elements()) {
    for (const ScaledElements& a : reference::scaled_elements()) pairs.push_back({a.name, b.name});
    for (const char* a : {"f16", "bf16"}) pairs.push_back({a, b.name});
  }
  for (size_t i = pairs.size(); i > 1; --i)
    std::swap(pairs[i - 1], pairs[static_cast<size_t>(random_.below(static_cast<int64_t>(i)))]);
  for (const auto& [a, b] : pairs) {
    const ScaledCase c = random_case(a, b);
    if (!leaves_out({c.m, c.b.lines})) expect(c);
  }
}

// A NaN among A's scales reaches its row, one among B's its columns. The last block of K is not whole stages.
TEST_F(ScaledTiles, NanScales) {
  for (const char* name : {"mxf8", "f8_128", "nvf4", "f8_128_e8m0", "mxf4", "mxf8_e5m2"}) {
    ScaledCase c = aligned_case(name, name, 33, 70, 3 * std::max<int64_t>(32, scaled_format(name)->block));
    if (leaves_out({c.m, c.b.lines})) continue;
    expect(c, [](ScaledProduct& p) {
      const lathe_dtype scale = p.a().spec().format->scale;
      const double nan = scale == LATHE_F32 ? NAN : scale == LATHE_F8_E8M0 ? 255 : 0x7f;
      p.a().set_scale(0, 17, 1, nan);
      p.b().set_scale(0, 66, 2, nan);
    });
  }
}

// From 2^112 on a power of two multiplies the codes, else their sums.
TEST_F(ScaledTiles, LargeScales) {
  for (const char* name : {"mxf8", "mxf4"}) {
    ScaledCase c = aligned_case("f16", name, 16, 40, 96);
    if (leaves_out({c.m, c.b.lines})) continue;
    expect(c, [](ScaledProduct& p) {
      for (int64_t line = 0; line < 40; ++line)
        for (int64_t block = 0; block < 3; ++block) p.b().set_scale(0, line, block, 237 + line % 3);
    });
  }
}

}  // namespace
}  // namespace lathe::conformance
