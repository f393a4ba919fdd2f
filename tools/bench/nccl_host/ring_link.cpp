#include "bench/nccl_host/ring_link.hpp"

#include "bench/nccl_host/error.hpp"

namespace ho::nccl_host {

void RingLink::filled(uint64_t bytes) const {
  const uint64_t number = header().filled.load(std::memory_order_relaxed);
  header().bytes.at(number % kSlots) = bytes;
  header().filled.store(number + 1, std::memory_order_release);
}

void RingLink::drained() const {
  header().drained.store(header().drained.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
}

bool NetEnd::send(uint64_t target) {
  bool moved = false;
  while (posted < target && posted < link.header().filled.load(std::memory_order_acquire)) {
    const uint64_t bytes = link.header().bytes.at(posted % kSlots);
    void* request = nullptr;
    require(table->isend(comm, link.slot(posted), bytes, tag, memory, &request), "net isend");
    if (request == nullptr) {
      break;
    }
    requests.push_back(request);
    ++posted;
    moved = true;
  }
  while (!requests.empty()) {
    int done = 0;
    require(table->test(requests.front(), &done, nullptr), "net test of a send");
    if (done == 0) {
      break;
    }
    requests.pop_front();
    link.drained();
    moved = true;
  }
  return moved;
}

bool NetEnd::receive(uint64_t target) {
  bool moved = false;
  while (posted < target &&
         posted < link.header().drained.load(std::memory_order_acquire) + kSlots) {
    void* data = link.slot(posted);
    const size_t bytes = link.slot_bytes();
    void* request = nullptr;
    require(table->irecv(comm, {1, &data, &bytes, &tag, &memory}, &request), "net irecv");
    if (request == nullptr) {
      break;
    }
    requests.push_back(request);
    ++posted;
    moved = true;
  }
  while (!requests.empty()) {
    int done = 0;
    int bytes = -1;
    require(table->test(requests.front(), &done, &bytes), "net test of a receive");
    if (done == 0) {
      break;
    }
    expect(bytes >= 0, "a receive that is done gives its size");
    requests.pop_front();
    link.filled(static_cast<uint64_t>(bytes));
    moved = true;
  }
  return moved;
}

}  // namespace ho::nccl_host
