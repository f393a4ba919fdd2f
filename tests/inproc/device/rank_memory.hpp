// What a rank of a test has on its device: a stream, buffers, and host memory to fill and read them
// through, as a program has them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "horing.h"
#include "must_have.hpp"

namespace ho::test {

class RankMemory {
 public:
  // Of a device, with buffers of `count` floats.
  RankMemory(int ordinal, size_t count);
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;
  ~RankMemory();

  [[nodiscard]] float* send() const { return static_cast<float*>(send_->pointer()); }
  [[nodiscard]] float* recv() const { return static_cast<float*>(recv_->pointer()); }
  [[nodiscard]] device::StreamHandle stream() const { return stream_->handle(); }
  [[nodiscard]] const device::Device& device() const { return *device_; }
  [[nodiscard]] ho_call_options options() const;
  // The sum over all ranks of what is in send, into recv.
  [[nodiscard]] ho_status all_reduce(ho_comm* comm, ho_op_report* report = nullptr) const;
  // Gives the stream a copy into send, and one out of recv. Neither waits.
  void fill(const std::vector<float>& values);
  void fetch() { fetch_from(recv()); }
  void fetch_from(const float* memory);
  // Gives the stream a copy of send to recv.
  void overwrite_recv();
  // Waits for all that the stream was given.
  void finish();
  // What fetch() copied, once the stream has got there.
  [[nodiscard]] std::vector<float> fetched();
  [[nodiscard]] float* pinned() const;  // as many floats

 private:
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::DeviceMemory> send_;
  std::unique_ptr<device::DeviceMemory> recv_;
  std::unique_ptr<device::PinnedMemory> in_;
  std::unique_ptr<device::PinnedMemory> out_;
  size_t count_;
};

}  // namespace ho::test
