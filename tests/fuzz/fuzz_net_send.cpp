// What a receiver writes: the places that it announces.
#include <array>

#include "core/builtin/send_comm.hpp"
#include "net_connections.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ho::plugin::SendComm comm(fuzz::connections_with(data, size));
  const std::array<std::byte, 16> message{};
  for (int32_t tag = -1; tag < 3; ++tag) {
    ho::plugin::Request* request = nullptr;
    if (comm.isend(message, tag, &request) != ho::plugin::Reply::kSuccess) {
      break;
    }
    int32_t done = 0;
    static_cast<void>(request != nullptr ? comm.test(*request, &done, nullptr)
                                         : ho::plugin::Reply::kSuccess);
  }
  return 0;
}
