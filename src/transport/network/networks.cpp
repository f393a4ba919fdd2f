#include "transport/network/networks.hpp"

#include <string>

#include "base/env.hpp"

namespace ho {
namespace {

Status unknown(std::string_view name) {
  std::string known;
  for (const NetworkEntry& entry : networks()) {
    known += (known.empty() ? "" : " or ") + std::string(entry.name);
  }
  return invalid(std::string(env::kTransport.name) + "=" + std::string(name) + ": takes " + known);
}

MakeNetwork refusal(const NetworkEntry& entry) {
  Status why(StatusCode::kUnsupported,
             std::string(env::kTransport.name) + "=" + std::string(entry.name) + ": " +
                 std::string(entry.missing) + ", or set it to " +
                 std::string(env::kTransport.default_value));
  return [why = std::move(why)](const NetworkSetup&) -> Result<std::unique_ptr<Transport>> {
    return why;
  };
}

}  // namespace

Result<MakeNetwork> network_of(std::string_view name) {
  for (const NetworkEntry& entry : networks()) {
    if (entry.name == name) {
      return entry.from_environment != nullptr ? entry.from_environment() : refusal(entry);
    }
  }
  return unknown(name);
}

}  // namespace ho
