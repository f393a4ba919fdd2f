#include "os/local_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ho {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return invalid("a socket's path has at most " + std::to_string(sizeof address.sun_path - 1) +
                   " bytes, not " + std::to_string(path.size()) + ": " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<Fd> open_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return system_error("socket(AF_UNIX)", errno);
  }
  return fd;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Result<Fd> listen_local(const std::string& path, int backlog) {
  const std::string unfinished = path + ".new";
  HORING_ASSIGN(const sockaddr_un address, address_of(unfinished));
  HORING_ASSIGN(Fd fd, open_socket());
  (void)::unlink(unfinished.c_str());
  if (::bind(fd.get(), generic(address), sizeof address) != 0) {
    return system_error("bind(" + unfinished + ")", errno);
  }
  if (::listen(fd.get(), backlog) != 0 || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(unfinished.c_str());
    return system_error("listening at " + path, error);
  }
  return fd;
}

Result<Fd> connect_local(const std::string& path) {
  HORING_ASSIGN(const sockaddr_un address, address_of(path));
  HORING_ASSIGN(Fd fd, open_socket());
  int error = 0;
  do {
    error = ::connect(fd.get(), generic(address), sizeof address) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) {
    return fd;
  }
  const Status why = system_error("connect(" + path + ")", error);
  return error == ECONNREFUSED ? Status(StatusCode::kConnection, why.message())
         : error == EAGAIN     ? Status(StatusCode::kTimeout, why.message())
                               : why;
}

}  // namespace ho
