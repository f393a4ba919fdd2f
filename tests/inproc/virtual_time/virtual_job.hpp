// All ranks of a job in one thread and in virtual time: their runs (exec/run) over links for device
// memory (transport/staged) over VirtualNetwork, on the double's virtual devices, a device a rank.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.hpp"
#include "cuda_double.hpp"
#include "exec/binding.hpp"
#include "plan/plan.hpp"

namespace ho::test {

struct Case {
  std::string groups;
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kHoRing;
  uint64_t block_count = 0;  // float elements of a block of the plan
  BindingLimits limits{};
  // Bytes per ns: of a NIC; of copies and sums on a device, from a peer's memory too; of the bus
  // between device and host in each direction.
  double between = 1;
  double inside = 10;
  double bus = 10;
  int64_t message_ns = 0;  // until a message inside a group is there
  cuda_double::HostTimes host{};
};

struct Times {
  int64_t end_ns = 0;          // when the last rank has finished
  double between_ns = 0;       // of the NIC that sends most
  double inside_ns = 0;        // of the stream, or the direction of a bus, that moves most
  double block_ns = 0;         // one piece through every stage
  uint64_t pieces = 0;         // that a rank is to move on its device: the most
  double starts = 0;           // copies and kernels that the driver was given, for each rank
  double host_share = 0;       // of the time: in calls of the driver, of the rank that had most
  uint64_t waiting_calls = 0;  // calls of the driver that may wait: 0 once links have their slots
  bool results_are_right = false;
  [[nodiscard]] double bound_ns() const { return between_ns > inside_ns ? between_ns : inside_ns; }
};

// The size of the pieces in which the call of the case moves.
[[nodiscard]] uint64_t piece_bytes_of(const Case& wanted_call);
// Throws where a run fails, or none can go on.
[[nodiscard]] Times run_in_virtual_time(const Case& wanted_call);

}  // namespace ho::test
