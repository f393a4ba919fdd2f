// What rank 0 writes under its key of a store, as text. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/status.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"

namespace ho {

inline constexpr size_t kMaxStoreValueBytes = 12288;

struct StoreOffer {
  std::string secret;  // the text of the job key
  RendezvousFile rank_0;
  friend bool operator==(const StoreOffer&, const StoreOffer&) = default;
};
// All ranks have come; the key is no longer in the store.
struct StoreOver {
  friend bool operator==(const StoreOver&, const StoreOver&) = default;
};
// Rank 0 could not go on, and why.
struct StoreFailure {
  StatusCode code = StatusCode::kInternal;
  std::string text;  // printable, at most 1000 bytes
  friend bool operator==(const StoreFailure&, const StoreFailure&) = default;
};
using StoreValue = std::variant<StoreOffer, StoreOver, StoreFailure>;

[[nodiscard]] std::string store_value_text(const StoreValue& value);
// What is no such value is kProtocol.
[[nodiscard]] Result<StoreValue> parse_store_value(std::string_view text);

}  // namespace ho
