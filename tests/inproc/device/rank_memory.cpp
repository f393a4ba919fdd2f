#include "rank_memory.hpp"

#include <cstring>

namespace ho::test {

using device::CurrentContext;
using device::DeviceMemory;
using device::PinnedMemory;
using device::Stream;

RankMemory::RankMemory(int ordinal, size_t count)
    : device_(must_have(device::Device::open(*must_have(device::driver()), ordinal))),
      count_(count) {
  const auto current = must_have(CurrentContext::enter(*device_));
  const size_t bytes = count * sizeof(float);
  stream_ = std::make_unique<Stream>(must_have(Stream::create(*device_)));
  send_ = std::make_unique<DeviceMemory>(must_have(DeviceMemory::create(*device_, bytes)));
  recv_ = std::make_unique<DeviceMemory>(must_have(DeviceMemory::create(*device_, bytes)));
  in_ = std::make_unique<PinnedMemory>(must_have(PinnedMemory::create(*device_, bytes)));
  out_ = std::make_unique<PinnedMemory>(must_have(PinnedMemory::create(*device_, bytes)));
}

RankMemory::~RankMemory() {
  const auto current = CurrentContext::enter(*device_);
  stream_.reset();
  send_.reset();
  recv_.reset();
  in_.reset();
  out_.reset();
}

ho_call_options RankMemory::options() const {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.stream = stream();
  return options;
}

ho_status RankMemory::all_reduce(ho_comm* comm, ho_op_report* report) const {
  const ho_call_options raw = options();
  return ho_all_reduce(comm, send(), recv(), count_, HO_FLOAT32, HO_SUM, &raw, report, nullptr);
}

float* RankMemory::pinned() const {
  return reinterpret_cast<float*>(in_->bytes().data());
}

void RankMemory::fill(const std::vector<float>& values) {
  const auto current = must_have(CurrentContext::enter(*device_));
  device_->host_writes(in_->bytes());
  std::memcpy(in_->bytes().data(), values.data(), values.size() * sizeof(float));
  must_be_ok(stream_->copy(send_->pointer(), in_->bytes().data(), values.size() * sizeof(float)));
}

void RankMemory::fetch_from(const float* memory) {
  const auto current = must_have(CurrentContext::enter(*device_));
  must_be_ok(stream_->copy(out_->bytes().data(), memory, count_ * sizeof(float)));
}

void RankMemory::overwrite_recv() {
  const auto current = must_have(CurrentContext::enter(*device_));
  must_be_ok(stream_->copy(recv_->pointer(), send_->pointer(), count_ * sizeof(float)));
}

void RankMemory::finish() {
  const auto current = must_have(CurrentContext::enter(*device_));
  must_be_ok(device_->check("cuStreamSynchronize", device_->driver().stream_synchronize(stream())));
}

std::vector<float> RankMemory::fetched() {
  finish();
  device_->host_reads(out_->bytes());
  std::vector<float> values(count_);
  std::memcpy(values.data(), out_->bytes().data(), count_ * sizeof(float));
  return values;
}

}  // namespace ho::test
