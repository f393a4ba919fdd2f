// What a measurement's buffers are: memory of the host, pinned memory of it, or memory of the
// rank's device, which the host fills and reads through pinned memory, before and after what is
// timed. Errors of the driver are thrown as std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/perf/options.hpp"
#include "device/device.hpp"

namespace ho::perf {

// A rank's device: the stream that its calls are made on, and pinned memory to copy through.
class OnDevice {
 public:
  OnDevice(const device::Driver& driver, int ordinal);

  [[nodiscard]] const device::Device& device() const { return *device_; }
  [[nodiscard]] device::StreamHandle stream() const { return stream_.handle(); }
  // Waits until the stream has got past all that it was given.
  void finish() const;
  // Gives the stream a copy.
  void copy(void* to, const void* from, size_t bytes) const;
  // Whoever writes or reads it waits for the stream first, and tells the device.
  [[nodiscard]] std::span<std::byte> staging() const { return staging_.bytes(); }

 private:
  std::shared_ptr<device::Device> device_;
  device::Stream stream_;
  device::PinnedMemory staging_;
};

// One of the two buffers of a call.
class Buffer {
 public:
  enum class Kind : uint8_t { kHost, kPinned, kDevice };
  // What this rank's sends or receives are; device is null where --memory is host.
  static Buffer of_sends(Memory memory, const OnDevice* device);
  static Buffer of_receives(Memory memory, const OnDevice* device);

  // Holds as many bytes or more from now on; what it had is lost where it grows.
  void reserve(size_t bytes);
  // What calls are given.
  [[nodiscard]] std::byte* at(size_t offset) const { return memory_ + offset; }
  // Has the host write or read [offset, offset + bytes), piece by piece: `begin` is how far into it
  // a piece is. Pieces hold whole elements of every type.
  using Write = std::function<void(std::byte* to, size_t begin, size_t bytes)>;
  void write(size_t offset, size_t bytes, const Write& write);
  using Read = std::function<void(const std::byte* from, size_t begin, size_t bytes)>;
  void read(size_t offset, size_t bytes, const Read& read) const;

 private:
  Buffer(Kind kind, const OnDevice* device) : kind_(kind), device_(device) {}
  Kind kind_;
  const OnDevice* device_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<std::byte> host_;
  device::PinnedMemory pinned_;
  device::DeviceMemory on_device_;
};

}  // namespace ho::perf
