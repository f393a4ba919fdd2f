#include "topo/host_identity.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>

#include "base/env.hpp"

namespace ho {
namespace {

constexpr size_t kMaxHostIdBytes = 255;

// The link reads "net:[4026531840]"; the identity takes "net4026531840".
Result<std::string> namespace_number(const std::string& proc_root, const std::string& kind) {
  const std::string path = proc_root + "/self/ns/" + kind;
  std::array<char, 128> text{};
  const ssize_t length = readlink(path.c_str(), text.data(), text.size() - 1);
  if (length < 0) {
    return system_error(
        "readlink(" + path + "), for the host identity; HORING_HOST_ID overrides it", errno);
  }
  std::string number = kind;
  for (const char c : std::string_view(text.data(), static_cast<size_t>(length))) {
    if (c >= '0' && c <= '9') {
      number += c;
    }
  }
  return number;
}

}  // namespace

Result<std::string> host_identity(const std::string& proc_root) {
  if (auto input = env::text_if_set(env::kHostId)) {
    if (input->size() > kMaxHostIdBytes) {
      return invalid("HORING_HOST_ID has " + std::to_string(input->size()) +
                     " characters; at most " + std::to_string(kMaxHostIdBytes) +
                     " are possible, shorten it");
    }
    return std::move(*input);
  }
  const std::string boot_path = proc_root + "/sys/kernel/random/boot_id";
  std::ifstream file(boot_path);
  std::string identity;
  if (!(file >> identity)) {
    return Status(StatusCode::kSystem,
                  "cannot read " + boot_path +
                      " for the host identity; set HORING_HOST_ID to a name of this host");
  }
  for (const char* kind : {"net", "pid", "ipc"}) {
    HORING_ASSIGN(const std::string number, namespace_number(proc_root, kind));
    identity += "." + number;
  }
  return identity;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "unnamed-host";
  }
  return name.data();
}

}  // namespace ho
