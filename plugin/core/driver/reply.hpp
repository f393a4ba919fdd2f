// How a call of NCCL's ends. The numbers are NCCL's (plugin/abi checks them); a forwarded plugin
// may return others, which pass through as they are.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.hpp"
#include "base/status.hpp"

namespace ho::plugin {

enum class Reply : int32_t {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// For messages. A number that NCCL has given no name is "an unknown error".
[[nodiscard]] constexpr std::string_view to_string(Reply reply) {
  constexpr Names<8> kNames{"success",
                            "a CUDA error",
                            "a system error",
                            "an internal error",
                            "an invalid argument",
                            "an invalid usage",
                            "an error of the other side",
                            "that it is in progress"};
  static_assert(static_cast<size_t>(Reply::kInProgress) + 1 == kNames.size());
  return name_in(kNames, reply, "an unknown error");
}

// The reply that a status stands for. Its text is for the log: NCCL has no place for it.
[[nodiscard]] constexpr Reply reply_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return Reply::kSuccess;
    case StatusCode::kInvalidArgument:
      return Reply::kInvalidArgument;
    case StatusCode::kMismatch:
    case StatusCode::kUnsupported:
      return Reply::kInvalidUsage;
    case StatusCode::kTimeout:
    case StatusCode::kAborted:
    case StatusCode::kPeerLost:
    case StatusCode::kConnection:
    case StatusCode::kUnauthenticated:
    case StatusCode::kProtocol:
      return Reply::kRemoteError;
    case StatusCode::kSystem:
    case StatusCode::kOutOfMemory:
      return Reply::kSystemError;
    case StatusCode::kInternal:
      return Reply::kInternalError;
  }
  return Reply::kInternalError;
}

}  // namespace ho::plugin
