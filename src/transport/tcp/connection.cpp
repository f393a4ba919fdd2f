#include "transport/tcp/connection.hpp"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ho::tcp {
namespace {

using Iovecs = std::array<iovec, Link::kMaxParts + 1>;

// Appends `parts` from byte `offset` on, at most `limit` bytes; returns the bytes appended.
template <typename Part>
size_t append(Iovecs& to, size_t& count, std::span<const Part> parts, size_t offset, size_t limit) {
  size_t appended = 0;
  for (const Part& part : parts) {
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    const size_t size = std::min(part.size() - offset, limit - appended);
    if (size == 0 || count == to.size()) {
      break;
    }
    // sendmsg takes non-const pointers but only reads.
    to.at(count) = {const_cast<std::byte*>(part.data()) + offset, size};  // NOLINT
    ++count;
    appended += size;
    offset = 0;
  }
  return appended;
}

Status lost_connection(const char* call, int errno_value) {
  if (errno_value == ECONNRESET || errno_value == EPIPE) {
    return {StatusCode::kPeerLost,
            "the peer reset the connection: its process has ended or given up; look at its log"};
  }
  if (errno_value == ETIMEDOUT || errno_value == EHOSTUNREACH || errno_value == ENETUNREACH ||
      errno_value == ENETDOWN || errno_value == EHOSTDOWN || errno_value == ENONET ||
      errno_value == EPERM || errno_value == EPROTO) {
    return {StatusCode::kConnection,
            "the rail is down (" + system_error(call, errno_value).message() +
                "): check cable, switch port and interface on both ends"};
  }
  return {StatusCode::kConnection, system_error(call, errno_value).message()};
}

Status closed_by_peer() {
  return {StatusCode::kPeerLost,
          "the peer closed the connection: its process has ended or given up; look at its log"};
}

}  // namespace

Connection::Connection(std::unique_ptr<Socket> socket, size_t ahead_bytes)
    : socket_(std::move(socket)), ahead_(ahead_bytes) {
  // What arrived during the handshake made no edge of its own.
  socket_->readable = true;
  socket_->writable = true;
}

Result<size_t> Connection::write(const FrameBytes& header,
                                 std::span<const ConstBytes> parts,
                                 size_t offset,
                                 size_t limit) {
  Iovecs iovecs;  // NOLINT: filled by append
  size_t count = 0;
  size_t requested = 0;
  if (offset < kFrameBytes) {
    const std::array<ConstBytes, 1> head{ConstBytes(header)};
    requested = append(iovecs, count, std::span<const ConstBytes>(head), offset, limit);
  }
  requested += append(
      iovecs, count, parts, offset < kFrameBytes ? 0 : offset - kFrameBytes, limit - requested);
  return write(std::span(iovecs).first(count), requested);
}

Result<size_t> Connection::write(std::span<iovec> buffers, size_t bytes) {
  msghdr message{};
  message.msg_iov = buffers.data();
  message.msg_iovlen = buffers.size();
  while (socket_->writable) {
    const ssize_t written = ::sendmsg(socket_->fd.get(), &message, MSG_NOSIGNAL);
    if (written >= 0) {
      // A short write filled the buffer: the next edge comes when it has room.
      socket_->writable = static_cast<size_t>(written) == bytes;
      written_bytes_ += static_cast<size_t>(written);
      return static_cast<size_t>(written);
    }
    if (errno == EAGAIN) {
      socket_->writable = false;
    } else if (errno != EINTR) {
      return lost_connection("send", errno);
    }
  }
  return size_t{0};
}

Result<size_t> Connection::read_into(std::span<iovec> buffers) {
  size_t requested = 0;
  for (const iovec& buffer : buffers) {
    requested += buffer.iov_len;
  }
  while (socket_->readable) {
    const ssize_t got =
        ::readv(socket_->fd.get(), buffers.data(), static_cast<int>(buffers.size()));
    if (got > 0) {
      // A short read emptied the buffer; the connection's end behind it has its own edge.
      socket_->readable = socket_->hung_up || static_cast<size_t>(got) == requested;
      return static_cast<size_t>(got);
    }
    if (got == 0) {
      return closed_by_peer();
    }
    if (errno == EAGAIN) {
      socket_->readable = false;
    } else if (errno != EINTR) {
      return lost_connection("recv", errno);
    }
  }
  return size_t{0};
}

Result<bool> Connection::fill_ahead() {
  const size_t held = ahead_end_ - ahead_begin_;
  ahead_.resize(kAheadBytes);
  if (ahead_begin_ > 0) {
    std::memmove(ahead_.data(), ahead_.data() + ahead_begin_, held);
    ahead_begin_ = 0;
    ahead_end_ = held;
  }
  std::array<iovec, 1> buffer{iovec{ahead_.data() + held, ahead_.size() - held}};
  HORING_ASSIGN(const size_t got, read_into(buffer));
  ahead_end_ += got;
  return got > 0;
}

