#include "exec/posted_receives.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ho {

std::string Transfer::shape() const {
  return fmt::format("{} {}", count, to_string(dtype));
}

std::string Transfer::name() const {
  const std::string other = peer ? fmt::format("rank {}", peer->value()) : "any rank";
  return fmt::format("{} {} tag {} ({})", sends ? "send to" : "recv from", other, tag, shape());
}

Status Transfer::late() const {
  return {StatusCode::kTimeout,
          name() + " did not complete within " + std::to_string(timeout.count()) + " ms"};
}

PostedReceives::Key PostedReceives::key_of(const Transfer& receive) {
  return {receive.peer ? int64_t{receive.peer->value()} : kAny, receive.tag};
}

Transfer* PostedReceives::front(const Key& key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? nullptr : found->second.front();
}

void PostedReceives::post(Transfer& receive) {
  queues_[key_of(receive)].push_back(&receive);
  ++posts_;
}

Transfer* PostedReceives::first_for(GlobalRank from, int32_t tag) const {
  Transfer* own = front({from.value(), tag});
  Transfer* any = front({kAny, tag});
  if (own == nullptr || any == nullptr) {
    return own == nullptr ? any : own;
  }
  return own->order < any->order ? own : any;
}

void PostedReceives::remove(const Transfer& receive) {
  const auto found = queues_.find(key_of(receive));
  if (found == queues_.end()) {
    return;
  }
  std::erase(found->second, &receive);
  if (found->second.empty()) {
    queues_.erase(found);
  }
}

}  // namespace ho
