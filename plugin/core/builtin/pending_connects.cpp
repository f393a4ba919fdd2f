#include "core/builtin/pending_connects.hpp"

#include "os/clock.hpp"
#include "os/random_bytes.hpp"

namespace ho::plugin {
namespace {

// A connect that nobody has asked about for so long has been given up.
constexpr int64_t kForgottenNs = 600'000'000'000;

}  // namespace

std::shared_ptr<Connector> PendingConnects::find(uint64_t id, const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (id == 0 || found == entries_.end() || !(found->second.key == key)) {
    return nullptr;
  }
  found->second.used_at_ns = now_ns();
  return found->second.connector;
}

Result<uint64_t> PendingConnects::add(const Key& key, std::shared_ptr<Connector> connector) {
  // Not to be guessed by whoever writes handles.
  uint64_t id = 0;
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&id, 1))));
  id |= 1U;
  const std::lock_guard lock(mutex_);
  const int64_t now = now_ns();
  std::erase_if(entries_,
                [&](const auto& entry) { return now - entry.second.used_at_ns > kForgottenNs; });
  entries_[id] = {key, std::move(connector), now};
  return id;
}

void PendingConnects::remove(uint64_t id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

void PendingConnects::remove_all(const void* context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.key.context == context; });
}

}  // namespace ho::plugin
