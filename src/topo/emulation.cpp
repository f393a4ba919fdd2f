#include "topo/emulation.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "base/quantity.hpp"
#include "topo/address.hpp"

namespace ho {
namespace {

Status not_understood(std::string_view part, std::string_view takes) {
  return invalid(std::string(env::kEmulatedRails.name) + ": '" + std::string(part) + "' is not " +
                 std::string(takes) + "; `horing run` sets the variable, leave it to that");
}

Result<NetworkInterface> parse_rail(std::string_view entry) {
  std::string_view address = entry;
  const std::string_view name = take_until(address, '=');
  if (name.empty() || !parse_interface_address(address)) {
    return not_understood(entry, "name=address");
  }
  NetworkInterface rail;
  rail.name = std::string(name);
  rail.operstate = "up";
  rail.addresses = {std::string(address) + "/16"};
  rail.emulated = true;
  return rail;
}

Status parse_pace(std::string_view item, RailPace& pace) {
  std::string_view value = item;
  const std::string_view key = take_until(value, '=');
  const auto mbit = key == "mbit" ? whole_number<uint64_t>(value) : std::nullopt;
  const auto fd = key == "fd" ? whole_number<int>(value) : std::nullopt;
  if (!mbit && fd.value_or(-1) < 0) {
    return not_understood(item, "mbit=N or fd=N");
  }
  pace.mbit = mbit.value_or(pace.mbit);
  pace.memory_fd = fd.value_or(pace.memory_fd);
  return {};
}

void set_pace(const RailPace& pace, Topology& topology) {
  uint32_t slot = 0;
  for (NetworkInterface& interface : topology.interfaces) {
    interface.pace = pace;
    interface.pace->slot = slot++;
  }
}

}  // namespace

Status adopt_emulated(std::string_view text, Topology& topology) {
  std::string_view rails = take_until(text, ';');
  if (!rails.empty()) {
    topology.interfaces.clear();
  }
  while (!rails.empty()) {
    HORING_ASSIGN(NetworkInterface rail, parse_rail(take_until(rails, ',')));
    topology.interfaces.push_back(std::move(rail));
  }
  RailPace pace;
  while (!text.empty()) {
    HORING_TRY(parse_pace(take_until(text, ';'), pace));
  }
  if (pace.mbit > 0) {
    set_pace(pace, topology);
  }
  return {};
}

Status adopt_emulation(Topology& topology) {
  HORING_TRY(adopt_emulated(env::text(env::kEmulatedRails), topology));
  HORING_ASSIGN(const uint64_t mbit, env::number(env::kRailPaceMbit));
  const bool paced = std::ranges::any_of(
      topology.interfaces, [](const auto& interface) { return interface.pace.has_value(); });
  if (mbit > 0 && !paced) {
    set_pace({.mbit = mbit}, topology);
  }
  return {};
}

}  // namespace ho
