#include "job.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "call_memory.hpp"
#include "group/group_map.hpp"
#include "reserved_port.hpp"

namespace ho::test {
namespace {

// Group of each rank. Round robin deals ranks to the groups that still have room.
std::vector<uint32_t> groups_of(const JobOptions& options) {
  const auto map = GroupMap::parse(options.groups).value();
  std::vector<uint32_t> buffer;
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    buffer.push_back(map.group_size(GroupIndex(g)));
  }
  std::vector<uint32_t> groups;
  for (uint32_t g = 0; groups.size() < map.world_size();) {
    if (buffer[g] > 0) {
      groups.push_back(g);
      --buffer[g];
    }
    if (options.round_robin || buffer[g] == 0) {
      g = (g + 1) % map.group_count();
    }
  }
  return groups;
}

std::string run_rank(const ho_comm_options& options, const std::function<void(ho_comm*)>& body) {
  ho_comm* comm = nullptr;
  if (ho_comm_create(&options, &comm) != HO_OK) {
    return std::string("create: ") + ho_last_error_message();
  }
  std::string error;
  try {
    body(comm);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  ho_comm_destroy(comm);
  return error;
}

}  // namespace

void must(ho_status status) {
  if (status != HO_OK) {
    throw std::runtime_error(ho_last_error_message());
  }
}

std::vector<std::string> run_job(const JobOptions& options,
                                 const std::function<void(ho_comm*)>& body) {
  ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);
  ::setenv("HORING_RAILS", std::to_string(options.rails).c_str(), 1);
  const std::vector<uint32_t> groups = groups_of(options);
  const ReservedPort address;
  const std::string rendezvous = address.text();
  std::vector<std::string> errors(groups.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const std::string host = "node" + std::to_string(groups[rank]);
      ho_comm_options comm_options = HO_COMM_OPTIONS_INIT;
      comm_options.rank = static_cast<int32_t>(rank);
      comm_options.world_size = static_cast<int32_t>(groups.size());
      comm_options.store = options.store;
      comm_options.rendezvous = options.store == nullptr ? rendezvous.c_str() : nullptr;
      comm_options.job_key = options.store == nullptr ? "a key for tests only" : nullptr;
      comm_options.host_id = host.c_str();
      comm_options.timeout_ms = options.timeout_ms;
      comm_options.device = device_of(rank);
      errors[rank] = run_rank(comm_options, body);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

}  // namespace ho::test
