// The loss over the steps as an SVG.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/train_gpt/progress.hpp"

namespace paro::gpt {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 50;
constexpr double kBottom = 60;
constexpr int kTicks = 5;
constexpr double kSmoothShare = 0.03;  // of the steps, on either side

struct Axis {
  double low;
  double high;
  double first;  // where low is
  double last;
  [[nodiscard]] double at(double value) const {
    return first + (value - low) / (high > low ? high - low : 1) * (last - first);
  }
};

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::vector<double> losses_of(const std::vector<StepLine>& lines) {
  std::vector<double> losses;
  losses.reserve(lines.size());
  for (const StepLine& line : lines) {
    losses.push_back(line.loss);
  }
  return losses;
}

// Means over those that are finite; not finite where the middle one is not.
std::vector<double> smoothed(const std::vector<double>& values) {
  std::vector<double> sums{0};  // of the first 0, 1, 2... values
  std::vector<double> counts{0};
  for (const double value : values) {
    const bool counts_too = std::isfinite(value);
    sums.push_back(sums.back() + (counts_too ? value : 0));
    counts.push_back(counts.back() + (counts_too ? 1 : 0));
  }
  const auto reach = static_cast<size_t>(static_cast<double>(values.size()) * kSmoothShare);
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); ++i) {
    // As many before as after, so that the ends are not bent.
    const size_t near = std::min({reach, i, values.size() - 1 - i});
    const size_t first = i - near;
    const size_t end = i + near + 1;
    means.push_back(std::isfinite(values[i])
                        ? (sums[end] - sums[first]) / (counts[end] - counts[first])
                        : values[i]);
  }
  return means;
}

std::string polyline(const std::vector<StepLine>& lines,
                     const std::vector<double>& values,
                     const Axis& x,
                     const Axis& y,
                     const char* style) {
  std::string points;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      points += format("%.1f,%.1f ", x.at(static_cast<double>(lines[i].step)), y.at(values[i]));
    }
  }
  return "<polyline fill=\"none\" " + std::string(style) + " points=\"" + points + "\"/>\n";
}

std::string grid(const Axis& x, const Axis& y) {
  std::string parts;
  for (int i = 0; i <= kTicks; ++i) {
    const double part = static_cast<double>(i) / kTicks;
    const double loss = y.low + part * (y.high - y.low);
    const double step = std::round(x.low + part * (x.high - x.low));
    parts += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                    x.first,
                    x.last,
                    y.at(loss),
                    y.at(loss));
    parts += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n",
                    x.first - 8,
                    y.at(loss) + 4,
                    loss);
    parts += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
                    x.at(step),
                    y.first + 20,
                    step);
  }
  return parts;
}

}  // namespace

std::string curve_svg(const std::vector<StepLine>& lines) {
  const std::vector<double> losses = losses_of(lines);
  double low = 0;
  double high = 1;
  bool any = false;
  for (const double loss : losses) {
    if (std::isfinite(loss)) {
      low = any ? std::min(low, loss) : loss;
      high = any ? std::max(high, loss) : loss;
      any = true;
    }
  }
  const Axis x{static_cast<double>(lines.front().step),
               static_cast<double>(lines.back().step),
               kLeft,
               kWidth - kRight};
  const Axis y{low, high, kHeight - kBottom, kTop};
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             kWidth,
             kHeight,
             kWidth,
             kHeight) +
         format(
             "<text x=\"%.0f\" y=\"28\" text-anchor=\"middle\" font-size=\"15\">loss per byte by "
             "step, %s</text>\n",
             kWidth / 2,
             lines.back().strategy.c_str()) +
         grid(x, y) + polyline(lines, losses, x, y, "stroke=\"#aec7e8\"") +
         polyline(lines, smoothed(losses), x, y, "stroke=\"#1f77b4\" stroke-width=\"2\"") +
         "</svg>\n";
}

}  // namespace paro::gpt
