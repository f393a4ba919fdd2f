// Objects that NCCL holds by their addresses.
#pragma once

#include <mutex>
#include <utility>

namespace ho::plugin {

// What `kept` has under a handle, taken out; empty where it has nothing.
template <typename Kept>
[[nodiscard]] typename Kept::mapped_type take_out(std::mutex& mutex,
                                                  Kept& kept,
                                                  const typename Kept::key_type& handle) {
  const std::lock_guard lock(mutex);
  auto node = kept.extract(handle);
  return node.empty() ? typename Kept::mapped_type() : std::move(node.mapped());
}

}  // namespace ho::plugin
