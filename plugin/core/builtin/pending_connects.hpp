// Connects under way, between two calls with the same handle.
//
// NCCL gives connect() the same memory until there is a comm. An id in the handle's last bytes
// leads back to the connect that it began. It is looked up, never dereferenced, and only believed
// where handle, context and device are those that it was given out for: in a handle that comes from
// another process it is a number like any other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/status.hpp"
#include "core/builtin/handle.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"

namespace ho::plugin {

struct PendingKey {
  const void* context = nullptr;
  int32_t device = 0;
  std::array<std::byte, kWireHandleBytes> handle{};
  friend bool operator==(const PendingKey&, const PendingKey&) = default;
};
[[nodiscard]] inline PendingKey pending_key(const void* context,
                                            int32_t device,
                                            std::span<const std::byte, kHandleBytes> handle) {
  PendingKey key{context, device, {}};
  std::copy_n(handle.begin(), key.handle.size(), key.handle.begin());
  return key;
}

template <typename Connect>
class PendingConnects {
 public:
  // The one under way for this key, or null.
  [[nodiscard]] std::shared_ptr<Connect> find(uint64_t id, const PendingKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (id == 0 || found == entries_.end() || !(found->second.key == key)) {
      return nullptr;
    }
    found->second.used_at_ns = now_ns();
    return found->second.connect;
  }

  // Its id.
  [[nodiscard]] Result<uint64_t> add(const PendingKey& key, std::shared_ptr<Connect> connect) {
    // Not to be guessed by whoever writes handles.
    uint64_t id = 0;
    HORING_TRY(fill_random(std::as_writable_bytes(std::span(&id, 1))));
    id |= 1U;
    const std::lock_guard lock(mutex_);
    const int64_t now = now_ns();
    std::erase_if(entries_,
                  [&](const auto& entry) { return now - entry.second.used_at_ns > kForgottenNs; });
    entries_[id] = {key, std::move(connect), now};
    return id;
  }

  void remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
  }

  void remove_all(const void* context) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) { return entry.second.key.context == context; });
  }

 private:
  // A connect that nobody has asked about for so long has been given up.
  static constexpr int64_t kForgottenNs = 600'000'000'000;

  struct Entry {
    PendingKey key;
    std::shared_ptr<Connect> connect;
    int64_t used_at_ns = 0;
  };
  std::mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace ho::plugin