Result<bool> Connection::fetch(size_t bytes) {
  while (ahead_end_ - ahead_begin_ < bytes) {
    HORING_ASSIGN(const bool filled, fill_ahead());
    if (!filled) {
      return false;
    }
  }
  return true;
}

Result<size_t> Connection::read(Bytes to) {
  if (ahead_begin_ < ahead_end_) {
    return take_ahead(to.data(), to.size());
  }
  ahead_.resize(kAheadBytes);
  std::array<iovec, 2> both{iovec{to.data(), to.size()}, iovec{ahead_.data(), ahead_.size()}};
  HORING_ASSIGN(const size_t got, read_into(both));
  ahead_begin_ = 0;
  ahead_end_ = got - std::min(got, to.size());
  return std::min(got, to.size());
}

size_t Connection::take_ahead(std::byte* to, size_t limit) {
  const size_t size = std::min(limit, ahead_end_ - ahead_begin_);
  if (size > 0) {
    std::memcpy(to, ahead_.data() + ahead_begin_, size);
    ahead_begin_ += size;
  }
  if (ahead_begin_ == ahead_end_ && ahead_.size() > kAheadBytes) {
    // It had grown for what was put back, which is rare.
    ahead_ = {};
    ahead_begin_ = 0;
    ahead_end_ = 0;
  }
  return size;
}

Result<bool> Connection::read_header(HeaderRead how, std::span<const Bytes> parts) {
  while (!header_complete()) {
    const size_t taken = take_ahead(header_.data() + header_bytes_, kFrameBytes - header_bytes_);
    header_bytes_ += taken;
    if (taken > 0) {
      continue;
    }
    if (how == HeaderRead::kAhead) {
      HORING_ASSIGN(const bool filled, fill_ahead());
      if (!filled) {
        return false;
      }
      continue;
    }
    Iovecs iovecs;  // NOLINT: filled here
    const size_t missing = kFrameBytes - header_bytes_;
    iovecs[0] = {header_.data() + header_bytes_, missing};
    size_t count = 1;
    if (how == HeaderRead::kWithPayload) {
      append(iovecs, count, parts, 0, kMaxPayloadBytes);
    }
    HORING_ASSIGN(const size_t got, read_into(std::span(iovecs).first(count)));
    if (got == 0) {
      return false;
    }
    header_bytes_ += std::min(got, missing);
    payload_bytes_ += got - std::min(got, missing);
  }
  return true;
}

Result<bool> Connection::read_payload(std::span<const Bytes> parts, size_t total) {
  // First what was read ahead, part by part.
  size_t part_begin = 0;
  for (const Bytes& part : parts) {
    if (payload_bytes_ < part_begin) {
      break;  // nothing is left of it
    }
    if (payload_bytes_ < part_begin + part.size()) {
      const size_t skip = payload_bytes_ - part_begin;
      payload_bytes_ += take_ahead(part.data() + skip, part.size() - skip);
    }
    part_begin += part.size();
  }
  while (payload_bytes_ < total) {
    Iovecs iovecs;  // NOLINT: filled by append
    size_t count = 0;
    append(iovecs, count, parts, payload_bytes_, total - payload_bytes_);
    HORING_ASSIGN(const size_t got, read_into(std::span(iovecs).first(count)));
    if (got == 0) {
      return false;
    }
    payload_bytes_ += got;
  }
  return true;
}

void Connection::next_message() {
  header_bytes_ = 0;
  payload_bytes_ = 0;
  // The mark may have held back the edge of what follows: look before waiting for one.
  socket_->readable |= low_water_bytes_ > 1;
}

void Connection::next_message_after_bare_header(std::span<const Bytes> parts) {
  if (payload_bytes_ > 0) {
    // Nothing is ahead: bytes go into the parts only once that is used up.
    ahead_.resize(std::max(payload_bytes_, kAheadBytes));
    ahead_begin_ = 0;
    ahead_end_ = 0;
    for (const Bytes& part : parts) {
      const size_t size = std::min(part.size(), payload_bytes_ - ahead_end_);
      std::copy_n(part.begin(), size, ahead_.begin() + static_cast<ptrdiff_t>(ahead_end_));
      ahead_end_ += size;
    }
  }
  next_message();
}

void Connection::await_rest(HeaderRead how, size_t payload_bytes) {
  const size_t missing = how == HeaderRead::kAlone && !header_complete()
                             ? kFrameBytes - header_bytes_
                             : kFrameBytes - header_bytes_ + payload_bytes - payload_bytes_;
  set_low_water(missing <= kSmallPayloadBytes ? 1 : std::min(missing, kMaxLowWaterBytes));
}

