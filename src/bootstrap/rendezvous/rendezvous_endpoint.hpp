// Where the ranks find each other, as text: "tcp://HOST:PORT", "file:///PATH", and the contents of
// such a file. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ho {

struct HostPort {
  std::string host;  // a name or a numeric address, without brackets
  uint16_t port = 0;
  friend bool operator==(const HostPort&, const HostPort&) = default;
  [[nodiscard]] std::string to_string() const;  // "[::1]:40"
};

struct RendezvousEndpoint {
  HostPort tcp;      // where path is empty
  std::string path;  // where not: an absolute path
};

// "HOST:PORT" or "[ADDRESS]:PORT"; the port is not 0.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);
[[nodiscard]] Result<RendezvousEndpoint> parse_rendezvous_endpoint(std::string_view text);

// A rendezvous file says whose job's it is and lists every address at which rank 0 listens, the
// likeliest first. A file that is being written, or that is none of ours, is an error; the reader
// tries again later.
struct RendezvousFile {
  std::string job;  // job_identity_from(); "": not known
  std::vector<HostPort> addresses;
  friend bool operator==(const RendezvousFile&, const RendezvousFile&) = default;
};
inline constexpr size_t kMaxRendezvousFileBytes = 8192;
[[nodiscard]] std::string rendezvous_file_text(const RendezvousFile& file);
[[nodiscard]] Result<RendezvousFile> parse_rendezvous_file(std::string_view contents);
// Whether HO-Ring wrote this, in this version or another, or it is empty: rank 0 may replace it.
[[nodiscard]] bool may_replace_rendezvous_file(std::string_view contents);

}  // namespace ho
