#include "shm_ranks.hpp"

#include <stdexcept>
#include <thread>

namespace ho::conformance {
namespace {

Result<std::unique_ptr<ShmTransport>> make(const ShmOptions& options, Exchange& ranks) {
  const auto exchange = [&](std::span<const std::byte> mine) {
    return ranks.exchange(options.self.value(), mine);
  };
  return ShmTransport::create(options, exchange, deadline_after(std::chrono::minutes(2)));
}

}  // namespace

ShmOptions options_of(const ShmCase& config, GlobalRank self, uint32_t world_size) {
  ShmOptions options;
  options.self = self;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    options.members.emplace_back(rank);
  }
  options.ring_bytes = config.ring_bytes;
  options.single_copy_min_bytes = config.single_copy_min_bytes;
  options.single_copy = config.single_copy;
  options.job_id = 4711;
  return options;
}

UnderTest shm_under_test(const ShmCase& config) {
  UnderTest under_test;
  under_test.make = [config](GlobalRank self,
                             uint32_t world_size,
                             Exchange& exchange) -> Result<std::unique_ptr<Transport>> {
    HORING_ASSIGN(auto transport, make(options_of(config, self, world_size), exchange));
    return std::unique_ptr<Transport>(std::move(transport));
  };
  under_test.reports_lost_peer = false;  // the control plane does
  under_test.opens_at_once = true;
  return under_test;
}

std::vector<std::unique_ptr<ShmTransport>> make_all(const ShmCase& config, uint32_t world_size) {
  Exchange exchange(world_size);
  std::vector<std::unique_ptr<ShmTransport>> transports(world_size);
  std::vector<Status> errors(world_size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = make(options_of(config, GlobalRank(rank), world_size), exchange);
      errors[rank] = made.status();
      if (made.ok()) {
        transports[rank] = std::move(*made);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Status& error : errors) {
    if (!error.ok()) {
      throw std::runtime_error(error.to_string());
    }
  }
  return transports;
}

}  // namespace ho::conformance
