#include "bench/perf/buffers.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ho::perf {
namespace {

constexpr size_t kStagingBytes = size_t{4} << 20U;

void must(const Status& status) {
  if (!status.ok()) {
    throw std::runtime_error(status.to_string());
  }
}

template <typename T>
T must(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

}  // namespace

OnDevice::OnDevice(const device::Driver& driver, int ordinal)
    : device_(must(device::Device::open(driver, ordinal))),
      stream_(must(device::Stream::create(*device_))),
      staging_(must(device::PinnedMemory::create(*device_, kStagingBytes))) {}

void OnDevice::finish() const {
  const auto current = must(device::CurrentContext::enter(*device_));
  must(device_->check("cuStreamSynchronize", device_->driver().stream_synchronize(stream())));
}

void OnDevice::copy(void* to, const void* from, size_t bytes) const {
  const auto current = must(device::CurrentContext::enter(*device_));
  must(stream_.copy(to, from, bytes));
}

Buffer Buffer::of_sends(Memory memory, const OnDevice* device) {
  return {memory == Memory::kHost ? Kind::kHost : Kind::kDevice, device};
}

Buffer Buffer::of_receives(Memory memory, const OnDevice* device) {
  return {memory == Memory::kHost     ? Kind::kHost
          : memory == Memory::kDevice ? Kind::kDevice
                                      : Kind::kPinned,
          device};
}

void Buffer::reserve(size_t bytes) {
  if (bytes <= bytes_) {
    return;
  }
  switch (kind_) {
    case Kind::kHost:
      host_.resize(bytes);
      memory_ = host_.data();
      break;
    case Kind::kPinned:
      pinned_ = {};  // not two at once
      pinned_ = must(device::PinnedMemory::create(device_->device(), bytes));
      memory_ = pinned_.bytes().data();
      break;
    case Kind::kDevice:
      on_device_ = {};
      on_device_ = must(device::DeviceMemory::create(device_->device(), bytes));
      memory_ = static_cast<std::byte*>(on_device_.pointer());
      break;
  }
  bytes_ = bytes;
}

void Buffer::write(size_t offset, size_t bytes, const Write& write) {
  if (kind_ != Kind::kDevice) {
    if (kind_ == Kind::kPinned) {
      device_->finish();
      device_->device().host_writes({at(offset), bytes});
    }
    write(at(offset), 0, bytes);
    return;
  }
  const auto staging = device_->staging();
  for (size_t begin = 0; begin < bytes; begin += staging.size()) {
    const size_t piece = std::min(staging.size(), bytes - begin);
    device_->finish();
    device_->device().host_writes(staging.first(piece));
    write(staging.data(), begin, piece);
    device_->copy(at(offset + begin), staging.data(), piece);
  }
}

void Buffer::read(size_t offset, size_t bytes, const Read& read) const {
  if (kind_ != Kind::kDevice) {
    if (kind_ == Kind::kPinned) {
      device_->finish();
      device_->device().host_reads({at(offset), bytes});
    }
    read(at(offset), 0, bytes);
    return;
  }
  const auto staging = device_->staging();
  for (size_t begin = 0; begin < bytes; begin += staging.size()) {
    const size_t piece = std::min(staging.size(), bytes - begin);
    device_->copy(staging.data(), at(offset + begin), piece);
    device_->finish();
    device_->device().host_reads(staging.first(piece));
    read(staging.data(), begin, piece);
  }
}

}  // namespace ho::perf
