// Connects under way, between two calls with the same handle.
//
// NCCL gives connect() the same memory until there is a comm. An id in the handle's last bytes
// leads back to the connect that it began. It is looked up, never dereferenced, and only believed
// where handle, context and device are those that it was given out for: in a handle that comes from
// another process it is a number like any other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/status.hpp"
#include "core/builtin/connector.hpp"
#include "core/builtin/handle.hpp"

namespace ho::plugin {

class PendingConnects {
 public:
  struct Key {
    const void* context = nullptr;
    int32_t device = 0;
    std::array<std::byte, kWireHandleBytes> handle{};
    friend bool operator==(const Key&, const Key&) = default;
  };

  // The one under way for this key, or null.
  [[nodiscard]] std::shared_ptr<Connector> find(uint64_t id, const Key& key);
  // Its id.
  [[nodiscard]] Result<uint64_t> add(const Key& key, std::shared_ptr<Connector> connector);
  void remove(uint64_t id);
  void remove_all(const void* context);

 private:
  struct Entry {
    Key key;
    std::shared_ptr<Connector> connector;
    int64_t used_at_ns = 0;
  };
  std::mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace ho::plugin
