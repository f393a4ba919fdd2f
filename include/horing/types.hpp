// Errors, element types and options of the C++ layer; programs include horing/communicator.hpp.
#pragma once

#include <horing.h>

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

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
struct DTypeOf<int16_t> : std::integral_constant<ho_dtype, HO_INT16> {};
template <>
struct DTypeOf<uint16_t> : std::integral_constant<ho_dtype, HO_UINT16> {};
template <>
struct DTypeOf<bool> : std::integral_constant<ho_dtype, HO_BOOL> {};
template <>
struct DTypeOf<std::complex<float>> : std::integral_constant<ho_dtype, HO_COMPLEX64> {};
template <>
struct DTypeOf<std::complex<double>> : std::integral_constant<ho_dtype, HO_COMPLEX128> {};
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

// Options of every call. The report, if any, is written when the operation ends: before a blocking
// call returns; for a request, in wait() or in the test() that returns true.
struct CallOptions {
  ho_algorithm algorithm = HO_ALGORITHM_AUTO;
  std::chrono::milliseconds timeout{0};  // 0: the communicator's default
  bool fp32_sums = false;                // 16-bit data: see ho_call_options
  ho_op_report* report = nullptr;        // not owned; may be null
  double scale = 1;                      // of this rank's input, for HO_PREMUL_SUM
  bool foreground = false;  // a request that is waited for at once: see ho_call_options
  void* stream = nullptr;   // of calls with device memory; null: the default stream
  uint64_t label = 0;       // what a collective is for, compared between ranks; 0: not said
};

// How a communicator is made. Empty strings and negative numbers: from the environment (torchrun's,
// Slurm's, Open MPI's or PMI's variables, HORING_*).
struct CommunicatorOptions {
  int32_t rank = -1;
  int32_t world_size = -1;
  int32_t local_rank = -1;
  std::string rendezvous;                // "tcp://HOST:PORT" or "file:///PATH"
  std::string job_key;                   // at least 16 characters
  std::string host_id;                   // ranks with equal ids form a group
  std::chrono::milliseconds timeout{0};  // default deadline of operations; 0: HORING_TIMEOUT_MS
  std::chrono::milliseconds rendezvous_timeout{0};  // for all ranks; 0: HORING_CONNECT_TIMEOUT_MS
  const ho_store* store = nullptr;  // where ranks find each other; not owned, see ho_comm_options
  int32_t device = HO_DEVICE_NONE;  // whose memory calls may have, or HO_DEVICE_LOCAL_RANK
};

}  // namespace horing
