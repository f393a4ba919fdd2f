#include "core/process_text.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "auth/printable.hpp"

namespace ho::plugin {
namespace {

constexpr size_t kHostBytes = 28;
constexpr size_t kValueBytes = 12;
constexpr std::array kRankVariables{"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"};

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : printable(value, kValueBytes);
}

}  // namespace

std::string host_text() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  std::string text = printable(host.data(), kHostBytes);
  if (const std::string id = value_of("NCCL_HOSTID"); !id.empty()) {
    text += ", NCCL_HOSTID " + id;
  }
  for (const char* const name : kRankVariables) {
    if (const std::string rank = value_of(name); !rank.empty()) {
      text += ", RANK " + rank;
      break;
    }
  }
  return text;
}

std::string process_text() {
  return host_text() + ", pid " + std::to_string(::getpid());
}

}  // namespace ho::plugin
