// Rank 0's side of the first contact: where it listens, and the file that says so.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "bootstrap/rendezvous/rendezvous_connect.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"
#include "os/written_file.hpp"

namespace ho {
namespace {

constexpr const char* kFileRemedy =
    "; let HORING_RENDEZVOUS name a file in a folder that exists, "
    "that rank 0 may write and that all hosts share";

Status not_ours(const std::string& path, const std::string& what) {
  return invalid("HORING_RENDEZVOUS names " + path + ", which is " + what +
                 " and is left as it is; name a file that does not exist yet (file:///PATH in a "
                 "folder that all hosts share), or remove that one");
}

Status in_use(const std::string& path) {
  const auto contents = read_rendezvous_file(path);
  const auto listed =
      contents.ok() ? parse_rendezvous_file(*contents) : Result<RendezvousFile>(contents.status());
  const std::string where =
      listed.ok() && !listed->addresses.empty()
          ? " (its rank 0 is at " + listed->addresses.front().to_string() + ")"
          : "";
  return invalid("HORING_RENDEZVOUS names " + path + ", where another job is starting now" + where +
                 "; give each job a file of its own, or wait until that one has begun or ended");
}

bool is_at(const Fd& fd, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd.get(), &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

struct LeftFile {
  bool is_there = false;
  Fd lock;
};

// A rank 0 that waits behind a file holds a lock on it, which ends with its process at the latest:
// so a file whose lock is free was left by a job that is dead. Of two that find such a file one
// gets the lock. Where a file cannot be locked, or its file system knows no locks, it is free.
Result<LeftFile> lock_left_file(const std::string& path) {
  // The rank 0 of an earlier try may be ending just now.
  const Deadline timeout = deadline_after(std::chrono::milliseconds(500));
  while (true) {
    Fd left(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
    if (!left.valid()) {
      return LeftFile{errno != ENOENT, Fd()};  // who creates the file is told what is wrong
    }
    const bool taken = ::flock(left.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && is_at(left, path)) {
      return LeftFile{true, std::move(left)};
    }
    if (taken && passed(timeout)) {
      return in_use(path);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Under its name at once and whole: readers see the old file or the new one. False: another rank 0
// was first to make one.
Result<bool> publish(const std::string& temporary, const std::string& path, bool replaces) {
  if (!replaces && ::link(temporary.c_str(), path.c_str()) == 0) {
    ::unlink(temporary.c_str());
    return true;
  }
  if (!replaces && errno == EEXIST) {
    return false;
  }
  // Not every file system knows links.
  if (::rename(temporary.c_str(), path.c_str()) == 0) {
    return true;
  }
  return Status(StatusCode::kSystem,
                system_error("rename " + temporary + " to " + path, errno).message() + kFileRemedy);
}

// The file, written and locked.
Result<Fd> make_file(const std::string& path, std::string_view text) {
  while (true) {
    HORING_ASSIGN(const LeftFile left, lock_left_file(path));
    HORING_TRY(check_rendezvous_file(path));
    Result<FreshFile> fresh = make_beside(path, S_IRUSR | S_IWUSR);
    if (!fresh.ok()) {
      return Status(StatusCode::kSystem,
                    "rank 0 cannot create the rendezvous file " + path + ": " +
                        fresh.status().message() + kFileRemedy);
    }
    (void)::flock(fresh->fd.get(), LOCK_EX | LOCK_NB);  // nobody else knows the name yet
    Status status = write_text(fresh->fd.get(), text, fresh->path);
    Result<bool> placed =
        status.ok() ? publish(fresh->path, path, left.is_there) : Result<bool>(std::move(status));
    if (placed.ok() && *placed) {
      return std::move(fresh->fd);
    }
    ::unlink(fresh->path.c_str());
    if (!placed.ok()) {
      return placed.status();
    }
  }
}

Result<RendezvousListeners> listen_through_file(const std::string& path,
                                                const JobKey& key,
                                                const std::string& job) {
  HORING_ASSIGN(AnyPort opened, listen_on_any_port(key));
  const std::string text = rendezvous_file_text({job, opened.addresses});
  HORING_TRY(check_rendezvous_file(path));
  HORING_ASSIGN(Fd made, make_file(path, text));
  const auto lock = std::make_shared<Fd>(std::move(made));
  RendezvousListeners listening;
  listening.listeners.push_back(std::move(opened.listener));
  listening.text = "file://" + path + " (" + opened.addresses.front().to_string() + ")";
  listening.likely_address = opened.likely_address;
  listening.take_down = [path, text, lock] {
    const auto now_there = read_rendezvous_file(path);
    if (now_there.ok() && *now_there == text) {
      ::unlink(path.c_str());
    }
    // A child that was forked meanwhile holds the lock too, but for this.
    (void)::flock(lock->get(), LOCK_UN);
    lock->reset();
  };
  return listening;
}

Result<RendezvousListeners> listen_on_tcp(const HostPort& endpoint) {
  HORING_ASSIGN(const auto addresses, resolve(endpoint.host, endpoint.port));
  RendezvousListeners listening;
  listening.text = "tcp://" + endpoint.to_string();
  Status last;
  const bool is_name = std::ranges::any_of(
      endpoint.host, [](unsigned char each) { return std::isalpha(each) != 0; });
  for (const SocketAddress& address : addresses) {
    // Debian gives a host its own name at 127.0.1.1: others resolve it to something else.
    if (address.is_loopback() && is_name && endpoint.host != "localhost") {
      continue;
    }
    auto listener = listen_on(address);
    if (listener.ok()) {
      listening.likely_address =
          listening.listeners.empty() ? address.host() : listening.likely_address;
      listening.listeners.push_back(std::move(*listener));
    } else {
      last = listener.status();
    }
  }
  if (!listening.listeners.empty()) {
    return listening;
  }
  // HOST is not an address of this host as far as it knows (a translated or floating address).
  auto listener = listen_anywhere(endpoint.port);
  if (!listener.ok()) {
    return listener.status().with_context(
        "rank 0 cannot listen at " + listening.text +
        (last.ok() ? "" : " (" + last.message() + ")") +
        "; choose a free port with HORING_RENDEZVOUS=tcp://HOST:PORT (or MASTER_PORT)");
  }
  listening.listeners.push_back(std::move(*listener));
  listening.likely_address = addresses.front().host();
  return listening;
}

}  // namespace

Result<AnyPort> listen_on_any_port(const JobKey& key) {
  AnyPort opened;
  HORING_ASSIGN(opened.listener, listen_anywhere(0));
  HORING_ASSIGN(const SocketAddress bound, local_address(opened.listener.get()));
  HORING_ASSIGN(const auto addresses, interface_addresses(bound.port()));
  // Also addresses that may not be used without a key: whoever comes there with one is told so.
  for (const SocketAddress& address : addresses) {
    if (bound.family() == AF_INET6 || address.family() == AF_INET) {
      opened.addresses.push_back({address.host(), bound.port()});
      if (opened.likely_address.empty() && key.allows_address(address.host()).ok()) {
        opened.likely_address = address.host();
      }
    }
  }
  if (opened.addresses.empty()) {
    return Status(
        StatusCode::kConnection,
        "this host has no interface with an address that is up; rank 0 cannot be reached");
  }
  if (opened.likely_address.empty()) {
    opened.likely_address = opened.addresses.front().host;
  }
  return opened;
}

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

// Beside this user and root, whoever has the folder may do there what it likes; and file systems
// that give all files to one user show that one. To root they may show nobody.
Status check_rendezvous_owner(const std::string& path) {
  constexpr uid_t kNobody = 65534;
  struct stat about {};
  struct stat folder {};
  if (::lstat(path.c_str(), &about) != 0) {
    return {};
  }
  const uid_t self = ::geteuid();
  const uid_t owner = about.st_uid;
  const std::string parent = path.substr(0, path.find_last_of('/') + 1);
  const bool of_folder = ::stat(parent.c_str(), &folder) == 0 && folder.st_uid == owner;
  if (owner == self || owner == 0 || of_folder || (self == 0 && owner == kNobody)) {
    return {};
  }
  return {StatusCode::kUnauthenticated,
          path + " belongs to user " + std::to_string(owner) + ", not to this one (" +
              std::to_string(self) +
              "), and is not followed; let HORING_RENDEZVOUS name a file in a folder where no "
              "other user may write"};
}

Result<RendezvousListeners> listen_for_rendezvous(const RendezvousEndpoint& endpoint,
                                                  const JobKey& key,
                                                  const std::string& job) {
  return endpoint.path.empty() ? listen_on_tcp(endpoint.tcp)
                               : listen_through_file(endpoint.path, key, job);
}

}  // namespace ho
