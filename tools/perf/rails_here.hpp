// The rail interfaces of this process's node, found without the library, so that the limit against
// which its results are held does not depend on its choices.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

namespace ho::perf {

struct RailAddress {
  std::string name;
  sockaddr_storage address{};  // port 0
  socklen_t length = 0;
};

// Interfaces that are up, have an address and pass the filter (HORING_SOCKET_IFNAME's syntax), in
// natural order of their names (rail2 before rail10). `emulated` is HORING_EMULATED_RAILS; if it is
// set, it is the whole answer. Loopback only where nothing else is left.
[[nodiscard]] std::vector<RailAddress> rails_here(std::string_view filter,
                                                  std::string_view emulated);

[[nodiscard]] bool passes_filter(std::string_view name, std::string_view filter);
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);
// "rail0=127.1.0.1,rail1=127.2.0.1"; entries that are not an address are left out.
[[nodiscard]] std::vector<RailAddress> parse_emulated(std::string_view text);

}  // namespace ho::perf
