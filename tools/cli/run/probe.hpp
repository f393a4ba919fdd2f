// What this machine permits of an emulated cluster, found out by trying each part once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ho {

// What the absence of namespaces means, and what to do.
inline constexpr std::string_view kNoNamespaces =
    "ranks cannot be isolated into nodes. Run as root, permit user namespaces "
    "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone), or in a container add "
    "--privileged";

struct Probe {
  std::string part;  // "bridge"
  bool available = false;
  std::string reason;   // why not
  std::string meaning;  // what its absence means and what to do
};

// In the order in which they depend on each other; ends at the first that makes the rest
// untestable.
[[nodiscard]] Result<std::vector<Probe>> probe_machine();
[[nodiscard]] bool all_available(const std::vector<Probe>& probes);
// A line per part.
[[nodiscard]] std::string to_string(const std::vector<Probe>& probes, bool missing_only);

}  // namespace ho
