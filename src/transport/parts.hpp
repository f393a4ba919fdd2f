// The parts in which a caller gives the payload of a message, or room for it.
#pragma once

#include <span>
#include <string>

#include "base/status.hpp"
#include "transport/transport.hpp"

namespace ho {

template <typename Part>
[[nodiscard]] Status check_parts(const Frame& frame, std::span<const Part> parts) {
  size_t total = 0;
  for (const Part& part : parts) {
    total += part.size();
  }
  if (parts.size() > Link::kMaxParts || total != frame.payload_bytes || total > kMaxPayloadBytes) {
    return {StatusCode::kInternal,
            "a message of " + std::to_string(frame.payload_bytes) + " bytes was given " +
                std::to_string(parts.size()) + " parts with " + std::to_string(total) + " bytes"};
  }
  return {};
}

}  // namespace ho
