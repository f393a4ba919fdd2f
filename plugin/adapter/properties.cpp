#include "adapter/properties.hpp"

#include <memory>
#include <mutex>
#include <set>

namespace ho::plugin {

char* kept(const std::string& text) {
  // NCCL holds the pointers of devices beyond every finalize. There are few devices.
  static std::mutex mutex;
  static auto* const texts = std::make_unique<std::set<std::string>>().release();
  const std::lock_guard lock(mutex);
  // NCCL's field is not const; nothing writes through it.
  return const_cast<char*>(texts->insert(text).first->c_str());  // NOLINT
}

}  // namespace ho::plugin
