// Rank 0's side of the first contact: where it listens, and the file that says so.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "bootstrap/meeting.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

constexpr int kBacklog = 1024;
constexpr const char* kFileRemedy =
    "; let HORING_RENDEZVOUS name a file in a folder that exists, "
    "that rank 0 may write and that all hosts share";

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

Status not_ours(const std::string& path, const std::string& what) {
  return {StatusCode::kInvalidArgument,
          "HORING_RENDEZVOUS names " + path + ", which is " + what +
              " and is left as it is; name a file that does not exist yet (file:///PATH in a "
              "folder that all hosts share), or remove that one"};
}

// Readers see the old file or the whole new one.
Status replace_file(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd.valid()) {
    return {StatusCode::kSystem,
            system_error("rank 0 cannot create the rendezvous file " + path, errno).message() +
                kFileRemedy};
  }
  Status status = write_all(fd.get(), text, temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = {StatusCode::kSystem,
              system_error("rename " + temporary + " to " + path, errno).message() + kFileRemedy};
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
  // Also addresses that may not be used without a key: whoever comes there with one is told so.
  std::vector<HostPort> listed;
  std::string likely_address;
  for (const SocketAddress& address : addresses) {
    if (bound.family() == AF_INET6 || address.family() == AF_INET) {
      listed.push_back({address.host(), bound.port()});
      if (likely_address.empty() && key.allows_address(address.host()).ok()) {
        likely_address = address.host();
      }
    }
  }
  if (listed.empty()) {
    return Status(
        StatusCode::kConnection,
        "this host has no interface with an address that is up; rank 0 cannot be reached");
  }
  const std::string text = rendezvous_file_text(listed);
  HORING_TRY(check_rendezvous_file(path));
  HORING_TRY(replace_file(path, text));
  Door door;
  door.listeners.push_back(std::move(listener));
  door.text = "file://" + path + " (" + listed.front().to_string() + ")";
  door.likely_address = likely_address.empty() ? listed.front().host : likely_address;
  door.take_down = [path, text] {
    const auto now_there = read_rendezvous_file(path);
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

Result<std::string> read_rendezvous_file(const std::string& path) {
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

Status check_rendezvous_file(const std::string& path) {
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) {
    return {};  // nothing is there; what else may be wrong, who creates or reads it is told
  }
  if (!S_ISREG(about.st_mode)) {
    return not_ours(path,
                    S_ISDIR(about.st_mode)   ? "a folder"
                    : S_ISLNK(about.st_mode) ? "a symbolic link"
                                             : "no regular file");
  }
  const auto contents = read_rendezvous_file(path);
  if (!contents.ok()) {
    return not_ours(path, "a file that cannot be read (" + contents.status().message() + ")");
  }
  return may_replace_rendezvous_file(*contents)
             ? Status()
             : not_ours(path, "a file that HO-Ring did not write");
}

Result<Door> open_door(const MeetingPlace& place, const JobKey& key) {
  return place.path.empty() ? open_tcp_door(place.tcp) : open_file_door(place.path, key);
}

}  // namespace ho
