#include <algorithm>
#include <cstring>
#include <thread>

#include "net_conformance.hpp"
#include "sanitizers.hpp"

namespace ho::plugin::conformance {
namespace {

constexpr uint64_t kSlowness = test::kSanitized ? 20 : 1;

Deadline limit() {
  return deadline_after(std::chrono::seconds(60));
}

Status too_late(const char* call) {
  return {StatusCode::kTimeout, std::string(call) + " got no further within a minute"};
}

// Mixes position and seed, eight bytes at a time.
uint64_t word_of(uint64_t seed, size_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15U + index * 0xD1B54A32D192ED03U + 1;
  x ^= x >> 29U;
  return x * 0xBF58476D1CE4E5B9U;
}

}  // namespace

Status as_status(Reply reply, const char* call) {
  if (reply == Reply::kSuccess) {
    return {};
  }
  return {StatusCode::kInternal,
          std::string(call) + " replied " + std::to_string(static_cast<int32_t>(reply))};
}

uint64_t scaled(uint64_t count) {
  return count / kSlowness;
}

std::vector<std::byte> pattern(uint64_t seed, size_t byte_count) {
  std::vector<std::byte> bytes(byte_count);
  for (size_t at = 0; at < byte_count; at += sizeof(uint64_t)) {
    const uint64_t word = word_of(seed, at);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, byte_count - at));
  }
  return bytes;
}

Status check_pattern(uint64_t seed, const std::byte* data, size_t byte_count) {
  for (size_t at = 0; at < byte_count; at += sizeof(uint64_t)) {
    const uint64_t word = word_of(seed, at);
    if (std::memcmp(data + at, &word, std::min(sizeof word, byte_count - at)) != 0) {
      return {StatusCode::kInternal,
              "message " + std::to_string(seed) + " of " + std::to_string(byte_count) +
                  " bytes differs at byte " + std::to_string(at)};
    }
  }
  return {};
}

Status Pair::connect() {
  std::vector<std::byte> handle(kHandleBytes);
  void* listener = nullptr;
  HORING_TRY(as_status(net->open(opening, &context), "open"));
  HORING_TRY(as_status(net->listen(context, 0, handle.data(), &listener), "listen"));
  Status status;
  for (const Deadline deadline = limit(); send == nullptr || receive == nullptr;) {
    if (send == nullptr) {
      status = as_status(
          net->connect(context, connecting_device, traffic_class, handle.data(), &send, nullptr),
          "connect");
    }
    if (status.ok() && receive == nullptr) {
      status = as_status(net->accept(listener, &receive, nullptr), "accept");
    }
    if (status.ok() && passed(deadline)) {
      status = too_late("connect or accept");
    }
    if (!status.ok()) {
      break;
    }
  }
  const Status closed = as_status(net->close_listen(listener), "close_listen");
  return status.ok() ? closed : status;
}

void Pair::close() {
  if (send != nullptr) {
    static_cast<void>(net->close_send(send));
  }
  if (receive != nullptr) {
    static_cast<void>(net->close_recv(receive));
  }
  if (context != nullptr) {
    static_cast<void>(net->close(context));
  }
  send = nullptr;
  receive = nullptr;
  context = nullptr;
}

End Pair::sender() const {
  return {*net, send, takes_both ? &receive : nullptr};
}

End Pair::receiver() const {
  return {*net, receive, takes_both ? &send : nullptr};
}

void End::pause() const {
  if (other_ != nullptr && *other_ != nullptr) {
    net_->look(*other_);
  }
  std::this_thread::yield();
}

Result<void*> End::try_send(const std::byte* data, size_t bytes, int32_t tag) {
  void* request = nullptr;
  // Only read from.
  auto* const plain = const_cast<std::byte*>(data);  // NOLINT
  HORING_TRY(
      as_status(net_->isend(comm_, {plain, bytes, tag, nullptr, nullptr}, &request), "isend"));
  return request;
}

Result<void*> End::try_receive(const std::vector<Part>& parts) {
  std::vector<void*> data;
  std::vector<size_t> bytes;
  std::vector<int32_t> tags;
  for (const Part& part : parts) {
    data.push_back(part.data);
    bytes.push_back(part.bytes);
    tags.push_back(part.tag);
  }
  std::vector<void*> none(parts.size());
  void* request = nullptr;
  HORING_TRY(as_status(net_->irecv(comm_,
                                   {static_cast<int32_t>(parts.size()),
                                    data.data(),
                                    bytes.data(),
                                    tags.data(),
                                    none.data(),
                                    none.data()},
                                   &request),
                       "irecv"));
  return request;
}

Result<void*> End::send(const std::byte* data, size_t bytes, int32_t tag) {
  for (const Deadline deadline = limit(); !passed(deadline); pause()) {
    HORING_ASSIGN(void* const request, try_send(data, bytes, tag));
    if (request != nullptr) {
      return request;
    }
  }
  return too_late("isend");
}

Result<void*> End::receive(const std::vector<Part>& parts) {
  for (const Deadline deadline = limit(); !passed(deadline); pause()) {
    HORING_ASSIGN(void* const request, try_receive(parts));
    if (request != nullptr) {
      return request;
    }
  }
  return too_late("irecv");
}

Result<bool> End::test(void* request) {
  int32_t done = 0;
  HORING_TRY(as_status(net_->test(request, &done, nullptr), "test"));
  return done != 0;
}

Result<std::vector<size_t>> End::finish(void* request, size_t count) {
  std::vector<int32_t> sizes(count);
  for (const Deadline deadline = limit(); !passed(deadline); pause()) {
    int32_t done = 0;
    HORING_TRY(as_status(net_->test(request, &done, sizes.data()), "test"));
    if (done != 0) {
      return std::vector<size_t>(sizes.begin(), sizes.end());
    }
  }
  return too_late("test");
}

std::string run_both(const std::function<Status()>& one, const std::function<Status()>& other) {
  Status from_other;
  std::thread thread([&] { from_other = other(); });
  const Status from_one = one();
  thread.join();
  return (from_one.ok() ? "" : from_one.to_string()) +
         (from_other.ok() ? "" : " | " + from_other.to_string());
}

}  // namespace ho::plugin::conformance
