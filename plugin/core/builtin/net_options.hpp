// What may be set about the builtin network.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/driver/turned_off.hpp"
#include "transport/tcp/pacer.hpp"

namespace ho::plugin {

// What moves the data of a comm, once its connections have passed the handshake.
enum class Carrier : uint8_t { kTcp = 0, kUcx = 1, kLinks = 2 };
inline constexpr uint8_t kCarriers = 3;
[[nodiscard]] constexpr std::string_view to_string(Carrier carrier) {
  switch (carrier) {
    case Carrier::kTcp:
      return "TCP";
    case Carrier::kUcx:
      return "UCX";
    case Carrier::kLinks:
      return "TCP with failover";
  }
  return "";
}

struct NetOptions {
  // Of one connect() from its first call on, and of accept() between two comms.
  std::chrono::milliseconds connect_timeout{60000};
  // In which whoever reaches a listener has to finish its handshake.
  std::chrono::milliseconds handshake_timeout{5000};
  Carrier carrier = Carrier::kTcp;    // both ends must have the same
  uint32_t connections = 1;           // connections of a comm that this end opens
  std::shared_ptr<tcp::Pacer> pacer;  // of the paced devices; null: there is none
  // This end cannot work: it connects only to tell the other end why.
  std::optional<TurnedOff> off;
};

}  // namespace ho::plugin
