// A network with one link, which keeps what it was asked, and whose descriptor the test makes
// ready.
#pragma once

#include <functional>
#include <vector>

#include "os/event_fd.hpp"
#include "transport/transport.hpp"

namespace ho::test {

class NetworkDouble : public Transport {
 public:
  explicit NetworkDouble(Link& link) : link_(link) {}

  EventFd ready = *EventFd::create();
  std::vector<LinkKey> requested;
  std::vector<LinkKey> unrequested;
  bool may_wait = true;  // false: something has happened already
  int waits = 0;
  int ended_waits = 0;
  // Of memory that is lent; whether any was.
  std::function<bool()> release = [] { return false; };
  Service serves = Service::kNone;

  Result<Link*> link(const LinkKey& key) override {
    requested.push_back(key);
    return &link_;
  }
  [[nodiscard]] std::vector<LinkKey> unrequested_links() const override { return unrequested; }
  Status progress() override { return {}; }
  [[nodiscard]] int wait_fd() const override { return ready.fd(); }
  bool prepare_wait(const WaitHint& hint) override {
    ++waits;
    return may_wait && !(hint.network_releases && release());
  }
  [[nodiscard]] Service service() const override { return serves; }
  void finish_wait() override { ++ended_waits; }
  [[nodiscard]] uint64_t memory_bytes() const override { return 0; }

 private:
  Link& link_;
};

}  // namespace ho::test
