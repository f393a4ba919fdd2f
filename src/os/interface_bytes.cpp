#include "os/interface_bytes.hpp"

#include <fstream>
#include <sstream>

namespace ho {

std::map<std::string, InterfaceBytes> interface_bytes() {
  std::stringstream text;
  text << std::ifstream("/proc/self/net/dev").rdbuf();
  return parse_interface_bytes(text.str());
}

// After two lines of headings "  eth0: RECEIVED and seven other counts SENT ..".
std::map<std::string, InterfaceBytes> parse_interface_bytes(std::string_view text) {
  constexpr int kBetween = 7;
  std::map<std::string, InterfaceBytes> found;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const size_t begin = line.find_first_not_of(' ');
    if (colon == std::string::npos) {
      continue;
    }
    std::istringstream counts(line.substr(colon + 1));
    InterfaceBytes bytes;
    uint64_t skipped = 0;
    counts >> bytes.received;
    for (int i = 0; i < kBetween; ++i) {
      counts >> skipped;
    }
    if (counts >> bytes.sent) {
      found[line.substr(begin, colon - begin)] = bytes;
    }
  }
  return found;
}

}  // namespace ho
