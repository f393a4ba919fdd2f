#include "bootstrap/messages/rank_names.hpp"

namespace ho {

std::string rank_list(std::span<const uint32_t> ascending, size_t most) {
  std::string text = ascending.size() == 1 ? "rank " : "ranks ";
  size_t listed = 0;
  for (size_t i = 0; i < ascending.size(); ++listed) {
    if (listed == most) {
      return text + " and " + std::to_string(ascending.size() - i) + " more";
    }
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) {
      ++last;
    }
    // A run of two reads better as two numbers.
    if (last - i < 2) {
      last = i;
    }
    text += (listed == 0 ? "" : ", ") + std::to_string(ascending[i]);
    if (last > i) {
      text += "-" + std::to_string(ascending[last]);
    }
    i = last + 1;
  }
  return text;
}

std::string rank_name(uint32_t rank, std::string_view called) {
  return called.empty() ? "rank " + std::to_string(rank) : std::string(called);
}

std::string rank_at_host(uint32_t rank,
                         std::string_view host,
                         uint32_t pid,
                         std::string_view called) {
  return rank_name(rank, called) + " (" + std::string(host) + ", pid " + std::to_string(pid) + ")";
}

}  // namespace ho
