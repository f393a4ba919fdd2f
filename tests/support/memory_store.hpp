// A key-value store in this process's memory, for ranks that are threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "horing.h"

namespace ho::test {

class MemoryStore {
 public:
  void set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  // False: it is not there after that time.
  bool wait(const std::string& key, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return values_.contains(key); });
  }
  std::optional<std::string> get(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// Its callbacks, for any class with these three functions. `store` and `name` must outlive them.
template <typename AnyStore>
ho_store callbacks_of(AnyStore& store, const char* name) {
  ho_store callbacks = HO_STORE_INIT;
  callbacks.context = &store;
  callbacks.name = name;
  callbacks.set = [](void* context, const char* key, const void* value, size_t bytes) {
    static_cast<AnyStore*>(context)->set(key, {static_cast<const char*>(value), bytes});
    return HO_OK;
  };
  callbacks.wait = [](void* context, const char* key, uint64_t timeout_ms) {
    const bool there =
        static_cast<AnyStore*>(context)->wait(key, std::chrono::milliseconds(timeout_ms));
    return there ? HO_OK : HO_TIMEOUT;
  };
  callbacks.get = [](void* context, const char* key, void* value, size_t capacity, size_t* bytes) {
    const auto found = static_cast<AnyStore*>(context)->get(key);
    if (!found) {
      return HO_SYSTEM;
    }
    *bytes = found->size();
    if (found->size() <= capacity) {
      std::memcpy(value, found->data(), found->size());
    }
    return HO_OK;
  };
  return callbacks;
}

}  // namespace ho::test
