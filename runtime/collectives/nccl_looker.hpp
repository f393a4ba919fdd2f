// Asks the driver what of NCCL's collectives is over, in a thread of its own: a call of the driver
// may block while another one waits for room on the device, and then nobody would see a deadline
// pass. A thread that does not come back is left behind with all that it uses.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"

namespace paro {

class NcclLooker {
 public:
  using Events = std::vector<std::shared_ptr<const ho::device::Event>>;
  using Answers = std::vector<ho::Result<bool>>;

  // `timeout`: how long one answer is waited for, and the thread when this ends.
  NcclLooker(std::shared_ptr<const ho::device::Device> device, std::chrono::milliseconds timeout);
  NcclLooker(const NcclLooker&) = delete;
  NcclLooker& operator=(const NcclLooker&) = delete;
  ~NcclLooker();

  // Whether each has passed. Nothing, where the driver does not answer, or has not yet answered
  // whoever requested before. Any thread.
  [[nodiscard]] std::optional<Answers> ask(Events events);

 private:
  struct Shared;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace paro
