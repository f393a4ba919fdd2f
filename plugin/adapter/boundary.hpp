// Where NCCL's calls enter: results, exceptions and logs between its C interface and core.
#pragma once

#include <exception>

#include "abi/common.hpp"
#include "base/log.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

// What NCCL_NET has to be, if anything. Ours whatever network is below: NCCL takes the network of
// the library whose name was asked for.
inline constexpr const char* kNetName = "HO-Ring";

inline nccl_abi::Result result(Reply reply) {
  return static_cast<nccl_abi::Result>(reply);
}

// The boundary to C: nothing is thrown across it.
template <typename Call>
nccl_abi::Result guarded(const Call& call) noexcept {
  try {
    return result(call());
  } catch (const std::exception& error) {
    logger().error("horing plugin: {}", error.what());
  } catch (...) {
    logger().error("horing plugin: something that is no std::exception was thrown");
  }
  return nccl_abi::Result::kInternalError;
}

inline Plugin::Log log_of(nccl_abi::DebugLogger logger) {
  if (logger == nullptr) {
    return {};
  }
  return [logger](Plugin::Level level, const char* text) {
    const auto as = level == Plugin::Level::kWarn   ? nccl_abi::LogLevel::kWarn
                    : level == Plugin::Level::kInfo ? nccl_abi::LogLevel::kInfo
                                                    : nccl_abi::LogLevel::kTrace;
    logger(as, nccl_abi::kLogInit | nccl_abi::kLogNet, "horing", 0, "%s", text);
  };
}

// NCCL's functions for whatever network is below; core passes them on and cannot call them.
inline Host host_of(nccl_abi::DebugLogger logger, nccl_abi::ProfilerCallback profiler) {
  return {reinterpret_cast<HostFunction>(logger),     // NOLINT
          reinterpret_cast<HostFunction>(profiler)};  // NOLINT
}

inline Reply start(const char* interface, nccl_abi::DebugLogger logger) {
  return reply_of(Plugin::instance().start(interface, log_of(logger)).code());
}

}  // namespace ho::plugin
