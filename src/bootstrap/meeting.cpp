// Ranks start in any order, so whoever comes before rank 0 tries again until the deadline. What can
// only be a mistake ends the search at once (another key, a refusal that rank 0 signed); what may
// pass does not (nobody listens yet). A rendezvous file may be left over from an earlier job, whose
// port may by now belong to anybody: behind a file an unproven peer is a reason to go on looking.
#include "bootstrap/meeting.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "base/log.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

constexpr int kBacklog = 1024;
constexpr std::chrono::seconds kAttemptTime{5};

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

Result<Fd> attempt(const SocketAddress& address,
                   const std::shared_ptr<const JobKey>& key,
                   wire::Introduction own,
                   Deadline deadline) {
  if (Status status = key->allows_address(address.host()); !status.ok()) {
    return status;
  }
  const Deadline end = std::min(deadline, Clock::now() + kAttemptTime);
  HORING_ASSIGN(Fd fd, start_connect(address));
  HORING_TRY(wait_for(fd.get(), POLLOUT, end, "connect " + address.to_string()));
  HORING_TRY(connect_result(fd.get(), address));
  HORING_TRY(set_no_delay(fd.get()));
  HORING_TRY(set_keep_alive(fd.get()));
  own.timeout_ms = static_cast<uint32_t>(std::min<int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline)).count(), UINT32_MAX));
  const auto handshake = Handshake::client(key, "control", wire::encode(own));
  if (Status status = drive(fd.get(), *handshake, end); !status.ok()) {
    return status.with_context(address.to_string());
  }
  return fd;
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

Result<std::string> read_small_file(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    return Status(StatusCode::kConnection, system_error("open " + path, errno).message());
  }
  std::string contents(kMaxRendezvousFileBytes, '\0');
  const ssize_t got = ::read(fd.get(), contents.data(), contents.size());
  if (got < 0) {
    return Status(StatusCode::kConnection, system_error("read " + path, errno).message());
  }
  contents.resize(static_cast<size_t>(got));
  return contents;
}

Result<std::vector<SocketAddress>> addresses_of(const MeetingPlace& place) {
  if (place.path.empty()) {
    return resolve(place.tcp.host, place.tcp.port);
  }
  HORING_ASSIGN(const std::string contents, read_small_file(place.path));
  auto listed = parse_rendezvous_file(contents);
  if (!listed.ok()) {
    return Status(StatusCode::kConnection, place.path + ": " + listed.status().message());
  }
  std::vector<SocketAddress> addresses;
  for (const HostPort& entry : *listed) {
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

// Tries each address once.
Result<Fd> try_all(const std::vector<SocketAddress>& addresses,
                   const std::shared_ptr<const JobKey>& key,
                   const wire::Introduction& own,
                   Deadline deadline,
                   bool behind_file) {
  Status last(StatusCode::kConnection, "no address to try");
  for (const SocketAddress& address : addresses) {
    auto fd = attempt(address, key, own, deadline);
    if (fd.ok() || !may_pass(fd.status(), behind_file)) {
      return fd;
    }
    last = fd.status();
  }
  return last;
}

std::string text_of(const MeetingPlace& place) {
  return place.path.empty() ? "tcp://" + place.tcp.to_string() : "file://" + place.path;
}

Status write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return system_error("write " + path, errno);
    }
    text.remove_prefix(written > 0 ? static_cast<size_t>(written) : 0);
  }
  return {};
}

// Readers see the old file or the whole new one.
Status replace_file(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd.valid()) {
    return system_error("create " + temporary + " beside the rendezvous file", errno);
  }
  Status status = write_all(fd.get(), text, temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = system_error("rename " + temporary + " to " + path, errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
  }
  return status;
}

Result<Fd> listen_anywhere(uint16_t port) {
  Status last;
  for (const SocketAddress& address : SocketAddress::any(port)) {
    auto fd = listen_on(address, kBacklog);
    if (fd.ok()) {
      return fd;
    }
    last = fd.status();
  }
  return last;
}

