// The listening port: accepts connections, checks who they are from, and hands on those that prove
// the key and claim a link that may exist. Strangers cost one bounded handshake each.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/job_key.hpp"
#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/link_handshake.hpp"
#include "transport/tcp/poller.hpp"

namespace ho::tcp {

class Acceptor {
 public:
  // Handshakes under way at most; the oldest makes room for a newer one.
  static constexpr size_t kMaxHandshakes = 1024;

  // Whether the link can take this connection (not a duplicate); the reason if not.
  using Decide = std::function<Status(const LinkClaim&)>;
  using Deliver = std::function<void(const LinkClaim&, std::unique_ptr<Socket>)>;

  [[nodiscard]] static Result<std::unique_ptr<Acceptor>> open(Context& context);
  [[nodiscard]] uint16_t port() const { return port_; }
  // Accepts and checks as far as that goes now. An error where this process has been out of
  // descriptors for so long that those who wait for it should hear why.
  [[nodiscard]] Status progress(const Decide& decide, const Deliver& deliver);

 private:
  struct PendingHandshake {
    std::unique_ptr<Socket> socket;
    std::unique_ptr<Handshake> handshake;
    std::string from;
    int64_t deadline_ns = 0;
  };
  enum class Outcome : uint8_t { kKeep, kDrop };

  explicit Acceptor(Context& context) : context_(context) {}
  [[nodiscard]] Status listen();
  [[nodiscard]] Result<std::vector<Fd>> open_pair(bool four, bool six);
  [[nodiscard]] Status accept_all(Socket& listener);
  [[nodiscard]] Status out_of_descriptors(int why);
  void admit(Fd connection);
  [[nodiscard]] Outcome advance(PendingHandshake& pending,
                                const Decide& decide,
                                const Deliver& deliver);
  [[nodiscard]] Status check(const PendingHandshake& pending, const Decide& decide) const;

  Context& context_;
  void warn(std::string_view text);

  uint16_t port_ = 0;
  int64_t stuck_until_ns_ = 0;  // 0: accepting goes well
  std::vector<std::unique_ptr<Socket>> listeners_;
  std::list<PendingHandshake> pending_;
  LogQuota warnings_;  // anybody can cause them
};

}  // namespace ho::tcp
