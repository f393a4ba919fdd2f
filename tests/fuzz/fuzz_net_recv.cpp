// What a sender writes: headers and pieces of messages, into memory that must not be left.
#include <vector>

#include "core/builtin/recv_comm.hpp"
#include "net_connections.hpp"

namespace {

void receive(const uint8_t* data, size_t size, bool ordered) {
  using ho::plugin::RecvComm;
  RecvComm comm(fuzz::connections_with(data, size));
  if (ordered) {
    comm.promise_order();
  }
  // Of their own, so that the sanitizer sees a byte too many in each.
  std::vector<std::vector<std::byte>> memory;
  for (const size_t bytes : {0U, 1U, 100U, 5000U}) {
    memory.emplace_back(bytes);
  }
  std::vector<RecvComm::Buffer> buffers;
  for (size_t i = 0; i < memory.size(); ++i) {
    buffers.push_back({memory[i].data(), memory[i].size(), static_cast<int32_t>(i % 2)});
  }
  ho::plugin::Request* grouped = nullptr;
  ho::plugin::Request* single = nullptr;
  static_cast<void>(comm.irecv(buffers, &grouped));
  static_cast<void>(comm.irecv(std::span(buffers).last(1), &single));
  for (ho::plugin::Request* const request : {grouped, single}) {
    int32_t done = 0;
    std::array<int32_t, ho::plugin::kMaxReceives> sizes{};
    if (request != nullptr &&
        comm.test(*request, &done, sizes.data()) == ho::plugin::Reply::kSuccess && done != 0) {
      fuzz::require(sizes[0] <= static_cast<int32_t>(request == grouped ? 0 : 5000));
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  receive(data, size, false);
  receive(data, size, true);
  return 0;
}
