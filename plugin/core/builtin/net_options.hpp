// What may be set about the builtin network.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/tcp/pacer.hpp"

namespace ho::plugin {

struct NetOptions {
  // Of one connect() from its first call on, and of accept() between two comms.
  std::chrono::milliseconds connect_timeout{60000};
  // In which whoever reaches a listener has to greet.
  std::chrono::milliseconds greeting_timeout{5000};
  uint32_t streams = 1;               // connections of a comm that this end opens
  std::shared_ptr<tcp::Pacer> pacer;  // null: nothing is paced
};

}  // namespace ho::plugin
