#include "core/carried/side_connection.hpp"

#include <utility>

namespace ho::plugin {
namespace {

constexpr int32_t kTag = 0;

Status ended() {
  return {StatusCode::kPeerLost, "the connection on which the two ends find each other has ended"};
}

}  // namespace

SideConnection& SideConnection::operator=(SideConnection&& other) noexcept {
  if (this != &other) {
    close();
    net_ = other.net_;
    comm_ = std::exchange(other.comm_, nullptr);
    side_ = other.side_;
    request_ = std::exchange(other.request_, nullptr);
    peer_ = std::move(other.peer_);
  }
  return *this;
}

void SideConnection::close() {
  if (void* const comm = std::exchange(comm_, nullptr); comm != nullptr) {
    (void)(side_ == Side::kSends ? net_->close_send(comm) : net_->close_recv(comm));
  }
}

Result<bool> SideConnection::tested(int32_t* size) {
  int32_t done = 0;
  if (net_->test(request_, &done, size) != Reply::kSuccess) {
    return ended();
  }
  if (done != 0) {
    request_ = nullptr;
  }
  return done != 0;
}

Result<bool> SideConnection::send(std::span<const std::byte> data) {
  if (request_ == nullptr) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): NCCL's interface has no const
    void* const bytes = const_cast<std::byte*>(data.data());
    if (net_->isend(comm_, {bytes, data.size(), kTag, nullptr, nullptr}, &request_) !=
        Reply::kSuccess) {
      return ended();
    }
  }
  return request_ == nullptr ? Result<bool>(false) : tested(nullptr);
}

Result<size_t> SideConnection::receive(std::span<std::byte> into) {
  if (request_ == nullptr) {
    void* to = into.data();
    const size_t bytes = into.size();
    const int32_t tag = kTag;
    void* memory = nullptr;
    void* profile = nullptr;
    if (net_->irecv(comm_, {1, &to, &bytes, &tag, &memory, &profile}, &request_) !=
        Reply::kSuccess) {
      return ended();
    }
  }
  int32_t size = 0;
  bool done = false;
  if (request_ != nullptr) {
    HORING_ASSIGN(done, tested(&size));
  }
  return static_cast<size_t>(done ? size : 0);
}

bool SideConnection::is_open() const {
  return net_->is_open(comm_);
}

}  // namespace ho::plugin
