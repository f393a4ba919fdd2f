// Checked arguments as the values that the engine takes: a Call without its device's part, and a
// Transfer.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.hpp"
#include "comm/call_arguments.hpp"
#include "comm/call_shape.hpp"
#include "exec/call.hpp"
#include "exec/transfer.hpp"
#include "plan/plan.hpp"

namespace ho {

// All-gathers and reduce-scatters do not queue behind each other, nor behind the rest.
[[nodiscard]] uint8_t channel_of(Collective collective);

class CallMaker {
 public:
  // `communicator`: its number in messages. `timeout`: of calls that bring none.
  CallMaker(const CallShape& shape, uint16_t communicator, std::chrono::milliseconds timeout)
      : shape_(shape), communicator_(communicator), timeout_(timeout) {}

  // All but the sizes of blocks.
  [[nodiscard]] Call begin(const CollectiveCall& requested, Algorithm algorithm) const;
  // With them, where the collective sets them or as the plan cuts the whole.
  [[nodiscard]] Call make(const CollectiveCall& requested,
                          Algorithm algorithm,
                          const Plan& plan) const;
  [[nodiscard]] Transfer transfer(const PointToPointCall& requested) const;

 private:
  CallShape shape_;
  uint16_t communicator_;
  std::chrono::milliseconds timeout_;
};

// The input of kPremulSum, before anything is sent. An all-reduce goes on in its output; other
// operations have a copy until they end: the input may be const.
[[nodiscard]] Status scale_input(Call& call, double scale);

}  // namespace ho
