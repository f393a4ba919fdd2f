// The builtin network on loopback devices, without any environment.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>

#include "core/builtin/builtin_net.hpp"
#include "net_conformance.hpp"

namespace ho::plugin::conformance {

struct BuiltinCase {
  std::string device = "test0";
  std::string address = "127.0.0.1";
  uint32_t connections = 1;
  std::chrono::milliseconds connect_timeout{60000};
  std::chrono::milliseconds handshake_timeout{5000};
  std::string secret;      // "" for no job key
  uint64_t pace_mbit = 0;  // 0: not paced
};

inline BuiltinConfig builtin_config(const BuiltinCase& options) {
  BuiltinConfig config;
  config.devices = {make_device(options.device, "a host", options.address, "")};
  config.key = JobKey::none(false);
  if (!options.secret.empty()) {
    auto key = JobKey::from_text(options.secret);
    config.key = key.ok() ? *key : nullptr;
  }
  config.options.connections = options.connections;
  config.options.connect_timeout = options.connect_timeout;
  config.options.handshake_timeout = options.handshake_timeout;
  if (options.pace_mbit > 0) {
    config.devices[0].rail.pace = RailPace{.mbit = options.pace_mbit};
  }
  return config;
}

inline std::unique_ptr<NetDriver> make_builtin(const BuiltinCase& options) {
  auto made = BuiltinNet::create(builtin_config(options));
  return made.ok() ? std::unique_ptr<NetDriver>(*std::move(made)) : nullptr;
}

// The network that the program with a test is about.
std::unique_ptr<NetDriver> make_under_test(const BuiltinCase& options);

// Of a thread that does nothing until there is something to do. A lost wake-up shows: nothing else
// ends the sleep.
inline Status sleep_on(const NetDriver& net, void* comm) {
  pollfd waiting{net.progress_fd(comm), POLLIN, 0};
  if (!net.has_pending(comm) && ::poll(&waiting, 1, 20'000) != 1) {
    return {StatusCode::kTimeout, "nothing woke the sleeper for 20 s"};
  }
  net.look(comm);
  return {};
}

inline NetUnderTest builtin_under_test(const BuiltinCase& options) {
  NetUnderTest under_test;
  under_test.make = [options] { return make_builtin(options); };
  return under_test;
}

}  // namespace ho::plugin::conformance
