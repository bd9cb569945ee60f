#include "roofline.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <fstream>

#include "report.h"

namespace lathe::bench {
namespace {

constexpr double kWidth = 860, kHeight = 560, kLeft = 70, kRight = 20, kTop = 50, kBottom = 60;
constexpr struct {
  const char* dtype;
  const char* colour;
} kColours[] = {{"f32", "#1f5fa8"}, {"f16", "#2a8a4a"},  {"bf16", "#b3541e"},
                {"i8", "#7a3fa0"},  {"q4_0", "#b8860b"}, {"q4_0_int8", "#c0392b"}};

const char* colour_of(const std::string& dtype) {
  for (const auto& row : kColours)
    if (dtype == row.dtype) return row.colour;
  return "#444444";
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...) {
  char buffer[1024];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof(buffer), text, arguments);
  va_end(arguments);
  return buffer;
}

// A logarithmic axis. Its ends and ticks are whole powers of `base`.
struct Axis {
  Axis(double least, double most, double powers_of, double from_position, double to_position)
      : base(powers_of),
        low(std::floor(std::log(least) / std::log(base))),
        high(std::max(low + 1, std::ceil(std::log(most) / std::log(base)))),
        from(from_position),
        to(to_position) {}
  double at(double value) const {
    return from + (std::log(value) / std::log(base) - low) / (high - low) * (to - from);
  }
  double least() const { return std::pow(base, low); }
  double most() const { return std::pow(base, high); }
  double base, low, high, from, to;
};

class Plot {
 public:
  explicit Plot(const Roofline& r)
      : r_(r),
        x_(least(&RooflinePoint::intensity), most(&RooflinePoint::intensity, 0), 4, kLeft, kWidth - kRight),
        y_(lowest() * 1e-9, most(&RooflinePoint::flops, r.fma_peak) * 1e-9, 4, kHeight - kBottom, kTop) {}

  std::string text() {
    out_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"%g\" height=\"%g\" fill=\"white\"/>\n",
        kWidth, kHeight, kWidth, kHeight);
    const std::string threads =
        r_.threads == 0 ? "" : format(", %d thread%s", r_.threads, r_.threads == 1 ? "" : "s");
    out_ += format("<text x=\"%g\" y=\"24\" font-size=\"15\">%s%s</text>\n", kLeft,
                   escaped(r_.machine).c_str(), threads.c_str());
    ticks();
    roof();
    for (const RooflinePoint& p : r_.points) point(p);
    legend();
    return out_ + "</svg>\n";
  }

 private:
  double least(double RooflinePoint::*field) const {
    double x = 1e300;
    for (const RooflinePoint& p : r_.points) x = std::min(x, p.*field);
    return x;
  }
  double most(double RooflinePoint::*field, double x) const {
    for (const RooflinePoint& p : r_.points) x = std::max(x, p.*field);
    return x;
  }
  double lowest() const {
    double x = least(&RooflinePoint::flops);
    for (const RooflinePoint& p : r_.points)
      if (p.peer_flops > 0) x = std::min(x, p.peer_flops);
    return x;
  }

  void line(double x0, double y0, double x1, double y1, const char* style) {
    out_ += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x0, y0, x1, y1, style);
  }

  void ticks() {
    constexpr char kGrid[] = "stroke=\"#dddddd\"";
    for (double p = x_.low; p <= x_.high; ++p) {
      const double value = std::pow(x_.base, p), x = x_.at(value);
      line(x, kTop, x, kHeight - kBottom, kGrid);
      out_ += format("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", x,
                     kHeight - kBottom + 18, value);
    }
    for (double p = y_.low; p <= y_.high; ++p) {
      const double value = std::pow(y_.base, p), y = y_.at(value);
      line(kLeft, y, kWidth - kRight, y, kGrid);
      out_ += format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", kLeft - 6, y + 4,
                     value < 1 ? 3 : 0, value);
    }
    out_ += format("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">operations per byte</text>\n",
                   (kLeft + kWidth - kRight) / 2, kHeight - 20);
    out_ += format("<text transform=\"translate(18 %g) rotate(-90)\" text-anchor=\"middle\">GFLOP/s</text>\n",
                   (kTop + kHeight - kBottom) / 2);
  }

  // The ceiling: bandwidth times intensity, at most the peak rate.
  void roof() {
    constexpr char kRoof[] = "stroke=\"#222222\" stroke-width=\"2\"";
    const double ridge = std::clamp(r_.fma_peak / r_.read_bandwidth, x_.least(), x_.most());
    const double start = std::max(x_.least(), y_.least() * 1e9 / r_.read_bandwidth);
    const double peak = y_.at(r_.fma_peak * 1e-9);
    if (start < ridge)
      line(x_.at(start), y_.at(start * r_.read_bandwidth * 1e-9), x_.at(ridge),
           y_.at(std::min(ridge * r_.read_bandwidth, r_.fma_peak) * 1e-9), kRoof);
    line(x_.at(ridge), peak, kWidth - kRight, peak, kRoof);
    out_ += format("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s %.1f GFLOP/s</text>\n", kWidth - kRight,
                   peak - 6, r_.peak_name.c_str(), r_.fma_peak * 1e-9);
    out_ += format("<text x=\"%.1f\" y=\"%.1f\">read %.1f GB/s</text>\n", x_.at(start) + 36,
                   y_.at(start * r_.read_bandwidth * 1e-9) - 4, r_.read_bandwidth * 1e-9);
  }

  void point(const RooflinePoint& p) {
    const char* colour = colour_of(p.dtype);
    const double x = x_.at(p.intensity);
    if (p.peer_flops > 0)
      out_ += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"none\" stroke=\"%s\"/>\n", x,
                     y_.at(p.peer_flops * 1e-9), colour);
    out_ += format(
        "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%s %s: %.1f GFLOP/s</title></circle>\n",
        x, y_.at(p.flops * 1e-9), colour, escaped(p.dtype).c_str(), escaped(p.label).c_str(), p.flops * 1e-9);
  }

  void legend() {
    double x = kLeft;
    for (const auto& row : kColours) {
      if (std::none_of(r_.points.begin(), r_.points.end(),
                       [&](const RooflinePoint& p) { return p.dtype == row.dtype; }))
        continue;
      out_ += format("<circle cx=\"%g\" cy=\"38\" r=\"4\" fill=\"%s\"/><text x=\"%g\" y=\"42\">%s</text>\n",
                     x + 4, row.colour, x + 14, row.dtype);
      x += 90;
    }
    out_ += format(
        "<circle cx=\"%g\" cy=\"38\" r=\"4\" fill=\"none\" stroke=\"#444444\"/>"
        "<text x=\"%g\" y=\"42\">best peer</text>\n",
        x + 4, x + 14);
  }

  const Roofline& r_;
  Axis x_, y_;
  std::string out_;
};

}  // namespace

std::string Roofline::svg() const { return Plot(*this).text(); }

bool Roofline::write(const std::string& file) const {
  if (file.empty() || points.empty()) return true;
  std::ofstream out(file);
  out << svg();
  out.close();
  if (!out) {
    std::fprintf(stderr, "cannot write %s\n", file.c_str());
    return false;
  }
  std::printf("roofline: %s\n", file.c_str());
  return true;
}

}  // namespace lathe::bench
