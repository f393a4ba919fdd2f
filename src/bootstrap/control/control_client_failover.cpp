// How a rank's side of the control plane outlives its connection
// (docs/design/adr/0046-control-failover.md). The receiving thread's.
#include <utility>

#include "base/log.hpp"
#include "bootstrap/control/control_client.hpp"
#include "bootstrap/messages/rank_names.hpp"

namespace ho {

// Before anything else, so that rank 0 knows it when this rank has taken part in anything.
void ControlClient::offer_addresses() {
  auto here = ListeningAt::open();
  if (!here.ok()) {
    log_warn("control plane: this rank cannot be looked for: {}", here.status().message());
    return;
  }
  const Lock lock(mutex_);
  listener_ = std::move(here->listener);
  listener_close_on_fork_.set(listener_.get());
  own_addresses_ = std::move(here->own);
  tell(wire::Type::kAddresses, 0, ControlConnection::body_of(here->addresses));
}

void ControlClient::take_addresses(const wire::Message& message) {
  const auto addresses = wire::decode<wire::Addresses>(message.body);
  if (!addresses.ok() || !failover_.on) {
    return;  // HORING_FAILOVER differs: who compares what must match says so
  }
  const Lock lock(mutex_);
  redial_ = std::make_unique<Redial>(
      Redial::Setup{.options = failover_,
                    .key = key_,
                    .coordinator = welcome_.coordinator,
                    .self = rank_name(rendezvous_.rank, rendezvous_.called),
                    .who = {.job_id = welcome_.job_id, .rank = rendezvous_.rank}},
      *addresses,
      own_addresses_,
      connection_.fd());
  ask_often(connection_.fd());
}

// The kernel takes connections for this process, also while it is stopped, until so many wait here:
// then rank 0 would find this rank silent.
void ControlClient::let_callers_go() const {
  constexpr int kAtOnce = 2 * kBacklog;
  for (int i = 0; listener_.valid() && i < kAtOnce; ++i) {
    const auto caller = accept_from(listener_.get());
    if (!caller.ok() || !caller->has_value()) {
      return;
    }
  }
}

void ControlClient::lost(const std::string& why) {
  if (!connected_) {
    return;  // what came before its end said so
  }
  if (redial_ == nullptr || coordinator_left_) {
    coordinator_closed(why);
    return;
  }
  const Lock lock(mutex_);
  if (goodbye_said_ && connection_.all_counted()) {
    connected_ = false;
    changed_.notify_all();
    return;
  }
  redial_->begin(why, connection_.received(), now_ns());
  connection_.lose();
}

void ControlClient::come_back() {
  if (redial_ == nullptr || !connected_) {
    return;
  }
  if (passed(look_due_)) {
    look_due_ = Clock::now() + PeerPaths::look_every(failover_);
    let_callers_go();
    const Status silent =
        connection_.is_open() ? redial_->look(connection_.fd(), now_ns()) : Status();
    if (!silent.ok()) {
      lost(silent.message());
    }
  }
  if (connection_.is_open()) {
    return;
  }
  auto socket = redial_->step(now_ns());
  if (!socket.ok()) {
    coordinator_closed(socket.status().message());
  } else if (*socket != nullptr) {
    const Lock lock(mutex_);
    (void)set_no_delay((*socket)->fd.get());
    ask_often((*socket)->fd.get());
    (void)connection_.resume(std::move((*socket)->fd), std::nullopt);
  }
}

}  // namespace ho
