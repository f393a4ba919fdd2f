#include "core/driver/process_text.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "auth/printable.hpp"

namespace ho::plugin {
namespace {

constexpr size_t kHostBytes = 40;
constexpr size_t kHostIdBytes = 40;
constexpr size_t kRankBytes = 10;
constexpr std::array kRankVariables{"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"};

std::string value_of(const char* name, size_t max_bytes) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : shortened(printable(value, std::strlen(value)), max_bytes);
}

std::string host_name() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return printable(host.data(), std::strlen(host.data()));
}

std::string host_id() {
  return value_of("NCCL_HOSTID", kHostIdBytes);
}

// "node1, NCCL_HOSTID a"
std::string host_and_id(const std::string& host, const std::string& id) {
  return shortened(host, kHostBytes) + (id.empty() ? "" : ", NCCL_HOSTID " + id);
}

// "RANK 3", or "" where no launcher says it.
std::string rank_text() {
  for (const char* const name : kRankVariables) {
    if (const std::string rank = value_of(name, kRankBytes); !rank.empty()) {
      return "RANK " + rank;
    }
  }
  return {};
}

}  // namespace

std::string host_text() {
  const std::string rank = rank_text();
  return host_and_id(host_name(), host_id()) + (rank.empty() ? "" : ", " + rank);
}

std::string host_and_id_text() {
  return host_and_id(host_name(), host_id());
}

std::string process_text() {
  return host_text() + ", pid " + std::to_string(::getpid());
}

std::string rank_on_host_text(size_t max_bytes) {
  const std::string rank = rank_text();
  return on_host_text(
      rank.empty() ? "pid " + std::to_string(::getpid()) : rank, host_name(), host_id(), max_bytes);
}

std::string on_host_text(const std::string& who,
                         const std::string& host,
                         const std::string& id,
                         size_t max_bytes) {
  const std::string start = who + " on ";
  const std::string label = host.substr(0, host.find('.'));
  for (const std::string& host_part : {host_and_id(host, id), host_and_id(label, id), label}) {
    if (start.size() + host_part.size() <= max_bytes) {
      return start + host_part;
    }
  }
  constexpr size_t kMinBytes = 8;  // of a name that is shortened
  return start.size() + kMinBytes > max_bytes ? shortened(start + label, max_bytes)
                                              : start + shortened(label, max_bytes - start.size());
}

}  // namespace ho::plugin
