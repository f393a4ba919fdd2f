// Operations on states in a device's memory, by src/device's kernels on one stream. The results are
// those of HostOperations, bit for bit.
//
// What is asked for is enqueued and runs later. Nothing allocates after create(), and no call of
// the driver waits: what waits here asks an event until it has passed, and has a deadline. store()
// and fetch_later() wait only where their pinned slots are all under way.
//
// One thread at a time.
//
// While the stream is captured into a graph, create() refuses it and every operation fails, which
// leaves the capture as it is. What was given before a capture began cannot be waited for during
// it: finish() first, then begin the capture.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "device/device.hpp"
#include "device/kernels/shared_kernels.hpp"
#include "on_device/staging.hpp"
#include "state/operations.hpp"

namespace paro {

class DeviceMark final : public Mark {
 public:
  explicit DeviceMark(ho::device::Event event) : event_(std::move(event)) {}
  [[nodiscard]] const ho::device::Event& event() const { return event_; }

 private:
  ho::device::Event event_;
};

struct DeviceOptions {
  std::chrono::milliseconds timeout{600'000};  // of each wait
  // Pinned memory between host and device: one slot at least, of a multiple of 8 bytes.
  size_t slots = 4;
  size_t slot_bytes = size_t{1} << 20U;
  // Of a memory: streams beside the caller's, made for it.
  size_t own_streams = 0;
};

class DeviceOperations final : public Operations {
 public:
  // Null is the default stream. The stream outlives it. `failed`: what several streams' operations
  // have in common, after whose first failure none of them runs.
  [[nodiscard]] static ho::Result<std::unique_ptr<DeviceOperations>> create(
      const std::shared_ptr<const ho::device::Device>& device,
      ho::device::StreamHandle stream,
      const DeviceOptions& options = {},
      std::shared_ptr<ho::Status> failed = std::make_shared<ho::Status>());
  DeviceOperations(const DeviceOperations&) = delete;
  DeviceOperations& operator=(const DeviceOperations&) = delete;
  ~DeviceOperations() override;  // waits

  void zero(void* address, size_t bytes) const override;
  void copy(void* to, const void* from, size_t bytes) const override;
  void add(ho::DType sum_dtype,
           void* sums,
           ho::DType dtype,
           const void* from,
           uint64_t count) const override;
  void round(ho::DType dtype, const float* from, void* to, uint64_t count) const override;
  void round_in_place(ho::DType dtype, void* address, uint64_t count) const override;
  void norm(ho::DType dtype,
            const void* values,
            uint64_t count,
            double factor,
            uint64_t first_index,
            GradientSums* sums) const override;
  void note_not_finite(ho::DType dtype,
                       const void* values,
                       uint64_t count,
                       uint64_t first_index,
                       GradientSums* sums) const override;
  void decide(const StepLimits& limits, StepControl* control) const override;
  void update(const Rule& rule,
              const StepControl* control,
              const UpdatedElements& elements) const override;
  [[nodiscard]] std::optional<NotFinite> first_not_finite(ho::DType dtype,
                                                          const void* values,
                                                          uint64_t count) const override;
  [[nodiscard]] uint64_t hash(const void* values, size_t bytes) const override;
  void fetch(ho::DType dtype,
             const void* from,
             double factor,
             std::span<float> values) const override;
  void fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const override;
  void fetch_later(const void* from, std::span<std::byte> to) const override;
  [[nodiscard]] ho::Result<bool> arrived(uint64_t timeout_ms) const override;
  void store(ho::DType dtype, std::span<const float> values, void* to) const override;
  void store(std::span<const std::byte> bytes, void* to) const override;
  void set(Mark& mark) const override;
  void come_after(const Mark& mark) const override;
  [[nodiscard]] void* stream() const override { return stream_; }
  [[nodiscard]] ho::Status status() const override { return *failed_; }
  [[nodiscard]] ho::Status finish() const override;

  // Waits until the stream is through with all that was given, whatever has failed: memory that it
  // used may be freed. Waits for nothing while the stream is captured.
  void settle() const;
  // From now on (0: to what it was made with).
  void limit_waits(uint64_t timeout_ms);
  [[nodiscard]] size_t pinned_bytes() const { return staging_.bytes(); }
  [[nodiscard]] size_t scratch_bytes() const { return scratch_.size(); }

 private:
  struct Scratch;  // what kernels put into memory of their own
  // What it is made of.
  struct Parts {
    std::shared_ptr<const ho::device::Device> device;
    std::shared_ptr<const ho::device::Kernels> kernels;
    ho::device::StreamHandle stream;
    ho::device::DeviceMemory scratch;
    ho::device::Event all;
    Staging staging;
    std::chrono::milliseconds timeout;
    std::shared_ptr<ho::Status> failed;
  };
  explicit DeviceOperations(Parts parts);
  // Unless something has failed, or the stream is captured: with the context current. Keeps the
  // first failure.
  template <typename Call>
  void give(std::string_view what, const Call& call) const;
  [[nodiscard]] ho::Status copy_on_device(void* to, const void* from, size_t bytes) const;
  [[nodiscard]] ho::Status fetch_pieces(const void* from,
                                        uint64_t count,
                                        size_t element_bytes,
                                        Delivery delivery) const;
  [[nodiscard]] ho::Status round_pieces(ho::DType dtype, std::byte* address, uint64_t count) const;
  [[nodiscard]] ho::Status norm_into(ho::DType dtype,
                                     const void* values,
                                     uint64_t count,
                                     double factor,
                                     uint64_t first_index,
                                     GradientSums* sums) const;
  [[nodiscard]] ho::Status wait_for_all() const;
  [[nodiscard]] Scratch* scratch() const;

  const std::shared_ptr<const ho::device::Device> device_;
  const std::shared_ptr<const ho::device::Kernels> kernels_;
  const ho::device::StreamHandle stream_;
  const ho::device::DeviceMemory scratch_;
  const ho::device::Event all_;  // of all that was given, when somebody waits for it
  mutable Staging staging_;
  const std::shared_ptr<ho::Status> failed_;  // first
  const std::chrono::milliseconds timeout_;
  DeviceWait wait_;
};

}  // namespace paro
