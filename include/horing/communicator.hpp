// HO-Ring for C++20: a thin layer over horing.h, headers only, so that the library and the program
// may come from different compilers. Everything a function takes and returns crosses the boundary
// as C; what this header adds is ownership, types and exceptions.
//
// Errors: a call that fails throws horing::Error, which carries the status and the library's
// message (what failed, where, which rank or rail, what to do next). The exception is thrown here,
// in the program, never inside the library. After an error of a collective the communicator is
// broken on every rank, and so is what was split from it (unless the call was refused or needs a
// rank that has left); destroy it.
//
// Threads: one thread at a time uses a communicator and its requests; abort() and the queries may
// be called by any thread at any time. Different communicators are independent.
//
// fork: a child of the process that made a communicator may only exec or _exit; horing.h says more.
//
// Lifetime: a Request borrows the buffers, the counts and the report of its call; all of them must
// outlive it. A Request must end before its Communicator is destroyed.
#pragma once

#include <horing.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace horing {

// A failed call: status() to decide, what() to print.
class Error : public std::runtime_error {
 public:
  Error(ho_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  [[nodiscard]] ho_status status() const noexcept { return status_; }

 private:
  ho_status status_;
};

// Throws the calling thread's last error unless status is HO_OK.
inline void check(ho_status status) {
  if (status != HO_OK) {
    throw Error(status, ho_last_error_message());
  }
}

// Element types for which a C++ type exists. For float16, bfloat16 and fp8 use the untyped forms,
// or specialise this for the type that your program stores them in.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<int8_t> : std::integral_constant<ho_dtype, HO_INT8> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<ho_dtype, HO_UINT8> {};
template <>
struct DTypeOf<std::byte> : std::integral_constant<ho_dtype, HO_UINT8> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<ho_dtype, HO_INT32> {};
template <>
struct DTypeOf<uint32_t> : std::integral_constant<ho_dtype, HO_UINT32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<ho_dtype, HO_INT64> {};
template <>
struct DTypeOf<uint64_t> : std::integral_constant<ho_dtype, HO_UINT64> {};
template <>
struct DTypeOf<float> : std::integral_constant<ho_dtype, HO_FLOAT32> {};
template <>
struct DTypeOf<double> : std::integral_constant<ho_dtype, HO_FLOAT64> {};

template <typename T>
inline constexpr ho_dtype kDType = DTypeOf<std::remove_cv_t<T>>::value;

// What every call may be told beyond its data. The report, if any, is written when the operation
// ends: at return of a blocking call, in wait() or a test() that is true of a request.
struct CallOptions {
  ho_algorithm algorithm = HO_ALGORITHM_AUTO;
  std::chrono::milliseconds timeout{0};  // 0: the communicator's default
  bool fp32_sums = false;                // 16-bit data: see ho_call_options
  ho_op_report* report = nullptr;        // not owned; may be null
};

// How a communicator comes about. Empty strings and negative numbers: from the environment
// (torchrun's, Slurm's, Open MPI's or PMI's variables, HORING_*).
struct CommunicatorOptions {
  int32_t rank = -1;
  int32_t world_size = -1;
  int32_t local_rank = -1;
  std::string rendezvous;                // "tcp://HOST:PORT" or "file:///PATH"
  std::string job_key;                   // at least 16 characters
  std::string host_id;                   // ranks with equal ids form a group
  std::chrono::milliseconds timeout{0};  // default deadline of operations; 0: HORING_TIMEOUT_MS
};

// An operation under way. Move-only. The destructor waits for it, dropping its error: call wait().
class Request {
 public:
  Request() = default;
  explicit Request(ho_request* request) noexcept : request_(request) {}
  Request(Request&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      finish();
      request_ = std::exchange(other.request_, nullptr);
    }
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() { finish(); }

  // Whether an operation is attached that wait() has not ended yet.
  [[nodiscard]] bool pending() const noexcept { return request_ != nullptr; }

  // True once the operation is over, well or not; wait() then returns at once. Never blocks.
  [[nodiscard]] bool test() {
    if (request_ == nullptr) {
      return true;
    }
    int32_t done = 0;
    check(ho_request_test(request_, &done));
    return done != 0;
  }

  // Waits until the operation ends or its own deadline passes. Throws its error.
  void wait() {
    if (request_ != nullptr) {
      check(ho_request_wait(std::exchange(request_, nullptr), 0));
    }
  }

