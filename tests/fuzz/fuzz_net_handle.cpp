// The handle that NCCL carries from a listener to a connecting rank, and a connection's claim.
#include <algorithm>
#include <array>
#include <string>

#include "core/builtin/handle.hpp"
#include "core/builtin/records.hpp"
#include "core/driver/turned_off.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = fuzz::bytes(data, size);
  if (const auto handle = ho::plugin::decode_handle(bytes); handle.ok()) {
    std::array<std::byte, ho::plugin::kHandleBytes> again{};
    ho::plugin::encode(*handle, again);
    // All but the local id, which is not believed.
    fuzz::require(
        std::equal(again.begin(), again.begin() + ho::plugin::kWireHandleBytes, bytes.begin()));
    fuzz::require(handle->port != 0 && !handle->to_string().empty());
  }
  if (const auto claim = ho::plugin::decode_connection_claim(bytes); claim.ok()) {
    fuzz::require(claim->connection < claim->connection_count);
    fuzz::require(claim->connection_count <= ho::plugin::kMaxConnections);
    fuzz::require(ho::plugin::decode_connection_claim(ho::plugin::encode(*claim)).ok());
  }
  const std::string off = ho::plugin::check_not_off(bytes).message();
  fuzz::require(std::all_of(off.begin(), off.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  return 0;
}
