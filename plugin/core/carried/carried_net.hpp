// The builtin network with another carrier for the data. Devices, handles and proofs are those of
// the builtin network, whose TCP connection is where the two ends of a comm find each other; on it
// they agree on how the carrier reaches both.
//
// Types names what a carrier has: End (what its comms are made from), Call and Answer (the two ends
// of a comm in the making: start(End, SideConnection), then step() until there is one), Comm with
// SendComm and RecvComm, and Request.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/builtin/net_calls.hpp"
#include "core/carried/side_connection.hpp"
#include "core/driver/handles.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin {

template <typename Types>
class CarriedNet : public NetDriver {
 public:
  using End = typename Types::End;
  using Call = typename Types::Call;
  using Answer = typename Types::Answer;
  using Comm = typename Types::Comm;
  using SendComm = typename Types::SendComm;
  using RecvComm = typename Types::RecvComm;
  using Request = typename Types::Request;

  CarriedNet(const CarriedNet&) = delete;
  CarriedNet& operator=(const CarriedNet&) = delete;
  ~CarriedNet() override = default;

  [[nodiscard]] const char* name() const override { return tcp_->name(); }
  [[nodiscard]] std::string left_out() const override { return tcp_->left_out(); }

  [[nodiscard]] Reply open(const Opening& opening, void** context) override {
    return tcp_->open(opening, context);
  }
  [[nodiscard]] Reply close(void* context) override {
    pending_.remove_all(context);
    return tcp_->close(context);
  }
  [[nodiscard]] Reply device_count(int32_t* count) override { return tcp_->device_count(count); }
  [[nodiscard]] Reply properties(int32_t device, DeviceProperties* properties) override {
    return tcp_->properties(device, properties);
  }

  [[nodiscard]] Reply listen(void* context,
                             int32_t device,
                             void* handle,
                             void** listener) override {
    *listener = nullptr;
    // What the carrier lacks on this device is found before a peer waits.
    if (const auto end = end_of(context, device, kNoTrafficClass); !end.ok()) {
      return answer(end.status());
    }
    auto made = std::make_unique<Listener>();
    made->context = context;
    made->device = device;
    const Reply reply = tcp_->listen(context, device, handle, &made->of_tcp);
    if (reply == Reply::kSuccess) {
      *listener = made.get();
      const std::lock_guard lock(mutex_);
      made->owner = tcp_->owner_of(context);
      listeners_[*listener] = std::move(made);
    }
    return reply;
  }
  [[nodiscard]] Reply close_listen(void* listener) override {
    const std::unique_ptr<Listener> gone = take_out(mutex_, listeners_, listener);
    return gone == nullptr ? Reply::kInvalidArgument : tcp_->close_listen(gone->of_tcp);
  }

  [[nodiscard]] Reply connect(void* context,
                              int32_t device,
                              int32_t traffic_class,
                              void* handle,
                              void** comm,
                              void** device_handle) override {
    *comm = nullptr;
    const auto bytes = handle_bytes(handle);
    const PendingKey key = pending_key(context, device, bytes);
    std::shared_ptr<Call> call = pending_.find(local_id(bytes), key);
    if (call == nullptr) {
      void* line = nullptr;
      const Reply reply =
          tcp_->connect(context, device, traffic_class, handle, &line, device_handle);
      if (reply != Reply::kSuccess || line == nullptr) {
        return reply;
      }
      SideConnection side(*tcp_, line, SideConnection::Side::kSends);
      auto begun = begin_call(context, traffic_class, std::move(side), bytes, key);
      if (!begun.ok()) {
        return answer(begun.status());
      }
      call = *std::move(begun);
    }
    auto made = call->step();
    if (made.ok() && *made == nullptr) {
      return Reply::kSuccess;
    }
    pending_.remove(local_id(bytes));
    set_local_id(bytes, 0);
    if (!made.ok()) {
      return answer(made.status());
    }
    *comm = keep(*std::move(made), tcp_->owner_of(context));
    return Reply::kSuccess;
  }

  [[nodiscard]] Reply accept(void* listener, void** comm, void** device_handle) override {
    *comm = nullptr;
    auto& listens = *static_cast<Listener*>(listener);
    if (listens.answer == nullptr) {
      void* line = nullptr;
      const Reply reply = tcp_->accept(listens.of_tcp, &line, device_handle);
      if (reply != Reply::kSuccess || line == nullptr) {
        return reply;
      }
      SideConnection side(*tcp_, line, SideConnection::Side::kReceives);
      auto end = end_of(listens.context, listens.device, kNoTrafficClass);
      auto begun = end.ok() ? Answer::start(*end, std::move(side))
                            : Result<std::unique_ptr<Answer>>(end.status());
      if (!begun.ok()) {
        return answer(begun.status());
      }
      listens.answer = *std::move(begun);
    }
    auto made = listens.answer->step();
    if (!made.ok() || *made != nullptr) {
      listens.answer = nullptr;
    }
    if (!made.ok()) {
      return answer(made.status());
    }
    if (*made != nullptr) {
      *comm = keep(*std::move(made), listens.owner);
    }
    return Reply::kSuccess;
  }