void Connection::set_low_water(size_t wanted) {
  if (wanted == low_water_bytes_) {
    return;
  }
  // The kernel makes an edge at once when enough is there already.
  const int value = static_cast<int>(wanted);
  if (::setsockopt(socket_->fd.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value) == 0) {
    low_water_bytes_ = wanted;
  }
}

bool Connection::at_end() const {
  std::byte next{};
  const ssize_t got = ::recv(socket_->fd.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool more = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  return !more && ahead_begin_ == ahead_end_;
}

bool Connection::look_below_mark() {
  int waiting = 0;
  if (low_water_bytes_ > 1 && ::ioctl(socket_->fd.get(), FIONREAD, &waiting) == 0 && waiting > 0) {
    socket_->readable = true;
    return true;
  }
  return false;
}

Status Connection::check_alive(const LookAtConnection& look) {
  const std::optional<tcp_info> details = look(socket_->fd.get());
  return details ? answers_.check(*details) : Status();
}

Status Connection::check_alive(const LookAtConnection& look, std::chrono::milliseconds silence) {
  const std::optional<tcp_info> details = look(socket_->fd.get());
  return details ? answers_.check(*details, silence) : Status();
}

bool Connection::unanswered(const LookAtConnection& look) const {
  const std::optional<tcp_info> details = look(socket_->fd.get());
  return details && tcp::unanswered(*details);
}

Status Connection::ended() const {
  if (!socket_->hung_up) {
    return {};
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_->fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? closed_by_peer() : lost_connection("recv", error);
}

uint64_t Connection::acknowledged_bytes(const CountUnacknowledged& count) const {
  const std::optional<uint64_t> unacknowledged = count(socket_->fd.get());
  return unacknowledged ? written_bytes_ - std::min(*unacknowledged, written_bytes_) : 0;
}

size_t Connection::drain() {
  std::vector<std::byte> all(ahead().begin(), ahead().end());
  int waiting = 0;  // not what comes meanwhile: a peer that goes on must not keep this thread
  if (drained() || ::ioctl(socket_->fd.get(), FIONREAD, &waiting) != 0) {
    waiting = 0;
  }
  size_t held = all.size();
  all.resize(held + static_cast<size_t>(waiting));
  while (held < all.size()) {
    const ssize_t got =
        ::recv(socket_->fd.get(), all.data() + held, all.size() - held, MSG_DONTWAIT);
    if (got > 0) {
      held += static_cast<size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      break;
    }
  }
  all.resize(held);
  ahead_ = std::move(all);
  ahead_begin_ = 0;
  ahead_end_ = ahead_.size();
  socket_->close();
  socket_->readable = false;
  socket_->writable = false;
  low_water_bytes_ = 1;
  return whole_messages();
}

// The head's header and payload may have been taken in part.
size_t Connection::whole_messages() const {
  size_t count = 0;
  FrameBytes header = header_;
  size_t header_bytes = header_bytes_;
  size_t payload_bytes = payload_bytes_;
  std::span<const std::byte> rest = ahead();
  while (rest.size() >= kFrameBytes - header_bytes) {
    std::copy_n(rest.begin(),
                kFrameBytes - header_bytes,
                header.begin() + static_cast<ptrdiff_t>(header_bytes));
    rest = rest.subspan(kFrameBytes - header_bytes);
    const Result<Frame> frame = decode(header);
    if (!frame.ok() || rest.size() + payload_bytes < frame->payload_bytes) {
      break;
    }
    rest =
        rest.subspan(frame->payload_bytes - std::min<size_t>(payload_bytes, frame->payload_bytes));
    count += frame->type == Frame::Type::kData ? size_t{1} : size_t{0};
    header_bytes = 0;
    payload_bytes = 0;
  }
  return count;
}

// Closing a socket that holds unread bytes, or that gets some afterwards, resets the connection,
// and a reset takes back what the peer's host has not acknowledged.
bool Connection::finish_output() {
  constexpr int kMaxReads = 64;
  const int fd = socket_->fd.get();
  if (!output_ended_) {
    ::shutdown(fd, SHUT_WR);
    output_ended_ = true;
  }
  std::array<std::byte, 16384> unread;  // NOLINT: thrown away
  for (int reads = 0; reads < kMaxReads; ++reads) {
    if (::recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) <= 0) {
      break;
    }
  }
  // What a broken connection did not deliver stays unacknowledged for ever.
  const std::optional<tcp_info> details = look_at_connection(fd);
  if (!details || details->tcpi_state == TCP_CLOSE) {
    return false;
  }
  int unacknowledged = 0;
  return ::ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0;
}

}  // namespace ho::tcp
