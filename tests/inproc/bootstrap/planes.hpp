// Worlds of control planes over loopback, a thread per rank, for the tests of this folder.
#pragma once

#include <sys/socket.h>

#include <array>
#include <condition_variable>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/control/control_plane.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "more_time.hpp"
#include "os/socket.hpp"
#include "reserved_port.hpp"

namespace ho::test {

using namespace std::chrono_literals;

using Plane = std::unique_ptr<ControlPlane>;
using Created = Result<Plane>;

// Far away: an answer that waited for it would be kTimeout.
inline constexpr std::chrono::milliseconds kFar = 2min;
// How often a case is tried where what is tested has a limit of its own that a slow machine misses.
inline constexpr int kAttempts = 10;

inline const std::string kSecret = "a test secret of enough length";

inline std::shared_ptr<const JobKey> key_of(const std::string& secret = kSecret) {
  return JobKey::from_text(secret).value();
}

inline Rendezvous at(const std::string& address, uint32_t rank, uint32_t world_size) {
  return {.rank = rank,
          .world_size = world_size,
          .local_rank = {},
          .address = address,
          .source = "arguments"};
}

struct Attempt {
  Rendezvous rendezvous;
  std::shared_ptr<const JobKey> key = key_of();
  std::chrono::milliseconds time = kFar;
};

inline std::vector<Created> create_all(const std::vector<Attempt>& attempts) {
  std::vector<std::future<Created>> pending;
  pending.reserve(attempts.size());
  for (const Attempt& attempt : attempts) {
    pending.push_back(std::async(std::launch::async, [attempt] {
      return ControlPlane::create(attempt.rendezvous, attempt.key, deadline_after(attempt.time));
    }));
  }
  std::vector<Created> created;
  created.reserve(pending.size());
  for (auto& one : pending) {
    created.push_back(one.get());
  }
  return created;
}

inline std::vector<Plane> world(uint32_t size, const std::string& address = ReservedPort().text()) {
  std::vector<Attempt> attempts;
  for (uint32_t rank = 0; rank < size; ++rank) {
    attempts.push_back({.rendezvous = at(address, rank, size)});
  }
  std::vector<Plane> planes;
  for (Created& created : create_all(attempts)) {
    INFO(created.status().to_string());
    REQUIRE(created.ok());
    planes.push_back(std::move(created).value());
  }
  return planes;
}

// The last rank of a world of 4 comes again and again with little time, until rank 0 ends for that.
// With more each time: a slow machine may not let it in within the first.
inline Status end_by_timeout(const std::string& address,
                             const std::shared_ptr<const JobKey>& key,
                             std::future<Created>& first) {
  for (auto time = 200ms; first.wait_for(50ms) != std::future_status::ready; time *= 2) {
    (void)ControlPlane::create(at(address, 3, 4), key, deadline_after(time));
  }
  return first.get().status();
}

// A rendezvous file that names a port of this host.
inline void leave_file(const std::string& path, uint16_t port) {
  std::ofstream(path) << rendezvous_file_text({.job = {}, .addresses = {{"127.0.0.1", port}}});
}

// The end of a rank that waits until its deadline for a proof: with more time where it has not got
// to rank 0 by then.
inline Status end_without_proof(const Rendezvous& rendezvous,
                                const std::shared_ptr<const JobKey>& key) {
  Status status;
  (void)with_more_time(200ms, [&](std::chrono::milliseconds time) {
    status = ControlPlane::create(rendezvous, key, deadline_after(time)).status();
    return status.code() != StatusCode::kTimeout;
  });
  return status;
}

inline std::vector<std::byte> blob_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string as_string(const std::vector<std::byte>& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

using Gathered = Result<std::vector<std::vector<std::byte>>>;

inline std::future<Gathered> gather(ControlPlane& plane,
                                    const std::string& tag,
                                    const std::string& mine,
                                    std::vector<GlobalRank> members = {},
                                    std::chrono::milliseconds time = kFar) {
  return std::async(std::launch::async, [&plane, tag, mine, members = std::move(members), time] {
    return plane.all_gather(tag, blob_of(mine), members, deadline_after(time));
  });
}

// Collects one rank's decision and counts them. Declared before the plane that calls it, so that it
// outlives it.
class Ear {
 public:
  void listen(ControlPlane& plane, std::vector<RankState> states = {}) {
    plane.start({.on_decision =
                     [this](const FailureDecision& decision) {
                       const std::lock_guard lock(mutex_);
                       decision_ = decision.cause;
                       ++count_;
                       changed_.notify_all();
                     },
                 .state_of = [states] { return states; },
                 .on_leave_notice =
                     [this](const LeaveNotice& leave_notice) {
                       const std::lock_guard lock(mutex_);
                       leave_notices_.push_back(leave_notice);
                       changed_.notify_all();
                     },
                 .on_call_question =
                     [this](const CallQuestion& question) {
                       const std::lock_guard lock(mutex_);
                       questions_.push_back(question);
                       changed_.notify_all();
                     }});
  }
  // The first `count` questions that were heard.
  std::vector<CallQuestion> questions(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFar, [&] { return questions_.size() >= count; });
    return questions_;
  }
  // The first `count` leave notices that were heard of.
  std::vector<LeaveNotice> leave_notices(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFar, [&] { return leave_notices_.size() >= count; });
    return leave_notices_;
  }
  Status heard() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFar, [this] { return count_ > 0; });
    return count_ > 0 ? decision_ : Status(StatusCode::kInternal, "no decision came");
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Status decision_;
  int count_ = 0;
  std::vector<LeaveNotice> leave_notices_;
  std::vector<CallQuestion> questions_;
};

inline Fd raw_connection(uint16_t port) {
  const auto address = SocketAddress::numeric("127.0.0.1", port).value();
  for (const Deadline limit = deadline_after(kFar); !passed(limit);) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), address.get(), address.size_bytes()) == 0) {
      return fd;
    }
    std::this_thread::sleep_for(5ms);
  }
  return {};
}

// Comes as whoever that is said to be, and returns the connection and how its handshake ended:
// well, when rank 0 has let it in.
inline std::pair<Fd, Status> come_as(uint16_t port,
                                     const std::shared_ptr<const JobKey>& key,
                                     const wire::RankClaim& who) {
  Fd fd = raw_connection(port);
  const auto handshake = Handshake::client(key, "control", wire::encode(who));
  Status status;
  while (status.ok() && !handshake->done()) {
    const auto output = handshake->output();
    std::array<std::byte, 1024> chunk{};
    if (!output.empty()) {
      const ssize_t sent = ::send(fd.get(), output.data(), output.size(), MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      handshake->sent(static_cast<size_t>(sent));
      continue;
    }
    const ssize_t got = ::recv(fd.get(), chunk.data(), handshake->wanted(), 0);
    status = got > 0 ? handshake->consume(std::span(chunk).first(static_cast<size_t>(got)))
                     : Status(StatusCode::kConnection, "closed");
  }
  const auto refusal = handshake->output();
  if (!refusal.empty()) {
    (void)::send(fd.get(), refusal.data(), refusal.size(), MSG_NOSIGNAL);
  }
  return {std::move(fd), status};
}

}  // namespace ho::test
