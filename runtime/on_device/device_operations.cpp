#include "on_device/device_operations.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "device/address.hpp"
#include "optim/factors.hpp"

namespace paro {
namespace {

using ho::device::CurrentContext;
using ho::device::Device;
using ho::device::Event;
using ho::device::Kernels;
using ho::device::StreamHandle;

constexpr size_t kNormParts = 8192;   // half a billion elements at once
constexpr size_t kHashParts = 32768;  // 1 GiB at once
constexpr uint64_t kHashBytes = kHashParts * (uint64_t{32} << 10U);
constexpr uint64_t kFirstRounded = 4096;

ho::device::AdamW kernel_of(const AdamW& rule, const UpdatedElements& elements) {
  const AdamWFactors factors = factors_of(rule, 1);  // of which the step's are the control's
  return {.momentum = elements.rule[0],
          .variance = elements.rule[1],
          .learning_rate = rule.learning_rate,
          .epsilon = rule.epsilon,
          .decay = factors.decay,
          .beta_1 = factors.beta1,
          .rest_1 = factors.rest1,
          .beta_2 = factors.beta2,
          .rest_2 = factors.rest2};
}

ho::device::Sgd kernel_of(const Sgd& rule, const UpdatedElements& elements) {
  const SgdFactors factors = factors_of(rule);
  return {.velocity = state_count(rule) > 0 ? elements.rule[0] : nullptr,
          .learning_rate = factors.learning_rate,
          .momentum = factors.momentum,
          .weight_decay = factors.weight_decay};
}

}  // namespace

struct DeviceOperations::Scratch {
  std::array<GradientSums, kNormParts> norm_parts;
  std::array<uint64_t, kHashParts> hash_parts;
  std::array<uint16_t, kFirstRounded> rounded;
  GradientSums found;
  uint64_t hash;
};

DeviceOperations::DeviceOperations(Parts parts)
    : device_(std::move(parts.device)),
      kernels_(std::move(parts.kernels)),
      stream_(parts.stream),
      scratch_(std::move(parts.scratch)),
      all_(std::move(parts.all)),
      staging_(std::move(parts.staging)),
      failed_(std::move(parts.failed)),
      timeout_(parts.timeout),
      wait_{.timeout = parts.timeout} {}

ho::Result<std::unique_ptr<DeviceOperations>> DeviceOperations::create(
    const std::shared_ptr<const Device>& device,
    StreamHandle stream,
    const DeviceOptions& options,
    std::shared_ptr<ho::Status> failed) {
  HORING_TRY(check_stream(*device, stream));
  HORING_ASSIGN(auto kernels, ho::device::shared_kernels(*device));
  HORING_ASSIGN(ho::device::DeviceMemory scratch,
                ho::device::DeviceMemory::create(*device, sizeof(Scratch)));
  HORING_ASSIGN(Event all, Event::create(*device));
  HORING_ASSIGN(Staging staging, Staging::create(device, options.slots, options.slot_bytes));
  return std::unique_ptr<DeviceOperations>(  // NOLINTNEXTLINE: private constructor
      new DeviceOperations({device,
                            std::move(kernels),
                            stream,
                            std::move(scratch),
                            std::move(all),
                            std::move(staging),
                            options.timeout,
                            std::move(failed)}));
}

DeviceOperations::~DeviceOperations() {
  settle();
}

void DeviceOperations::limit_waits(uint64_t timeout_ms) {
  wait_.timeout = timeout_ms == 0 ? timeout_ : std::chrono::milliseconds(timeout_ms);
}

DeviceOperations::Scratch* DeviceOperations::scratch() const {
  return static_cast<Scratch*>(scratch_.pointer());
}

template <typename Call>
void DeviceOperations::give(std::string_view what, const Call& call) const {
  if (!failed_->ok()) {
    return;
  }
  const ho::Status status = [&]() -> ho::Status {
    HORING_TRY(check_not_captured(*device_, stream_));
    HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
    return call();
  }();
  if (!status.ok()) {
    *failed_ =
        status.with_context(std::string(what) + " on device " + std::to_string(device_->ordinal()));
  }
}

void DeviceOperations::zero(void* address, size_t bytes) const {
  give("zeroing states", [&] { return kernels_->zero(stream_, address, bytes); });
}

ho::Status DeviceOperations::copy_on_device(void* to, const void* from, size_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  return device_->check(
      "cuMemcpyAsync",
      device_->driver().copy_async(
          ho::device::address_of(to), ho::device::address_of(from), bytes, stream_));
}

void DeviceOperations::copy(void* to, const void* from, size_t bytes) const {
  give("copying states", [&] { return copy_on_device(to, from, bytes); });
}

void DeviceOperations::add(
    ho::DType sum_dtype, void* sums, ho::DType dtype, const void* from, uint64_t count) const {
  const bool wide = sum_dtype != dtype;
  give("adding gradients", [&] {
    return kernels_->sum(
        stream_,
        {.dtype = dtype, .fp32_sums = wide, .src_is_fp32 = wide, .dst_is_fp32 = wide},
        {.dst = sums, .src = sums, .incoming = from, .elements = count});
  });
}

void DeviceOperations::round(ho::DType dtype, const float* from, void* to, uint64_t count) const {
  give("rounding masters", [&] {
    return dtype == ho::DType::kFloat32
               ? copy_on_device(to, from, count * sizeof(float))
               : kernels_->convert(stream_, dtype, to, ho::DType::kFloat32, from, count);
  });
}

// The first ones by way of memory of our own, then as many each time as are rounded already: what
// is written lies in front of what is read.
ho::Status DeviceOperations::round_pieces(ho::DType dtype,
                                          std::byte* address,
                                          uint64_t count) const {
  const uint64_t element = ho::size_bytes(dtype);
  const auto convert = [&](void* to, uint64_t begin, uint64_t elements) {
    return kernels_->convert(
        stream_, dtype, to, ho::DType::kFloat32, address + begin * sizeof(float), elements);
  };
  const uint64_t first = std::min(count, kFirstRounded);
  HORING_TRY(convert(&scratch()->rounded, 0, first));
  HORING_TRY(copy_on_device(address, &scratch()->rounded, first * element));
  for (uint64_t begin = first; begin < count; begin *= 2) {
    HORING_TRY(convert(address + begin * element, begin, std::min(begin, count - begin)));
  }
  return {};
}

void DeviceOperations::round_in_place(ho::DType dtype, void* address, uint64_t count) const {
  if (dtype != ho::DType::kFloat32 && count > 0) {
    give("rounding gradients",
         [&] { return round_pieces(dtype, static_cast<std::byte*>(address), count); });
  }
}

ho::Status DeviceOperations::norm_into(ho::DType dtype,
                                       const void* values,
                                       uint64_t count,
                                       double factor,
                                       uint64_t first_index,
                                       GradientSums* sums) const {
  return kernels_->norm(stream_,
                        {.values = values,
                         .dtype = dtype,
                         .elements = count,
                         .first_index = first_index,
                         .scale = static_cast<float>(factor),
                         .parts = {scratch()->norm_parts.data(), kNormParts},
                         .sums = sums});
}

void DeviceOperations::norm(ho::DType dtype,
                            const void* values,
                            uint64_t count,
                            double factor,
                            uint64_t first_index,
                            GradientSums* sums) const {
  give("the norm of gradients",
       [&] { return norm_into(dtype, values, count, factor, first_index, sums); });
}

void DeviceOperations::note_not_finite(ho::DType dtype,
                                       const void* values,
                                       uint64_t count,
                                       uint64_t first_index,
                                       GradientSums* sums) const {
  norm(dtype, values, count, 1, first_index, sums);
}

void DeviceOperations::decide(const StepLimits& limits, StepControl* control) const {
  give("deciding on a step", [&] { return kernels_->decide(stream_, limits, control); });
}

void DeviceOperations::update(const Rule& rule,
                              const StepControl* control,
                              const UpdatedElements& elements) const {
  const ho::device::Update update{.control = control,
                                  .master = elements.master,
                                  .gradient = elements.gradient,
                                  .gradient_dtype = elements.gradient_dtype,
                                  .parameter = elements.parameter,
                                  .parameter_dtype = elements.parameter_dtype,
                                  .elements = elements.count};
  give("updating masters", [&] {
    const auto* const adamw = std::get_if<AdamW>(&rule);
    return adamw != nullptr
               ? kernels_->adamw(stream_, update, kernel_of(*adamw, elements))
               : kernels_->sgd(stream_, update, kernel_of(std::get<Sgd>(rule), elements));
  });
}

std::optional<NotFinite> DeviceOperations::first_not_finite(ho::DType dtype,
                                                            const void* values,
                                                            uint64_t count) const {
  GradientSums found = {};
  give("looking for what is not finite", [&] {
    HORING_TRY(kernels_->zero(stream_, &scratch()->found, sizeof found));
    return norm_into(dtype, values, count, 1, 0, &scratch()->found);
  });
  fetch_later(&scratch()->found, std::as_writable_bytes(std::span(&found, 1)));
  const auto index = finish().ok() ? first_not_finite_of(found) : std::nullopt;
  if (!index) {
    return std::nullopt;
  }
  float value = 0;
  const size_t element = ho::size_bytes(dtype);
  fetch(dtype, static_cast<const std::byte*>(values) + *index * element, 1, {&value, 1});
  return NotFinite{static_cast<size_t>(*index), value != value};
}

uint64_t DeviceOperations::hash(const void* values, size_t bytes) const {
  uint64_t all = 0;
  for (uint64_t begin = 0; begin < bytes; begin += kHashBytes) {
    uint64_t part = 0;
    give("the hash of states", [&] {
      return kernels_->hash(stream_,
                            {.values = static_cast<const std::byte*>(values) + begin,
                             .bytes = std::min<uint64_t>(kHashBytes, bytes - begin),
                             .first_word = begin / sizeof(uint64_t),
                             .parts = scratch()->hash_parts.data(),
                             .result = &scratch()->hash});
    });
    fetch_later(&scratch()->hash, std::as_writable_bytes(std::span(&part, 1)));
    all += finish().ok() ? part : 0;
  }
  return all;
}

ho::Status DeviceOperations::fetch_pieces(const void* from,
                                          uint64_t count,
                                          size_t element_bytes,
                                          Delivery delivery) const {
  const auto* next = static_cast<const std::byte*>(from);
  const uint64_t most = staging_.slot_bytes() / element_bytes;
  for (uint64_t begin = 0; begin < count; begin += most) {
    const size_t elements = std::min(most, count - begin);
    const size_t bytes = elements * element_bytes;
    HORING_TRY(staging_.fetch(stream_, wait_, next, bytes, delivery));
    next += bytes;
    delivery.bytes += delivery.bytes == nullptr ? 0 : bytes;
    delivery.numbers += delivery.numbers == nullptr ? 0 : elements;
  }
  return {};
}

void DeviceOperations::fetch_later(const void* from, std::span<std::byte> to) const {
  give("fetching states", [&] { return fetch_pieces(from, to.size(), 1, {.bytes = to.data()}); });
}

ho::Result<bool> DeviceOperations::arrived(uint64_t timeout_ms) const {
  bool all = false;
  give("fetching states", [&]() -> ho::Status {
    HORING_ASSIGN(all, staging_.delivered_within(wait_, std::chrono::milliseconds(timeout_ms)));
    return {};
  });
  HORING_TRY(*failed_);
  return all;
}

void DeviceOperations::fetch(ho::DType dtype,
                             const void* from,
                             double factor,
                             std::span<float> values) const {
  give("fetching states", [&] {
    HORING_TRY(fetch_pieces(from,
                            values.size(),
                            ho::size_bytes(dtype),
                            {.numbers = values.data(), .dtype = dtype, .factor = factor}));
    return staging_.deliver_all(wait_);
  });
}

void DeviceOperations::fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const {
  const size_t before = behind.size();
  behind.resize(before + bytes);
  give("fetching states", [&] {
    HORING_TRY(fetch_pieces(from, bytes, 1, {.bytes = behind.data() + before}));
    return staging_.deliver_all(wait_);
  });
}

void DeviceOperations::store(ho::DType dtype, std::span<const float> values, void* to) const {
  const size_t element = ho::size_bytes(dtype);
  auto* next = static_cast<std::byte*>(to);
  give("storing states", [&]() -> ho::Status {
    for (std::span<const float> left = values; !left.empty();) {
      HORING_ASSIGN(const std::span<std::byte> slot, staging_.begin_store(wait_));
      const size_t count = std::min(left.size(), slot.size() / element);
      round_to(dtype, left.first(count), slot.data());
      HORING_TRY(staging_.store(stream_, count * element, next));
      left = left.subspan(count);
      next += count * element;
    }
    return {};
  });
}

void DeviceOperations::store(std::span<const std::byte> bytes, void* to) const {
  auto* next = static_cast<std::byte*>(to);
  give("storing states", [&]() -> ho::Status {
    for (std::span<const std::byte> left = bytes; !left.empty();) {
      HORING_ASSIGN(const std::span<std::byte> slot, staging_.begin_store(wait_));
      const size_t count = std::min(left.size(), slot.size());
      std::copy_n(left.data(), count, slot.data());
      HORING_TRY(staging_.store(stream_, count, next));
      left = left.subspan(count);
      next += count;
    }
    return {};
  });
}

void DeviceOperations::set(Mark& mark) const {
  give("marking a place on a stream",
       [&] { return static_cast<DeviceMark&>(mark).event().record(stream_); });
}

void DeviceOperations::come_after(const Mark& mark) const {
  give("waiting for another stream", [&] {
    const ho::device::EventHandle event = static_cast<const DeviceMark&>(mark).event().handle();
    return device_->check("cuStreamWaitEvent",
                          device_->driver().stream_wait_event(stream_, event, 0));
  });
}

ho::Status DeviceOperations::wait_for_all() const {
  HORING_TRY(all_.record(stream_));
  return wait_.until_passed(all_);
}

ho::Status DeviceOperations::finish() const {
  give("waiting for operations on states", [&] {
    HORING_TRY(wait_for_all());
    return staging_.deliver_all(wait_);
  });
  return *failed_;
}

// The driver waits where an event cannot be asked. Waiting for a stream that is captured would
// spoil the capture. Work that does not end even after an abort is left behind with all memory.
void DeviceOperations::settle() const {
  if (device_->is_left_behind()) {
    return;
  }
  if (const ho::Status captured = check_not_captured(*device_, stream_);
      captured.code() == ho::StatusCode::kUnsupported) {
    ho::device::log_failure(captured);
    return;
  }
  const auto current = CurrentContext::enter(*device_);
  if (!current.ok()) {
    return;
  }
  ho::Status waited = all_.record(stream_);
  if (waited.ok()) {
    waited = wait_.until_passed(all_);
  }
  if (waited.code() == ho::StatusCode::kTimeout) {
    device_->leave_behind(waited);
  } else if (!waited.ok()) {
    ho::device::log_failure(
        device_->check("cuStreamSynchronize", device_->driver().stream_synchronize(stream_)));
  }
}

}  // namespace paro
