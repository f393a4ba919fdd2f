// libhoring's communicators as the runtime holds them, and what ranks tell one another over them:
// a few numbers each, in host memory, whatever moves the data of states.
#pragma once

#include <horing.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"

namespace paro {

// HO_OK, or the library's last error.
[[nodiscard]] ho::Status checked(ho_status status);

struct DestroyComm {
  void operator()(ho_comm* comm) const { ho_comm_destroy(comm); }
};
using OwnedComm = std::unique_ptr<ho_comm, DestroyComm>;

// Values of every rank, one after the other; every rank passes the same number of them. A timeout
// of 0, here and below, is the communicator's.
[[nodiscard]] ho::Result<std::vector<uint64_t>> all_gather_values(ho_comm* comm,
                                                                  std::span<const uint64_t> values,
                                                                  uint64_t timeout_ms = 0);
// Until all ranks have come.
[[nodiscard]] ho::Status barrier(ho_comm* comm, uint64_t timeout_ms);

// all_gather_values() under way. Both spans stay where they are until it is joined.
class GatheredValues {
 public:
  GatheredValues() = default;
  GatheredValues(const GatheredValues&) = delete;
  GatheredValues& operator=(const GatheredValues&) = delete;
  // Waits, within its deadline.
  ~GatheredValues() { static_cast<void>(join()); }

  // Once.
  [[nodiscard]] ho::Status begin(ho_comm* comm,
                                 std::span<const uint64_t> mine,
                                 std::span<uint64_t> all,
                                 uint64_t timeout_ms);
  // Never blocks: all values have come. false, too, where it cannot be known; join() says why.
  [[nodiscard]] bool over();
  // Blocks until they have.
  [[nodiscard]] ho::Status join();

 private:
  ho_request* request_ = nullptr;
};

}  // namespace paro
