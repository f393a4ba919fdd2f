// What a user gave that cannot be.
#pragma once

#include <string>
#include <utility>

#include "base/status.hpp"

namespace paro::tool {

[[nodiscard]] inline ho::Status invalid(std::string message) {
  return {ho::StatusCode::kInvalidArgument, std::move(message)};
}

}  // namespace paro::tool
