// The host's errors: what the plugin was called with, and what it returned.
#pragma once

#include <stdexcept>
#include <string>

#include "abi/common.hpp"

namespace ho::nccl_host {

class HostError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The plugin refused a call.
class PluginError : public HostError {
 public:
  PluginError(const std::string& call, nccl_abi::Result result)
      : HostError(call + ": the plugin answered " + std::to_string(static_cast<int>(result))),
        result_(result) {}
  [[nodiscard]] nccl_abi::Result result() const { return result_; }

 private:
  nccl_abi::Result result_;
};

inline void require(nccl_abi::Result result, const std::string& call) {
  if (result != nccl_abi::Result::kSuccess) {
    throw PluginError(call, result);
  }
}

// What the plugin promises by its interface.
inline void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw HostError("not so: " + promise);
  }
}

}  // namespace ho::nccl_host
