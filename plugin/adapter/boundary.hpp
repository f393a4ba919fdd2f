// Where NCCL's calls enter: results, exceptions and logs between its C interface and core.
#pragma once

#include <exception>
#include <type_traits>

#include "abi/common.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin {

// What NCCL_NET has to be, if anything. Ours whatever network is below: NCCL takes the network of
// the library whose name was requested.
inline constexpr const char* kNetName = "HO-Ring";

inline nccl_abi::Result result(Reply reply) {
  return static_cast<nccl_abi::Result>(reply);
}

void log_thrown(const char* text) noexcept;

// The boundary to C: nothing is thrown across it.
template <typename Call>
nccl_abi::Result guarded(const Call& call) noexcept {
  try {
    return result(call());
  } catch (const std::exception& error) {
    log_thrown(error.what());
  } catch (...) {
    log_thrown("something that is no std::exception was thrown");
  }
  return nccl_abi::Result::kInternalError;
}

// A call that goes to a method of the object as it is, whatever arguments a version's table gives.
template <auto Object, auto Method, typename... Arguments>
nccl_abi::Result call(Arguments... arguments) noexcept {
  return guarded([&] { return (Object().*Method)(arguments...); });
}

// A member that a table has or has not. Written only where that changes: threads of communicators
// that were initialised before read the table.
template <typename Member>
void offer(Member& member, bool is_there, std::type_identity_t<Member> call) {
  Member const offered = is_there ? call : nullptr;
  if (member != offered) {
    member = offered;
  }
}

// NCCL's functions for whatever network is below; core passes them on and cannot call them.
inline Host host_of(nccl_abi::DebugLogger logger, nccl_abi::ProfilerCallback profiler) {
  return {reinterpret_cast<HostFunction>(logger),     // NOLINT
          reinterpret_cast<HostFunction>(profiler)};  // NOLINT
}

Reply start(const std::string& interface, nccl_abi::DebugLogger logger);

}  // namespace ho::plugin