Result<Door> open_file_door(const std::string& path, const JobKey& key) {
  HORING_ASSIGN(Fd listener, listen_anywhere(0));
  HORING_ASSIGN(const SocketAddress bound, local_address(listener.get()));
  HORING_ASSIGN(const auto addresses, interface_addresses(bound.port()));
  std::vector<HostPort> listed;
  for (const SocketAddress& address : addresses) {
    if (key.allows_address(address.host()).ok() &&
        (bound.family() == AF_INET6 || address.family() == AF_INET)) {
      listed.push_back({address.host(), bound.port()});
    }
  }
  if (listed.empty()) {
    return Status(
        StatusCode::kConnection,
        "this host has no interface with an address that is up; rank 0 cannot be reached");
  }
  const std::string text = rendezvous_file_text(listed);
  HORING_TRY(replace_file(path, text));
  Door door;
  door.listeners.push_back(std::move(listener));
  door.text = "file://" + path + " (" + listed.front().to_string() + ")";
  door.likely_address = listed.front().host;
  door.take_down = [path, text] {
    const auto now_there = read_small_file(path);
    if (now_there.ok() && *now_there == text) {
      ::unlink(path.c_str());
    }
  };
  return door;
}

Result<Door> open_tcp_door(const HostPort& place) {
  HORING_ASSIGN(const auto addresses, resolve(place.host, place.port));
  Door door;
  door.text = "tcp://" + place.to_string();
  Status last;
  for (const SocketAddress& address : addresses) {
    // Debian gives a host its own name at 127.0.1.1: others resolve it to something else.
    const bool misleading = address.is_loopback() && place.host != "localhost" &&
                            !SocketAddress::numeric(place.host, place.port).ok();
    if (misleading) {
      continue;
    }
    auto listener = listen_on(address, kBacklog);
    if (listener.ok()) {
      door.likely_address = door.listeners.empty() ? address.host() : door.likely_address;
      door.listeners.push_back(std::move(*listener));
    } else {
      last = listener.status();
    }
  }
  if (!door.listeners.empty()) {
    return door;
  }
  // HOST is not an address of this host as far as it knows (a translated or floating address).
  auto listener = listen_anywhere(place.port);
  if (!listener.ok()) {
    return listener.status().with_context(
        "rank 0 cannot listen at " + door.text + (last.ok() ? "" : " (" + last.message() + ")") +
        "; choose a free port with HORING_RENDEZVOUS=tcp://HOST:PORT (or MASTER_PORT)");
  }
  door.listeners.push_back(std::move(*listener));
  door.likely_address = addresses.front().host();
  return door;
}

}  // namespace

Result<Door> open_door(const MeetingPlace& place, const JobKey& key) {
  return place.path.empty() ? open_tcp_door(place.tcp) : open_file_door(place.path, key);
}

Result<Fd> find_door(const MeetingPlace& place,
                     const std::shared_ptr<const JobKey>& key,
                     const wire::Introduction& own,
                     Deadline deadline) {
  const bool behind_file = !place.path.empty();
  const std::string self = "rank " + std::to_string(own.rank);
  std::chrono::milliseconds pause(5);
  constexpr std::chrono::milliseconds kLongestPause(200);
  while (true) {
    const auto addresses = addresses_of(place);
    auto fd = addresses.ok() ? try_all(*addresses, key, own, deadline, behind_file)
                             : Result<Fd>(addresses.status());
    if (fd.ok()) {
      return fd;
    }
    const std::string where = self + " at the rendezvous " + text_of(place);
    if (!may_pass(fd.status(), behind_file)) {
      return fd.status().with_context(where);
    }
    if (deadline <= Clock::now() + pause) {
      const StatusCode code = fd.status().code() == StatusCode::kUnauthenticated
                                  ? StatusCode::kUnauthenticated
                                  : StatusCode::kTimeout;
      return Status(code,
                    where +
                        " did not find rank 0 before the deadline; last: " + fd.status().message() +
                        "; is rank 0 running, and is the address right on this host?");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
}

}  // namespace ho
