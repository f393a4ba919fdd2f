// Ranks start in any order, so whoever comes before rank 0 tries again until the deadline. What can
// only be a mistake ends the search at once (another key, a refusal that rank 0 signed); what may
// pass does not (nobody listens yet). A rendezvous file may be left over from an earlier job, whose
// port may by now belong to anybody: behind a file a peer of another key ends the search only when
// the file has said the same for a while, and a foreign program does not end it.
#include "bootstrap/rendezvous_connect.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "bootstrap/job_identity.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kAttemptTime{5};
// How long a file may still be replaced by a rank 0 that has the right key.
constexpr std::chrono::milliseconds kFileMayChange{1000};

// Waits for `events` on fd, not past the deadline.
Status wait_for(int fd, short events, Deadline deadline, std::string_view what) {
  while (true) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(deadline)).count();
    const int count = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(ms, 60'000)));
    if (count > 0) {
      return {};
    }
    if (count < 0 && errno != EINTR) {
      return system_error("poll", errno);
    }
    if (passed(deadline)) {
      return {StatusCode::kTimeout, std::string(what) + " took too long"};
    }
  }
}

Status connection_error(const char* call) {
  return {StatusCode::kConnection, system_error(call, errno).message()};
}

Status send_output(int fd, Handshake& handshake, Deadline deadline) {
  const auto output = handshake.output();
  const ssize_t sent = ::send(fd, output.data(), output.size(), MSG_NOSIGNAL);
  if (sent > 0) {
    handshake.sent(static_cast<size_t>(sent));
    return {};
  }
  if (errno != EAGAIN && errno != EINTR) {
    return connection_error("send");
  }
  return wait_for(fd, POLLOUT, deadline, "the handshake");
}

Status receive_input(int fd, Handshake& handshake, Deadline deadline) {
  std::array<std::byte, 1024> chunk{};
  const ssize_t got =
      ::recv(fd, chunk.data(), std::min(chunk.size(), handshake.wanted()), MSG_DONTWAIT);
  if (got > 0) {
    return handshake.consume(std::span(chunk).first(static_cast<size_t>(got)));
  }
  if (got == 0) {
    return {StatusCode::kConnection, "it closed the connection during the handshake"};
  }
  if (errno != EAGAIN && errno != EINTR) {
    return connection_error("receive");
  }
  return wait_for(fd, POLLIN, deadline, "the handshake");
}

// Only errors of the key and signed refusals keep their code; whatever may pass is kConnection.
Status drive(int fd, Handshake& handshake, Deadline deadline) {
  while (!handshake.done()) {
    HORING_TRY(handshake.output().empty() ? receive_input(fd, handshake, deadline)
                                          : send_output(fd, handshake, deadline));
  }
  return {};
}

Result<Fd> connect_to(const SocketAddress& address, Deadline end) {
  HORING_ASSIGN(Fd fd, start_connect(address));
  HORING_TRY(wait_for(fd.get(), POLLOUT, end, "connect " + address.to_string()));
  HORING_TRY(connect_result(fd.get(), address));
  HORING_TRY(set_no_delay(fd.get()));
  HORING_TRY(set_keep_alive(fd.get()));
  return fd;
}

std::unique_ptr<Handshake> begin_handshake(const std::shared_ptr<const JobKey>& key,
                                           wire::RankClaim own,
                                           Deadline deadline) {
  own.timeout_ms = static_cast<uint32_t>(std::min<int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline)).count(), UINT32_MAX));
  return Handshake::client(key, "control", wire::encode(own));
}

Result<RendezvousConnection> attempt(const SocketAddress& address,
                                     const std::shared_ptr<const JobKey>& key,
                                     const wire::RankClaim& own,
                                     Deadline deadline) {
  const Deadline end = std::min(deadline, Clock::now() + kAttemptTime);
  HORING_ASSIGN(Fd fd, connect_to(address, end));
  const Deadline began = Clock::now();
  const auto handshake = begin_handshake(key, own, deadline);
  if (Status status = drive(fd.get(), *handshake, end); !status.ok()) {
    if (!handshake->output().empty()) {
      (void)send_output(fd.get(), *handshake, end);  // so that rank 0 learns why, too
    }
    return status.with_context(address.to_string());
  }
  return RendezvousConnection{std::move(fd), Clock::now() - began};
}

