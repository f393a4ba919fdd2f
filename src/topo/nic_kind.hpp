// Which NICs carry rails where no host knows the speed of any, as in clouds and in lstopo's files:
// those of one kind. A rail over a node's management port would set the pace of all. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ho {

// The name with "#" in place of its numbers: "hsi#" of "hsi2", "enP#p#s#f#" of "enP5p1s0f1".
[[nodiscard]] std::string kind_of(std::string_view interface_name);

// hosts[h]: the names of the NICs that host h could use. Of the kinds that every host has, fabrics
// (InfiniBand, Slingshot) come before all others, and then the one with the most NICs; where two
// have as many there is nothing to choose between them. Empty: all NICs are as good.
[[nodiscard]] std::set<std::string> kinds_for_rails(
    const std::vector<std::vector<std::string>>& hosts);

}  // namespace ho
