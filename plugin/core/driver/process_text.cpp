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

// "node1, NCCL_HOSTID a"
std::string place_text() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  const std::string id = value_of("NCCL_HOSTID", kHostIdBytes);
  return shortened(printable(host.data(), std::strlen(host.data())), kHostBytes) +
         (id.empty() ? "" : ", NCCL_HOSTID " + id);
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
  return place_text() + (rank.empty() ? "" : ", " + rank);
}

std::string process_text() {
  return host_text() + ", pid " + std::to_string(::getpid());
}

std::string rank_on_host_text() {
  const std::string rank = rank_text();
  return (rank.empty() ? "pid " + std::to_string(::getpid()) : rank) + " on " + place_text();
}

}  // namespace ho::plugin