  // Waits at most `timeout` (at least 1 ms). False: not over yet, the operation goes on and the
  // request stays valid. Throws the operation's error; the request has then ended.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds timeout) {
    if (request_ == nullptr) {
      return true;
    }
    const auto limit = timeout.count() > 0 ? static_cast<uint64_t>(timeout.count()) : 1;
    const ho_status status = ho_request_wait(request_, limit);
    if (status == HO_IN_PROGRESS) {
      return false;
    }
    request_ = nullptr;  // freed, also where the operation's own deadline has passed
    check(status);
    return true;
  }

 private:
  void finish() noexcept {
    if (request_ != nullptr) {
      static_cast<void>(ho_request_wait(std::exchange(request_, nullptr), 0));
    }
  }

  ho_request* request_ = nullptr;
};

// The ranks of a job, or of a part of it. Move-only; a moved-from one may only be destroyed or
// assigned to. Counts are elements; sizes of spans are checked against the world size before
// anything is sent (HO_INVALID_ARGUMENT). Every collective must be called by all ranks in the same
// order.
class Communicator {
 public:
  // Collective. Ready on return: all ranks have met and agreed on groups, rails and settings.
  [[nodiscard]] static Communicator create(const CommunicatorOptions& options = {}) {
    ho_comm_options raw = HO_COMM_OPTIONS_INIT;
    raw.rank = options.rank;
    raw.world_size = options.world_size;
    raw.local_rank = options.local_rank;
    raw.rendezvous = text_or_null(options.rendezvous);
    raw.job_key = text_or_null(options.job_key);
    raw.host_id = text_or_null(options.host_id);
    raw.timeout_ms = milliseconds(options.timeout);
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

  // Collective. Ranks of equal color form a communicator, ordered by key, then by rank. A negative
  // color takes part and gets an empty one.
  [[nodiscard]] Communicator split(int32_t color, int32_t key) {
    ho_comm* part = nullptr;
    check(ho_comm_split(comm_, color, key, &part));
    return Communicator(part);
  }

  // Any thread. Every wait on every rank ends within about a second with HO_ABORTED and `reason`,
  // here and in all that was split from this one (horing.h: Failures).
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
  // Bytes that the library holds for this communicator on this rank, now.
  [[nodiscard]] uint64_t memory_bytes() const { return ho_comm_memory_bytes(comm_); }

  // Collective. Measures every link that this communicator's plans use, all of them busy alike.
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

  void barrier(const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_barrier(comm_, &raw));
  }

  // Point to point. Messages between two ranks arrive in the order in which they were sent; counts
  // and types of both sides must agree. Sends and receives do not wait for each other.
  void send(const void* data,
            size_t count,
            ho_dtype dtype,
            int32_t peer,
            const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_send(comm_, data, count, dtype, peer, &raw, nullptr));
  }
  [[nodiscard]] Request start_send(const void* data,
                                   size_t count,
                                   ho_dtype dtype,
                                   int32_t peer,
                                   const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_send(comm_, data, count, dtype, peer, &raw, &request));
    return Request(request);
  }
  void recv(
      void* data, size_t count, ho_dtype dtype, int32_t peer, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    check(ho_recv(comm_, data, count, dtype, peer, &raw, nullptr));
  }
  [[nodiscard]] Request start_recv(
      void* data, size_t count, ho_dtype dtype, int32_t peer, const CallOptions& options = {}) {
    const ho_call_options raw = to_c(options);
    ho_request* request = nullptr;
    check(ho_recv(comm_, data, count, dtype, peer, &raw, &request));
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
  // In place: root's values go to everyone.
  template <typename T>
  void broadcast(std::span<T> values, int32_t root, const CallOptions& options = {}) {
    broadcast(values.data(), values.data(), values.size(), kDType<T>, root, options);
  }
  template <typename T>
  void send(std::span<const T> values, int32_t peer, const CallOptions& options = {}) {
    send(values.data(), values.size(), kDType<T>, peer, options);
  }
  template <typename T>
  void recv(std::span<T> values, int32_t peer, const CallOptions& options = {}) {
    recv(values.data(), values.size(), kDType<T>, peer, options);
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
    return raw;
  }
  static void expect_size(size_t actual, size_t expected, const char* what) {
    if (actual != expected) {
      throw Error(HO_INVALID_ARGUMENT,
                  std::string(what) + " has " + std::to_string(actual) + " elements where " +
                      std::to_string(expected) + " are needed; pass spans of matching sizes");
    }
  }
  void expect_counts(std::span<const size_t> counts) const {
    expect_size(counts.size(), world(), "counts");
  }

  ho_comm* comm_ = nullptr;
};

}  // namespace horing