  [[nodiscard]] Reply close_send(void* comm) override {
    const std::unique_ptr<Comm> taken = take_out(mutex_, comms_, comm).comm;
    return taken == nullptr ? Reply::kInvalidArgument : Reply::kSuccess;
  }
  [[nodiscard]] Reply close_recv(void* comm) override { return close_send(comm); }

  [[nodiscard]] Reply register_memory(
      void* comm, void* data, size_t bytes, int32_t kind, void** memory) override {
    return tcp_->register_memory(comm, data, bytes, kind, memory);
  }
  [[nodiscard]] Reply register_dma_buf(void* comm, const DmaBuf& buffer, void** memory) override {
    return tcp_->register_dma_buf(comm, buffer, memory);
  }
  [[nodiscard]] Reply deregister(void* comm, void* memory) override {
    return tcp_->deregister(comm, memory);
  }

  [[nodiscard]] Reply isend(void* comm, const Send& send, void** request) override {
    Request* made = nullptr;
    const Reply reply =
        static_cast<SendComm*>(comm_of(comm))
            ->isend({static_cast<const std::byte*>(send.data), send.bytes}, send.tag, &made);
    *request = made;
    return reply;
  }
  [[nodiscard]] Reply irecv(void* comm, const Receives& receives, void** request) override {
    *request = nullptr;
    const auto buffers = buffers_of(receives);
    if (!buffers) {
      return Reply::kInvalidArgument;
    }
    Request* made = nullptr;
    const Reply reply = static_cast<RecvComm*>(comm_of(comm))->irecv(buffers->used(), &made);
    *request = made;
    return reply;
  }
  [[nodiscard]] Reply iflush(void* comm, const Flush& flush, void** request) override {
    return tcp_->iflush(comm, flush, request);
  }
  [[nodiscard]] Reply test(void* request, int32_t* done, int32_t* sizes) override {
    if (request == nullptr) {
      return answer({StatusCode::kInvalidArgument, "test: there is no request"});
    }
    auto* const tested = static_cast<Request*>(request);
    return tested->comm->test(*tested, done, sizes);
  }

  [[nodiscard]] int progress_fd(void* comm) const override { return comm_of(comm)->progress_fd(); }
  [[nodiscard]] bool has_pending(void* comm) const override { return comm_of(comm)->has_pending(); }
  void look(void* comm) const override { comm_of(comm)->look(); }
  [[nodiscard]] Owner owner_of(void* context) const override { return tcp_->owner_of(context); }
  [[nodiscard]] std::vector<WatchedConnection> connections() const override {
    const std::lock_guard lock(mutex_);
    return watched_connections<SendComm>(comms_, &Owned::comm);
  }

 protected:
  explicit CarriedNet(std::unique_ptr<BuiltinNet> tcp) : tcp_(std::move(tcp)) {}

  // What a device's comms are made from.
  [[nodiscard]] virtual Result<End> end_of(void* context,
                                           int32_t device,
                                           int32_t traffic_class) = 0;
  [[nodiscard]] BuiltinNet& tcp() const { return *tcp_; }
  [[nodiscard]] static Comm* comm_of(void* comm) { return static_cast<Comm*>(comm); }
  // The first error that `is` has of a comm of the same communicator, opened in another context.
  template <typename Is>
  [[nodiscard]] Status about_other_comm(const Owner& self, const Is& is) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, owned] : comms_) {
      if (owned.owner.comm_id == self.comm_id && owned.owner.context != self.context) {
        HORING_TRY(is(*owned.comm));
      }
    }
    return {};
  }

 private:
  struct Listener {
    void* of_tcp = nullptr;
    void* context = nullptr;
    int32_t device = 0;
    Owner owner;
    std::unique_ptr<Answer> answer;  // to the end whose handshake is under way
  };
  struct Owned {
    std::unique_ptr<Comm> comm;
    Owner owner;  // the context may go before what was made in it
  };

  [[nodiscard]] Result<std::shared_ptr<Call>> begin_call(void* context,
                                                         int32_t traffic_class,
                                                         SideConnection line,
                                                         std::span<std::byte, kHandleBytes> handle,
                                                         const PendingKey& key) {
    HORING_ASSIGN(const End end, end_of(context, key.device, traffic_class));
    HORING_ASSIGN(std::unique_ptr<Call> started, Call::start(end, std::move(line)));
    std::shared_ptr<Call> call = std::move(started);
    HORING_ASSIGN(const uint64_t id, pending_.add(key, call));
    set_local_id(handle, id);
    return call;
  }

  void* keep(std::unique_ptr<Comm> comm, const Owner& owner) {
    Comm* const key = comm.get();
    const std::lock_guard lock(mutex_);
    comms_[key] = {std::move(comm), owner};
    return key;
  }

  std::unique_ptr<BuiltinNet> tcp_;  // outlives the comms, which may close its connections
  PendingConnects<Call> pending_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<const void*, Owned> comms_;
};

}  // namespace ho::plugin
