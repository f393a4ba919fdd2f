#include "cli/run/output.hpp"

#include <utility>

namespace ho {

std::string LinePrefixer::add(std::string_view bytes) {
  if (raw_) {
    return std::string(bytes);
  }
  std::string ready;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t taken = end == std::string_view::npos ? bytes.size() : end + 1;
    held_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool complete = end != std::string_view::npos;
    if (complete || held_.size() > kMaxHeldBytes) {
      ready += (inside_line_ ? "" : prefix_) + std::exchange(held_, {});
      inside_line_ = !complete;
    }
  }
  return ready;
}

std::string LinePrefixer::finish() {
  if (held_.empty() && !inside_line_) {
    return {};
  }
  std::string last = (inside_line_ ? "" : prefix_) + std::exchange(held_, {}) + "\n";
  inside_line_ = false;
  return last;
}

}  // namespace ho
