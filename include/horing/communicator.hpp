// HO-Ring for C++20: a thin layer over horing.h, headers only, so that the library and the program
// may come from different compilers. Everything a function takes and returns crosses the boundary
// as C; what this header adds is ownership, types and exceptions.
//
// Errors: a call that fails throws horing::Error, which carries the status and the library's
// message (what failed, where, which rank or rail, what to do next). The exception is thrown here,
// in the program, never inside the library. After an error of a collective, destroy the
// communicator: it and what was split from it are broken on every rank (unless the call was
// refused or needs a rank that has left).
//
// Threads: one thread at a time uses a communicator and its requests; abort() and the queries may
// be called by any thread at any time. Different communicators are independent.
//
// fork: a child of the process that made a communicator may only exec or _exit (see horing.h).
//
// Lifetime: a Request borrows the buffers, the counts and the report of its call; all of them must
// outlive it. A Request must end before its Communicator is destroyed.
#pragma once

#include <horing.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <horing/request.hpp>
#include <horing/types.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace horing {

// The ranks of a job, or of a part of it. Move-only; a moved-from one may only be destroyed or
// assigned to. Counts are elements; sizes of spans are checked against the world size before
// anything is sent (HO_INVALID_ARGUMENT). Every collective must be called by all ranks in the same
// order.
class Communicator {
 public:
  // Collective. Ready on return: all ranks are connected and agree on groups, rails and settings.
  [[nodiscard]] static Communicator create(const CommunicatorOptions& options = {}) {
    ho_comm_options raw = HO_COMM_OPTIONS_INIT;
    raw.rank = options.rank;
    raw.world_size = options.world_size;
    raw.local_rank = options.local_rank;
    raw.rendezvous = text_or_null(options.rendezvous);
    raw.job_key = text_or_null(options.job_key);
    raw.host_id = text_or_null(options.host_id);
    raw.timeout_ms = milliseconds(options.timeout);
    raw.rendezvous_timeout_ms = milliseconds(options.rendezvous_timeout);
    raw.store = options.store;
    raw.device = options.device;
    ho_comm* comm = nullptr;
    check(ho_comm_create(&raw, &comm));
    return Communicator(comm);
  }

