// Owning wrappers of UCX's context, worker and endpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/library.hpp"

namespace ho::ucx {

// "ucp_init: Out of memory"
[[nodiscard]] Status ucx_error(const std::string& what, ucs_status_t status);

// An operation under way. Cancelled and let go of when it is dropped.
class Request {
 public:
  Request() = default;
  Request(ucp_worker_h worker, void* handle) : worker_(worker), handle_(handle) {}
  Request(Request&& other) noexcept
      : worker_(other.worker_), handle_(std::exchange(other.handle_, nullptr)) {}
  Request& operator=(Request&& other) noexcept;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { reset(); }
  void reset();
  // UCS_OK: done. UCS_INPROGRESS. Else its error.
  [[nodiscard]] ucs_status_t status() const;
  // The same of a tagged receive that was not to complete at once, and how many bytes arrived.
  [[nodiscard]] ucs_status_t received(size_t& bytes) const;

 private:
  ucp_worker_h worker_ = nullptr;
  void* handle_ = nullptr;  // nullptr: done at once; may be an error code in disguise
};

// What UCX has found of this host's devices. Its workers may be used by one thread each at a time.
class Context {
 public:
  // features: UCP_FEATURE_...; devices: as UCX_NET_DEVICES takes them, which an environment that
  // sets that variable overrules; "" for all.
  [[nodiscard]] static Result<std::shared_ptr<Context>> create(uint64_t features,
                                                               const std::string& devices = {});
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();
  [[nodiscard]] ucp_context_h handle() const { return context_; }

 private:
  Context() = default;
  ucp_context_h context_ = nullptr;
};

class Peer;

class Worker {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Worker>> create(std::shared_ptr<Context> context);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  [[nodiscard]] ucp_worker_h handle() const { return worker_; }
  [[nodiscard]] int event_fd() const { return event_fd_; }
  [[nodiscard]] Result<std::vector<std::byte>> address() const;
  [[nodiscard]] Status set_handler(unsigned id, ucp_am_recv_callback_t callback, void* argument);
  // Tagged messages. data and room stay where they are until the request ends; a receive's request
  // has how many bytes arrived, even where they were there at once.
  [[nodiscard]] Request send_tagged(const Peer& peer,
                                    ucp_tag_t tag,
                                    std::span<const std::byte> data);
  // Ends once the peer has received it.
  [[nodiscard]] Request deliver_tagged(const Peer& peer,
                                       ucp_tag_t tag,
                                       std::span<const std::byte> data);
  [[nodiscard]] Request receive_tagged(ucp_tag_t tag, std::span<std::byte> into);
  // true: progress was made.
  bool progress() { return call().worker_progress(worker_) != 0; }
  // false: something is pending, do not sleep.
  [[nodiscard]] bool arm();

 private:
  explicit Worker(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  std::shared_ptr<Context> context_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;  // the worker's
};

// The way to one peer.
class Peer {
 public:
  Peer(Worker& worker, std::vector<std::byte> address, bool report_lost);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();
  [[nodiscard]] Status connect();
  [[nodiscard]] ucp_ep_h endpoint() const { return endpoint_; }
  // How long closing waits for what is still on its way; 0: not at all.
  void set_flush_limit(std::chrono::milliseconds limit) { flush_limit_ = limit; }
  // What UCX has reported; UCS_OK: nothing.
  [[nodiscard]] ucs_status_t failure() const { return failure_; }

 private:
  static void on_error(void* self, ucp_ep_h endpoint, ucs_status_t status);

  Worker& worker_;
  std::vector<std::byte> address_;
  bool report_lost_;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t failure_ = UCS_OK;
  std::chrono::milliseconds flush_limit_{1000};
};

}  // namespace ho::ucx
