#include "comm/job_control.hpp"

#include <algorithm>

namespace ho {

JobControl::JobControl(std::unique_ptr<ControlPlane> plane) : plane_(std::move(plane)) {}

JobControl::~JobControl() = default;

void JobControl::start() {
  ControlPlane::Callbacks callbacks;
  callbacks.on_verdict = [this](const Verdict& verdict) { on_verdict(verdict); };
  callbacks.describe_state = [this] { return states(); };
  plane_->start(std::move(callbacks));
}

void JobControl::add(uint16_t communicator, Engine* engine) {
  const std::lock_guard lock(mutex_);
  members_.push_back({communicator, engine});
  if (verdict_) {
    engine->fail(*verdict_);
  }
}

void JobControl::remove(Engine* engine) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [engine](const Member& member) { return member.engine == engine; });
}

uint16_t JobControl::next_id() {
  const std::lock_guard lock(mutex_);
  return static_cast<uint16_t>(last_id_ + 1);
}

void JobControl::used_id(uint16_t id) {
  const std::lock_guard lock(mutex_);
  last_id_ = std::max(last_id_, id);
}

void JobControl::on_verdict(const Verdict& verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_) {
    verdict_ = verdict.cause;
  }
  for (const Member& member : members_) {
    member.engine->fail(*verdict_);
  }
}

std::vector<RankState> JobControl::states() {
  const std::lock_guard lock(mutex_);
  std::vector<RankState> all;
  for (const Member& member : members_) {
    for (ChannelState& state : member.engine->states()) {
      all.push_back({member.communicator,
                     state.channel,
                     state.entered,
                     state.completed,
                     std::move(state.operation),
                     std::move(state.waiting)});
    }
  }
  return all;
}

}  // namespace ho