// At an address that may not be used without a key: says who would have come, so that rank 0 knows
// that this rank will not, and hears why not. Goes no further whatever the answer is.
Status knock(const SocketAddress& address,
             const std::shared_ptr<const JobKey>& key,
             const wire::RankClaim& own,
             Deadline deadline) {
  const Deadline end = std::min(deadline, Clock::now() + kAttemptTime);
  HORING_ASSIGN(const Fd fd, connect_to(address, end));
  const auto handshake = begin_handshake(key, own, deadline);
  Status status;
  while (status.ok() && !handshake->output().empty()) {
    status = send_output(fd.get(), *handshake, end);
  }
  while (status.ok() && handshake->output().empty()) {
    status = receive_input(fd.get(), *handshake, end);
  }
  return (status.ok() ? key->allows_address(address.host()) : status)
      .with_context(address.to_string());
}

// Whether another try may end better.
bool may_pass(const Status& status, bool behind_file) {
  switch (status.code()) {
    case StatusCode::kConnection:
    case StatusCode::kTimeout:
    case StatusCode::kSystem:
      return true;
    case StatusCode::kUnauthenticated:
    case StatusCode::kProtocol:
      return behind_file;
    default:
      return false;
  }
}

// Another job may meet there now, or have left the file: ours comes when that one is through.
Status check_same_job(const std::string& path, const RendezvousFile& file, const std::string& job) {
  const JobComparison jobs = compare_jobs(file.job, job);
  return jobs.difference.empty() ? Status()
                                 : Status(StatusCode::kConnection,
                                          path + " is another job's (" + jobs.difference +
                                              "); give each job a file of its own");
}

Result<std::vector<SocketAddress>> addresses_of(const RendezvousEndpoint& place,
                                                const std::string& job) {
  if (place.path.empty()) {
    return resolve(place.tcp.host, place.tcp.port);
  }
  const auto contents = read_rendezvous_file(place.path);
  const auto listed =
      contents.ok() ? parse_rendezvous_file(*contents) : Result<RendezvousFile>(contents.status());
  if (!listed.ok()) {
    HORING_TRY(check_rendezvous_file(place.path));
    return Status(StatusCode::kConnection,
                  (contents.ok() ? place.path + ": " : "") + listed.status().message());
  }
  HORING_TRY(check_same_job(place.path, *listed, job));
  std::vector<SocketAddress> addresses;
  for (const HostPort& entry : listed->addresses) {
    // Rank 0 writes numeric addresses; the resolver is not asked on a file's behalf.
    if (const auto address = SocketAddress::numeric(entry.host, entry.port); address.ok()) {
      addresses.push_back(*address);
    }
  }
  if (addresses.empty()) {
    return Status(StatusCode::kConnection, place.path + " lists no usable address");
  }
  return addresses;
}

// Tries each address once, those that may not be used without a key only to be refused there.
Result<RendezvousConnection> try_all(const std::vector<SocketAddress>& addresses,
                                     const std::shared_ptr<const JobKey>& key,
                                     const wire::RankClaim& own,
                                     Deadline deadline,
                                     bool behind_file) {
  Status last(StatusCode::kConnection, "no address to try");
  const auto note = [&last](const Status& status) {
    // That the keys differ says more than that nobody listens at another address.
    last = last.code() == StatusCode::kUnauthenticated ? last : status;
  };
  std::vector<SocketAddress> barred;
  for (const SocketAddress& address : addresses) {
    if (!key->allows_address(address.host()).ok()) {
      barred.push_back(address);
      continue;
    }
    auto found = attempt(address, key, own, deadline);
    if (found.ok() || !may_pass(found.status(), behind_file)) {
      return found;
    }
    note(found.status());
  }
  for (const SocketAddress& address : barred) {
    const Status refused = knock(address, key, own, deadline);
    if (!may_pass(refused, behind_file)) {
      return refused;
    }
    note(refused);
  }
  return last;
}

