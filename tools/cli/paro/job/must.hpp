// Errors of the runtime as exceptions, for commands that run in a job.
#pragma once

#include <horing/communicator.hpp>
#include <utility>

#include "base/status.hpp"

namespace paro::tool {

inline void must(const ho::Status& status) {
  if (!status.ok()) {
    throw horing::Error(static_cast<ho_status>(status.code()), status.message());
  }
}

template <typename T>
T must(ho::Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

}  // namespace paro::tool
