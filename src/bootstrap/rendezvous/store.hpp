// A key-value store that all ranks reach, as torch.distributed's. Whoever can read or write it can
// join the job.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace ho {

// Called by the thread that creates a communicator, only while it does.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  [[nodiscard]] virtual Status set(const std::string& key, const std::string& value) = 0;
  // Until the key is there; kTimeout.
  [[nodiscard]] virtual Status wait(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Of a key that is there. A value of more bytes is an error.
  [[nodiscard]] virtual Result<std::string> get(const std::string& key, size_t max_bytes) = 0;
};

}  // namespace ho