  // Takes ownership of a handle of the C interface; nullptr makes an empty communicator.
  explicit Communicator(ho_comm* comm) noexcept : comm_(comm) {}
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) {
      ho_comm_destroy(std::exchange(comm_, std::exchange(other.comm_, nullptr)));
    }
    return *this;
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { ho_comm_destroy(comm_); }

  // False after a split with a negative color, or a move.
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != nullptr; }
  // The C handle, still owned by this object.
  [[nodiscard]] ho_comm* get() const noexcept { return comm_; }

  // Collective. Ranks of equal color form a communicator, ordered by key, then by rank. A rank with
  // a negative color takes part and gets an empty one.
  [[nodiscard]] Communicator split(int32_t color, int32_t key) {
    ho_comm* part = nullptr;
    check(ho_comm_split(comm_, color, key, &part));
    return Communicator(part);
  }

  // Any thread. Every wait on every rank ends, usually within 0.2 s, with HO_ABORTED and `reason`,
  // here and in all that was split from this one (horing.h: ho_comm_abort).
  void abort(const std::string& reason = {}) { check(ho_comm_abort(comm_, text_or_null(reason))); }

  [[nodiscard]] int32_t rank() const { return ho_comm_rank(comm_); }
  [[nodiscard]] int32_t world_size() const { return ho_comm_world_size(comm_); }
  [[nodiscard]] int32_t group_count() const { return ho_comm_group_count(comm_); }
  [[nodiscard]] int32_t rail_count() const { return ho_comm_rail_count(comm_); }
  // Negative for a rank (or group) out of range; rail_of also for a rank without a rail of its own.
  [[nodiscard]] int32_t group_of(int32_t rank) const { return ho_comm_group_of(comm_, rank); }
  [[nodiscard]] int32_t group_rank_of(int32_t rank) const {
    return ho_comm_group_rank_of(comm_, rank);
  }
  [[nodiscard]] int32_t group_size(int32_t group) const { return ho_comm_group_size(comm_, group); }
  [[nodiscard]] int32_t rail_of(int32_t rank) const { return ho_comm_rail_of(comm_, rank); }
  // The number of this rank's CUDA device; HO_DEVICE_NONE: it has none.
  [[nodiscard]] int32_t device() const { return ho_comm_device(comm_); }
  // Bytes that the library holds for this communicator on this rank, now.
  [[nodiscard]] uint64_t memory_bytes() const { return ho_comm_memory_bytes(comm_); }

  // Throws why the communicator has failed, if it has. Any thread; does not wait.
  void status() const { check(ho_comm_status(comm_)); }
  // Pins memory that calls may have beside device memory; until it is deregistered.
  void register_memory(void* memory, size_t bytes) {
    check(ho_comm_register(comm_, memory, bytes));
  }
  void deregister_memory(void* memory) { check(ho_comm_deregister(comm_, memory)); }

  // Collective. Measures every link that this communicator's plans use, all of them equally busy.
  void measure_links() { check(ho_comm_measure_links(comm_)); }
  // The links of this rank as measured; empty before measure_links().
  [[nodiscard]] std::vector<ho_link_rate> link_rates() const {
    size_t count = 0;
    check(ho_comm_link_rates(comm_, nullptr, 0, &count));
    std::vector<ho_link_rate> rates(count);
    check(ho_comm_link_rates(comm_, rates.data(), rates.size(), &count));
    rates.resize(count < rates.size() ? count : rates.size());
    return rates;
  }

  // Collectives, untyped. Pointers to host memory; `send` has count elements and `recv`
  // world_size * count (reduce_scatter: the other way round; the rest: count each). In place:
  // all_gather with send == recv + rank * count elements, reduce_scatter with recv == send + rank *
  // count elements, the rest with send == recv. The plain form blocks; start_* returns at once.
  void all_gather(
      const void* send, void* recv, size_t count, ho_dtype dtype, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_all_gather(comm_, send, recv, count, dtype, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_all_gather(
      const void* send, void* recv, size_t count, ho_dtype dtype, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_all_gather(comm_, send, recv, count, dtype, &raw, options.report, &request));
    return Request(request);
  }
  void reduce_scatter(const void* send,
                      void* recv,
                      size_t count,
                      ho_dtype dtype,
                      ho_op op,
                      const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_reduce_scatter(comm_, send, recv, count, dtype, op, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_reduce_scatter(const void* send,
                                             void* recv,
                                             size_t count,
                                             ho_dtype dtype,
                                             ho_op op,
                                             const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_reduce_scatter(comm_, send, recv, count, dtype, op, &raw, options.report, &request));
    return Request(request);
  }
  void all_reduce(const void* send,
                  void* recv,
                  size_t count,
                  ho_dtype dtype,
                  ho_op op,
                  const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_all_reduce(comm_, send, recv, count, dtype, op, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_all_reduce(const void* send,
                                         void* recv,
                                         size_t count,
                                         ho_dtype dtype,
                                         ho_op op,
                                         const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_all_reduce(comm_, send, recv, count, dtype, op, &raw, options.report, &request));
    return Request(request);
  }
  // `send` is read on root only, and may be null elsewhere.
  void broadcast(const void* send,
                 void* recv,
                 size_t count,
                 ho_dtype dtype,
                 int32_t root,
                 const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_broadcast(comm_, send, recv, count, dtype, root, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_broadcast(const void* send,
                                        void* recv,
                                        size_t count,
                                        ho_dtype dtype,
                                        int32_t root,
                                        const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_broadcast(comm_, send, recv, count, dtype, root, &raw, options.report, &request));
    return Request(request);
  }

  // Forms with a count per rank: counts[r] elements of rank r, one after the other, the same
  // numbers on all ranks; counts.size() == world_size().
  void all_gather_counts(const void* send,
                         void* recv,
                         std::span<const size_t> counts,
                         ho_dtype dtype,
                         const CallOptions& options = {}) {
    expect_counts(counts);
    const ho_call_options raw = to_c(options);
    check(ho_all_gather_counts(
        comm_, send, recv, counts.data(), dtype, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_all_gather_counts(const void* send,
                                                void* recv,
                                                std::span<const size_t> counts,
                                                ho_dtype dtype,
                                                const CallOptions& options = {}) {
    expect_counts(counts);
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_all_gather_counts(
        comm_, send, recv, counts.data(), dtype, &raw, options.report, &request));
    return Request(request);
  }
  void reduce_scatter_counts(const void* send,
                             void* recv,
                             std::span<const size_t> counts,
                             ho_dtype dtype,
                             ho_op op,
                             const CallOptions& options = {}) {
    expect_counts(counts);
    const ho_call_options raw = to_c(options);
    check(ho_reduce_scatter_counts(
        comm_, send, recv, counts.data(), dtype, op, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_reduce_scatter_counts(const void* send,
                                                    void* recv,
                                                    std::span<const size_t> counts,
                                                    ho_dtype dtype,
                                                    ho_op op,
                                                    const CallOptions& options = {}) {
    expect_counts(counts);
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_reduce_scatter_counts(
        comm_, send, recv, counts.data(), dtype, op, &raw, options.report, &request));
    return Request(request);
  }

  // Block r of send, `count` elements, goes to rank r; block r of recv is from rank r.
  void all_to_all(
      const void* send, void* recv, size_t count, ho_dtype dtype, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_all_to_all(comm_, send, recv, count, dtype, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_all_to_all(
      const void* send, void* recv, size_t count, ho_dtype dtype, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_all_to_all(comm_, send, recv, count, dtype, &raw, options.report, &request));
    return Request(request);
  }
  // send_counts[r] elements to rank r, recv_counts[r] from rank r.
  void all_to_all_counts(const void* send,
                         std::span<const size_t> send_counts,
                         void* recv,
                         std::span<const size_t> recv_counts,
                         ho_dtype dtype,
                         const CallOptions& options = {}) {
    expect_counts(send_counts);
    expect_counts(recv_counts);
    const ho_call_options raw = to_c(options);
    check(ho_all_to_all_counts(comm_,
                               send,
                               send_counts.data(),
                               recv,
                               recv_counts.data(),
                               dtype,
                               &raw,
                               options.report,
                               nullptr));
  }
  [[nodiscard]] Request start_all_to_all_counts(const void* send,
                                                std::span<const size_t> send_counts,
                                                void* recv,
                                                std::span<const size_t> recv_counts,
                                                ho_dtype dtype,
                                                const CallOptions& options = {}) {
    expect_counts(send_counts);
    expect_counts(recv_counts);
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_all_to_all_counts(comm_,
                               send,
                               send_counts.data(),
                               recv,
                               recv_counts.data(),
                               dtype,
                               &raw,
                               options.report,
                               &request));
    return Request(request);
  }
  // Collectives with a root. gather and reduce use `recv` on root only, scatter `send`; elsewhere
  // these may be null.
  void gather(const void* send,
              void* recv,
              size_t count,
              ho_dtype dtype,
              int32_t root,
              const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_gather(comm_, send, recv, count, dtype, root, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_gather(const void* send,
                                     void* recv,
                                     size_t count,
                                     ho_dtype dtype,
                                     int32_t root,
                                     const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_gather(comm_, send, recv, count, dtype, root, &raw, options.report, &request));
    return Request(request);
  }
  void scatter(const void* send,
               void* recv,
               size_t count,
               ho_dtype dtype,
               int32_t root,
               const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_scatter(comm_, send, recv, count, dtype, root, &raw, options.report, nullptr));
  }
  [[nodiscard]] Request start_scatter(const void* send,
                                      void* recv,
                                      size_t count,
                                      ho_dtype dtype,
                                      int32_t root,
                                      const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_scatter(comm_, send, recv, count, dtype, root, &raw, options.report, &request));
    return Request(request);
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters of the C call
  void reduce(const void* send,
              void* recv,
              size_t count,
              ho_dtype dtype,
              ho_op op,
              int32_t root,
              const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_reduce(comm_, send, recv, count, dtype, op, root, &raw, options.report, nullptr));
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters of the C call
  [[nodiscard]] Request start_reduce(const void* send,
                                     void* recv,
                                     size_t count,
                                     ho_dtype dtype,
                                     ho_op op,
                                     int32_t root,
                                     const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_reduce(comm_, send, recv, count, dtype, op, root, &raw, options.report, &request));
    return Request(request);
  }

  void barrier(const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_barrier(comm_, &raw, nullptr));
  }
  [[nodiscard]] Request start_barrier(const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_barrier(comm_, &raw, &request));
    return Request(request);
  }

  // Point to point; horing.h says which receive takes which message, and when a send ends. The peer
  // of a receive may be HO_ANY_SOURCE; *source, where given, is then whose message it was.
  void send(const void* data,
            size_t count,
            ho_dtype dtype,
            int32_t peer,
            int32_t tag,
            const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_send(comm_, data, count, dtype, peer, tag, &raw, nullptr));
  }
  [[nodiscard]] Request start_send(const void* data,
                                   size_t count,
                                   ho_dtype dtype,
                                   int32_t peer,
                                   int32_t tag,
                                   const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_send(comm_, data, count, dtype, peer, tag, &raw, &request));
    return Request(request);
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters of the C call
  void recv(void* data,
            size_t count,
            ho_dtype dtype,
            int32_t peer,
            int32_t tag,
            const CallOptions& options = {},
            int32_t* source = nullptr) {
    const ho_call_options raw = to_c(options);
    check(ho_recv(comm_, data, count, dtype, peer, tag, &raw, source, nullptr));
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters of the C call
  [[nodiscard]] Request start_recv(void* data,
                                   size_t count,
                                   ho_dtype dtype,
                                   int32_t peer,
                                   int32_t tag,
                                   const CallOptions& options = {},
                                   int32_t* source = nullptr) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_recv(comm_, data, count, dtype, peer, tag, &raw, source, &request));
    return Request(request);
  }

  // Typed forms: the element type comes from the span, the count from the shorter side. They block;
  // for requests use start_* with the span's data().
  template <typename T>
  void all_gather(std::span<const T> send, std::span<T> recv, const CallOptions& options = {}) {
    expect_size(recv.size(), send.size() * world(), "all_gather: recv");
    all_gather(send.data(), recv.data(), send.size(), kDType<T>, options);
  }
  template <typename T>
  void reduce_scatter(std::span<const T> send,
                      std::span<T> recv,
                      ho_op op,
                      const CallOptions& options = {}) {
    expect_size(send.size(), recv.size() * world(), "reduce_scatter: send");
    reduce_scatter(send.data(), recv.data(), recv.size(), kDType<T>, op, options);
  }
  template <typename T>
  void all_reduce(std::span<const T> send,
                  std::span<T> recv,
                  ho_op op,
                  const CallOptions& options = {}) {
    expect_size(recv.size(), send.size(), "all_reduce: recv");
    all_reduce(send.data(), recv.data(), recv.size(), kDType<T>, op, options);
  }
  // In place.
  template <typename T>
  void all_reduce(std::span<T> values, ho_op op, const CallOptions& options = {}) {
    all_reduce(values.data(), values.data(), values.size(), kDType<T>, op, options);
  }
  // In place: all ranks get root's values.
  template <typename T>
  void broadcast(std::span<T> values, int32_t root, const CallOptions& options = {}) {
    broadcast(values.data(), values.data(), values.size(), kDType<T>, root, options);
  }
  template <typename T>
  void all_to_all(std::span<const T> send, std::span<T> recv, const CallOptions& options = {}) {
    expect_size(recv.size(), send.size(), "all_to_all: recv");
    expect_size(send.size() % world(), 0, "all_to_all: send, beyond whole blocks,");
    all_to_all(send.data(), recv.data(), send.size() / world(), kDType<T>, options);
  }
  // Collectives with a root: what only root uses may be empty elsewhere.
  template <typename T>
  void gather(std::span<const T> send,
              std::span<T> recv,
              int32_t root,
              const CallOptions& options = {}) {
    expect_at_root(root, recv.size(), send.size() * world(), "gather: recv");
    gather(send.data(), recv.data(), send.size(), kDType<T>, root, options);
  }
  template <typename T>
  void scatter(std::span<const T> send,
               std::span<T> recv,
               int32_t root,
               const CallOptions& options = {}) {
    expect_at_root(root, send.size(), recv.size() * world(), "scatter: send");
    scatter(send.data(), recv.data(), recv.size(), kDType<T>, root, options);
  }
  template <typename T>
  void reduce(std::span<const T> send,
              std::span<T> recv,
              ho_op op,
              int32_t root,
              const CallOptions& options = {}) {
    expect_at_root(root, recv.size(), send.size(), "reduce: recv");
    reduce(send.data(), recv.data(), send.size(), kDType<T>, op, root, options);
  }
  template <typename T>
  void send(std::span<const T> values, int32_t peer, int32_t tag, const CallOptions& options = {}) {
    send(values.data(), values.size(), kDType<T>, peer, tag, options);
  }
  template <typename T>
  void recv(std::span<T> values,
            int32_t peer,
            int32_t tag,
            const CallOptions& options = {},
            int32_t* source = nullptr) {
    recv(values.data(), values.size(), kDType<T>, peer, tag, options, source);
  }

 private:
  [[nodiscard]] size_t world() const { return static_cast<size_t>(world_size()); }
  [[nodiscard]] static const char* text_or_null(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
  }
  [[nodiscard]] static uint64_t milliseconds(std::chrono::milliseconds duration) {
    return duration.count() > 0 ? static_cast<uint64_t>(duration.count()) : 0;
  }
  [[nodiscard]] static ho_call_options to_c(const CallOptions& options) {
    ho_call_options raw = HO_CALL_OPTIONS_INIT;
    raw.algorithm = options.algorithm;
    raw.timeout_ms = milliseconds(options.timeout);
    raw.fp32_sums = options.fp32_sums ? 1 : 0;
    raw.scale = options.scale;
    raw.foreground = options.foreground ? 1 : 0;
    raw.stream = options.stream;
    raw.label = options.label;
    return raw;
  }
  static void expect_size(size_t actual, size_t expected, const char* what) {
    if (actual != expected) {
      throw Error(HO_INVALID_ARGUMENT,
                  std::string(what) + " has " + std::to_string(actual) + " elements where " +
                      std::to_string(expected) + " are needed; pass spans of matching sizes");
    }
  }
  void expect_at_root(int32_t root, size_t actual, size_t expected, const char* what) const {
    if (rank() == root) {
      expect_size(actual, expected, what);
    }
  }
  void expect_counts(std::span<const size_t> counts) const {
    expect_size(counts.size(), world(), "counts");
  }

  ho_comm* comm_ = nullptr;
};

}  // namespace horing
