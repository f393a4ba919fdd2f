// Errors of the library as exceptions, for tests off the main thread.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/status.hpp"

namespace ho::test {

inline void must_be_ok(const Status& status) {
  if (!status.ok()) {
    throw std::runtime_error(status.to_string());
  }
}

template <typename T>
T must_have(Result<T> result) {
  must_be_ok(result.status());
  return std::move(result).value();
}

}  // namespace ho::test
