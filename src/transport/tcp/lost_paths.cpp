#include "transport/tcp/lost_paths.hpp"

namespace ho::tcp {

const std::shared_ptr<LostPaths>& LostPaths::of_process() {
  // Never destroyed: a link that the program has left open may come here while it ends.
  static const auto* const paths = new std::shared_ptr<LostPaths>(std::make_shared<LostPaths>());
  return *paths;
}

void LostPaths::note_lost(const Ends& path, int64_t now_ns) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(until_ns_, [now_ns](const auto& each) { return each.second <= now_ns; });
  until_ns_[path] = now_ns + kBelievedNs;
}

void LostPaths::note_well(const Ends& path) {
  const std::scoped_lock lock(mutex_);
  until_ns_.erase(path);
}

bool LostPaths::lost(const Ends& path, int64_t now_ns) const {
  const std::scoped_lock lock(mutex_);
  const auto found = until_ns_.find(path);
  return found != until_ns_.end() && now_ns < found->second;
}

}  // namespace ho::tcp