// Not ok: the key, or that there is none, permits none of the addresses.
Status permitted(const std::vector<SocketAddress>& addresses, const JobKey& key) {
  Status all_barred;
  for (const SocketAddress& address : addresses) {
    all_barred = key.allows_address(address.host());
    if (all_barred.ok()) {
      return {};
    }
  }
  return all_barred;
}

std::string list_of(const std::vector<SocketAddress>& addresses) {
  std::string list;
  for (const SocketAddress& address : addresses) {
    list += address.to_string() + ' ';
  }
  return list;
}

// Whether it is certain that rank 0 has another key, or none, or wants one.
class KeyTrouble {
 public:
  // What came of one more look at a file that lists these addresses (nothing: no such file now).
  void note(const Status& status, const std::string& addresses) {
    const bool refused = status.code() == StatusCode::kUnauthenticated;
    if (!addresses.empty() && addresses != addresses_) {
      why_ = Status();
      addresses_ = addresses;
    }
    if (refused && why_.ok()) {
      why_ = status;
      certain_at_ = deadline_after(kFileMayChange);
    }
  }
  // Stays so when rank 0 gives up, which removes the file.
  [[nodiscard]] Status certain() const {
    return !why_.ok() && passed(certain_at_) ? why_ : Status();
  }

 private:
  std::string addresses_;
  Status why_;
  Deadline certain_at_;
};

std::string text_of(const RendezvousEndpoint& place) {
  return place.path.empty() ? "tcp://" + place.tcp.to_string() : "file://" + place.path;
}

constexpr const char* kUsualRemedy =
    "see whether rank 0 is running (its output), and whether HORING_RENDEZVOUS (or MASTER_ADDR and "
    "MASTER_PORT) is right on this host";

Status not_found(const std::string& where, const Status& last, const std::string& remedy) {
  const bool refused = last.code() == StatusCode::kUnauthenticated;
  return {refused ? StatusCode::kUnauthenticated : StatusCode::kTimeout,
          where + ": rank 0 was not found before the deadline; last: " + last.message() + "; " +
              (remedy.empty() ? std::string(kUsualRemedy) : remedy)};
}

}  // namespace

Result<RendezvousConnection> connect_rendezvous(const RendezvousEndpoint& place,
                                                const std::shared_ptr<const JobKey>& key,
                                                const wire::RankClaim& own,
                                                const std::string& remedy,
                                                Deadline deadline) {
  const bool behind_file = !place.path.empty();
  const std::string self = "rank " + std::to_string(own.rank);
  KeyTrouble key_trouble;
  std::chrono::milliseconds pause(5);
  constexpr std::chrono::milliseconds kLongestPause(200);
  while (true) {
    const auto addresses = addresses_of(place, own.job);
    auto found = addresses.ok() ? try_all(*addresses, key, own, deadline, behind_file)
                                : Result<RendezvousConnection>(addresses.status());
    if (found.ok()) {
      return found;
    }
    const std::string where =
        self + " at the rendezvous " + text_of(place) + ", whose server is rank 0";
    if (!may_pass(found.status(), behind_file)) {
      return found.status().with_context(where);
    }
    const Status barred = addresses.ok() ? permitted(*addresses, *key) : Status();
    key_trouble.note(barred.ok() || found.status().code() == StatusCode::kUnauthenticated
                         ? found.status()
                         : barred,
                     addresses.ok() ? list_of(*addresses) : "");
    if (const Status certain = key_trouble.certain(); !certain.ok()) {
      return certain.with_context(where);
    }
    if (deadline <= Clock::now() + pause) {
      return not_found(where, found.status(), remedy);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace ho
