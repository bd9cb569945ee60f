#include "matmul_summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "contest.h"
#include "report.h"

namespace lathe::bench {
namespace {

using Figure = double MatmulFigures::*;
constexpr struct {
  const char* name;
  Figure figure;
} kFigures[] = {{"best peer", &MatmulFigures::of_best_peer},
                {"f32 roofline", &MatmulFigures::of_roofline},
                {"reading", &MatmulFigures::of_reading},
                {"own f32", &MatmulFigures::of_own_f32},
                {"one thread", &MatmulFigures::of_one_thread}};

constexpr int64_t kAnyM = INT64_MAX;
struct Kind {
  const char* name;
  int64_t m_lo, m_hi;
  Sizes sizes;

  bool has(const MatmulFigures& f) const { return f.sizes == sizes && f.m >= m_lo && f.m <= m_hi; }
};
constexpr Kind kM1 = {"M = 1", 1, 1, Sizes::kLayer}, kSmall = {"M 2..16", 2, 16, Sizes::kLayer},
               kDecode = {"M 2..64", 2, 64, Sizes::kLayer}, kMiddle = {"M 65..511", 65, 511, Sizes::kLayer},
               kPrefill = {"M >= 512", 512, kAnyM, Sizes::kLayer},
               kRagged = {"123x456x51234", 1, kAnyM, Sizes::kRagged},
               kOdd = {"odd sizes", 1, kAnyM, Sizes::kOdd};
constexpr const Kind* kKinds[] = {&kM1, &kSmall, &kDecode, &kMiddle, &kPrefill, &kRagged, &kOdd};

// Bars for the geometric mean and for the worst shape; 0: no bar. For M 2..64 a shape at 95 % of the roofline
// does not count as the worst: it cannot become faster.
struct Bar {
  Element element;
  const Kind* kind;
  Figure figure;
  double mean, worst;
};
constexpr Figure kPeer = &MatmulFigures::of_best_peer, kRoofline = &MatmulFigures::of_roofline,
                 kReading = &MatmulFigures::of_reading, kOwn = &MatmulFigures::of_own_f32,
                 kThreads = &MatmulFigures::of_one_thread;
constexpr double kAtTheRoofline = 0.95;
constexpr Bar kBars[] = {
    {Element::kF32, &kPrefill, kPeer, 1.00, 0.93},
    {Element::kF32, &kPrefill, kRoofline, 0.90, 0},
    {Element::kF32, &kPrefill, kThreads, 1.9, 0},
    {Element::kF32, &kDecode, kPeer, 1.5, 1.0},
    {Element::kF32, &kM1, kReading, 0.95, 0},
    {Element::kF32, &kRagged, kPeer, 1.2, 0},
    {Element::kF32, &kOdd, kPeer, 1.2, 0},
    {Element::kF16, &kM1, kOwn, 1.8, 0},
    {Element::kF16, &kSmall, kOwn, 1.8, 0},
    {Element::kF16, &kPrefill, kOwn, 0.95, 0},
    {Element::kBF16, &kM1, kOwn, 1.8, 0},
    {Element::kBF16, &kSmall, kOwn, 1.8, 0},
    {Element::kBF16, &kPrefill, kOwn, 0.95, 0},
    {Element::kF16Weights, &kM1, kOwn, 1.8, 0},
    {Element::kF16Weights, &kSmall, kOwn, 1.8, 0},
    {Element::kF16Weights, &kPrefill, kOwn, 0.95, 0},
    {Element::kBF16Weights, &kM1, kOwn, 1.8, 0},
    {Element::kBF16Weights, &kSmall, kOwn, 1.8, 0},
    {Element::kBF16Weights, &kPrefill, kOwn, 0.95, 0},
    {Element::kBF16Rounded, &kM1, kOwn, 1.8, 0},
    {Element::kBF16Rounded, &kSmall, kOwn, 1.8, 0},
    {Element::kBF16Rounded, &kPrefill, kOwn, 0.95, 0},
    {Element::kI8, &kPrefill, kOwn, 3.0, 0},
    {Element::kI8, &kM1, kOwn, 3.5, 0},
    {Element::kI8, &kM1, kPeer, 1.1, 0},
    {Element::kI8, &kDecode, kPeer, 1.1, 0},
    {Element::kI8, &kPrefill, kPeer, 1.1, 0},
    {Element::kQ4, &kM1, kOwn, 3.0, 0},
    {Element::kQ4, &kSmall, kOwn, 3.0, 0},
    {Element::kQ4Int8, &kM1, kOwn, 3.0, 0},
    {Element::kQ4Int8, &kSmall, kOwn, 3.0, 0},
};

const Bar* bar_of(Element element, const Kind* kind, Figure figure) {
  for (const Bar& bar : kBars)
    if (bar.element == element && bar.kind == kind && bar.figure == figure) return &bar;
  return nullptr;
}

std::string verdict(const Bar* bar, double mean, double worst_held) {
  if (bar == nullptr) return "";
  const bool met = mean >= bar->mean && worst_held >= bar->worst;
  std::string text = (met ? "met: " : "missed: ") + number(bar->mean, 2);
  if (bar->worst > 0) text += ", worst " + number(bar->worst, 2);
  return text;
}

}  // namespace

bool MatmulSummary::report(const std::string& directory, bool judged) const {
  Table table("matmul, by kind of shape",
              {"dtype", "weights", "shapes", "over", "number", "geometric mean", "worst", "bar"});
  for (const auto& [name, element] : kNamedElements)
    for (const char* weights : {"plain", "packed"})
      for (const Kind* kind : kKinds)
        for (const auto& [over, figure] : kFigures) {
          std::vector<double> ratios;
          double held = HUGE_VAL;
          for (const Row& row : rows_) {
            const MatmulFigures& f = row.figures;
            if (f.element != element || std::strcmp(row.weights, weights) != 0 || !kind->has(f)) continue;
            if (!(f.*figure > 0)) continue;
            ratios.push_back(f.*figure);
            if (kind != &kDecode || f.of_roofline < kAtTheRoofline) held = std::min(held, f.*figure);
          }
          if (ratios.empty()) continue;
          const double mean = geometric_mean(ratios);
          table.add({name, weights, kind->name, over, std::to_string(ratios.size()), number(mean, 3),
                     number(*std::min_element(ratios.begin(), ratios.end()), 3),
                     judged ? verdict(bar_of(element, kind, figure), mean, held) : ""});
        }
  table.print();
  table.write_csv(directory, "matmul_summary.csv");
  return table.is_written();
}

}  // namespace lathe::bench
