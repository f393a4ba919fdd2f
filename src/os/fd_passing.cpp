#include "os/fd_passing.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ho {
namespace {

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

Result<AbstractAddress> abstract_address(const std::string& name) {
  AbstractAddress result;
  result.address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(result.address.sun_path)) {
    return invalid("abstract socket name of " + std::to_string(name.size()) + " bytes");
  }
  // A leading zero byte makes the name abstract.
  std::memcpy(result.address.sun_path + 1, name.data(), name.size());
  result.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

const sockaddr* generic(const AbstractAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.address);
}

Result<Fd> unix_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return system_error("socket(AF_UNIX)", errno);
  }
  return fd;
}

bool may_open_more(const Fd& open) {
  const Fd copy(::fcntl(open.get(), F_DUPFD_CLOEXEC, 0));
  return copy.valid() || (errno != EMFILE && errno != ENFILE);
}

// Room for the descriptors of one message, aligned as the kernel wants it.
struct alignas(cmsghdr) Control {
  std::array<std::byte, CMSG_SPACE(kMaxPassedFds * sizeof(int))> bytes{};
};

std::vector<Fd> take_fds(msghdr& header) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<Fd> listen_abstract(const std::string& name, int backlog) {
  HORING_ASSIGN(const AbstractAddress address, abstract_address(name));
  HORING_ASSIGN(Fd fd, unix_socket());
  if (::bind(fd.get(), generic(address), address.bytes) != 0) {
    return system_error("bind(@" + name + ")", errno);
  }
  if (::listen(fd.get(), backlog) != 0) {
    return system_error("listen(@" + name + ")", errno);
  }
  return fd;
}

Result<Fd> connect_abstract(const std::string& name, Deadline deadline) {
  HORING_ASSIGN(const AbstractAddress address, abstract_address(name));
  HORING_ASSIGN(Fd fd, unix_socket());
  while (::connect(fd.get(), generic(address), address.bytes) != 0) {
    if (errno == EINTR) {
      continue;
    }
    if (errno == ECONNREFUSED) {
      return Status(StatusCode::kConnection,
                    system_error("connect(@" + name + ")", errno).message());
    }
    if (errno != EAGAIN) {
      return system_error("connect(@" + name + ")", errno);
    }
    if (passed(deadline)) {
      return Status(StatusCode::kTimeout, "connect(@" + name + "): the peer accepts nobody");
    }
    ::poll(nullptr, 0, 1);  // Unix sockets do not announce room in a listener's queue
  }
  return fd;
}

Result<Fd> accept_waiting(const Fd& listener) {
  Fd fd;
  do {
    fd = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  } while (!fd.valid() && (errno == EINTR || errno == ECONNABORTED));
  if (!fd.valid() && errno != EAGAIN) {
    return system_error("accept on an abstract Unix socket", errno);
  }
  return fd;
}

Result<ProcessCredentials> peer_credentials(const Fd& connection) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return system_error("getsockopt(SO_PEERCRED)", errno);
  }
  return ProcessCredentials{credentials.pid, credentials.uid};
}

Status send_with_fds(const Fd& connection,
                     std::span<const std::byte> message,
                     std::span<const int> fds,
                     Deadline deadline) {
  if (fds.size() > kMaxPassedFds) {
    return invalid("more descriptors than one message may carry");
  }
  Control control;
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(connection.get(), &header, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) {
      return {StatusCode::kPeerLost, system_error("sending file descriptors", errno).message()};
    }
    if (errno != EINTR && errno != EAGAIN) {
      return system_error("sending file descriptors", errno);
    }
    if (passed(deadline)) {
      return {StatusCode::kTimeout, "sending file descriptors: the peer does not read"};
    }
    pollfd writable{connection.get(), POLLOUT, 0};
    ::poll(&writable, 1, 10);
  }
  return {};
}

Result<ReceivedFds> receive_with_fds(const Fd& connection, std::span<std::byte> message) {
  Control control;
  iovec part{message.data(), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(connection.get(), &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return system_error("receiving file descriptors", errno);
  }
  ReceivedFds received;
  received.message_bytes = static_cast<size_t>(got);
  received.fds = take_fds(header);
  // There was room for all that may come with a message, unless descriptors have run out.
  if ((header.msg_flags & MSG_CTRUNC) != 0 && !may_open_more(connection)) {
    received.fds_lost = true;
    return received;
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Status(StatusCode::kProtocol, "file descriptor message is longer than expected");
  }
  return received;
}

}  // namespace ho
