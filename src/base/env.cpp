#include "base/env.hpp"

#include <array>
#include <charconv>
#include <cstdlib>

namespace ho::env {
namespace {

constexpr std::array kAll{
    kLogLevel,
    kJobKey,
    kJobKeyFile,
    kAllowUnauthenticated,
    kRendezvous,
    kHostId,
    kGroupFile,
    kSocketIfname,
    kTopoFile,
    kTransport,
    kRails,
    kAlgorithm,
    kPieceBytes,
    kDirectMaxBytes,
    kScratchBytes,
    kTimeoutMs,
    kConnectTimeoutMs,
    kTcpStreams,
    kTcpMaxConnections,
    kRailPaceMbit,
    kShmRingBytes,
    kShmSingleCopy,
    kSpinUs,
    kProgressCpu,
    kTrace,
    kEmulation,
    kEmulatedRails,
    kRailRateMbit,
    kPaceFd,
    kCluster,
};

Status bad_value(const Variable& variable, std::string_view value, std::string_view takes) {
  return {StatusCode::kInvalidArgument,
          std::string(variable.name) + "=" + std::string(value) + ": takes " + std::string(takes) +
              "; change or unset the variable"};
}

}  // namespace

std::span<const Variable> all() {
  return kAll;
}

std::optional<std::string> text_if_set(const Variable& variable) {
  const char* value = std::getenv(std::string(variable.name).c_str());
  if (value == nullptr) {
    return std::nullopt;
  }
  return std::string(value);
}

std::string text(const Variable& variable) {
  return text_if_set(variable).value_or(std::string(variable.default_value));
}

Result<uint64_t> number(const Variable& variable) {
  const std::string value = text(variable);
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || value.empty()) {
    return bad_value(variable, value, "a whole number");
  }
  return parsed;
}

Result<bool> flag(const Variable& variable) {
  const std::string value = text(variable);
  if (value == "1" || value == "true" || value == "yes" || value == "on") {
    return true;
  }
  if (value == "0" || value == "false" || value == "no" || value == "off" || value.empty()) {
    return false;
  }
  return bad_value(variable, value, "0 or 1");
}

}  // namespace ho::env
