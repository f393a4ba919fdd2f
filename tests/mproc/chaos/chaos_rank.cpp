// A job under seeded faults: ranks make calls of all kinds, drawn from a seed, and compare every
// element of what comes, until a file is there. Each leaves its process' number in a folder, rank 0
// after each call the call's.
//   chaos_rank SEED STOP-FILE FOLDER
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <horing/communicator.hpp>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Elements = std::vector<int32_t>;

struct Call {
  horing::Communicator& comm;
  uint32_t number = 0;
  size_t count = 0;  // elements of a rank

  [[nodiscard]] size_t world() const { return static_cast<size_t>(comm.world_size()); }
  [[nodiscard]] size_t self() const { return static_cast<size_t>(comm.rank()); }
  // Element `index` of what rank `rank` gives.
  [[nodiscard]] int32_t input(size_t rank, size_t index) const {
    return static_cast<int32_t>((number * 31U + rank * 7U + index) % 100'000U);
  }
  [[nodiscard]] int32_t sum(size_t index) const {
    int32_t total = 0;
    for (size_t rank = 0; rank < world(); ++rank) {
      total += input(rank, index);
    }
    return total;
  }
  [[nodiscard]] Elements mine(size_t elements) const {
    Elements values(elements);
    for (size_t i = 0; i < elements; ++i) {
      values[i] = input(self(), i);
    }
    return values;
  }
  void expect(bool right, const char* what, size_t index) const {
    if (!right) {
      throw std::runtime_error("call " + std::to_string(number) + ", " + what + " of " +
                               std::to_string(count) + " elements: element " +
                               std::to_string(index) + " is wrong");
    }
  }
};

void all_reduce(const Call& call) {
  Elements values = call.mine(call.count);
  call.comm.all_reduce(std::span(values), HO_SUM);
  for (size_t i = 0; i < values.size(); ++i) {
    call.expect(values[i] == call.sum(i), "all-reduce", i);
  }
}

void all_gather(const Call& call) {
  const Elements mine = call.mine(call.count);
  Elements all(call.count * call.world());
  call.comm.all_gather(std::span(mine), std::span(all));
  for (size_t i = 0; i < all.size(); ++i) {
    call.expect(all[i] == call.input(i / call.count, i % call.count), "all-gather", i);
  }
}

void reduce_scatter(const Call& call) {
  const Elements mine = call.mine(call.count * call.world());
  Elements part(call.count);
  call.comm.reduce_scatter(std::span(mine), std::span(part), HO_SUM);
  for (size_t i = 0; i < part.size(); ++i) {
    call.expect(part[i] == call.sum(call.self() * call.count + i), "reduce-scatter", i);
  }
}

void broadcast(const Call& call) {
  const size_t root = call.number % call.world();
  Elements values = call.mine(call.count);
  call.comm.broadcast(std::span(values), static_cast<int32_t>(root));
  for (size_t i = 0; i < values.size(); ++i) {
    call.expect(values[i] == call.input(root, i), "broadcast", i);
  }
}

void messages(const Call& call) {
  const Elements mine = call.mine(call.count);
  Elements theirs(call.count);
  const auto next = static_cast<int32_t>((call.self() + 1) % call.world());
  const size_t previous = (call.self() + call.world() - 1) % call.world();
  constexpr int32_t kTag = 3;
  auto sending = call.comm.start_send(mine.data(), mine.size(), HO_INT32, next, kTag);
  call.comm.recv(std::span(theirs), static_cast<int32_t>(previous), kTag);
  sending.wait();
  for (size_t i = 0; i < theirs.size(); ++i) {
    call.expect(theirs[i] == call.input(previous, i), "message", i);
  }
}

// Rank 0 looks for the file, for all.
bool goes_on(horing::Communicator& comm, const std::string& stop) {
  int32_t on = comm.rank() == 0 && std::filesystem::exists(stop) ? 0 : 1;
  comm.broadcast(std::span(&on, 1), 0);
  return on == 1;
}

uint32_t run(uint32_t seed, const std::string& stop, const std::string& folder) {
  auto comm = horing::Communicator::create();
  std::ofstream(folder + "/" + std::to_string(comm.rank())) << ::getpid() << '\n';
  std::mt19937 random(seed);  // the same calls on all ranks
  constexpr std::array kCalls{all_reduce, all_gather, reduce_scatter, broadcast, messages};
  constexpr std::array<size_t, 6> kCounts{1, 100, 4'097, 30'000, 131'072, 400'001};
  Call call{comm};
  while (goes_on(comm, stop)) {
    ++call.number;
    call.count = kCounts.at(random() % kCounts.size());
    kCalls.at(random() % kCalls.size())(call);
    if (comm.rank() == 0) {
      std::ofstream(folder + "/call") << call.number << '\n';
    }
  }
  return call.number;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: chaos_rank SEED STOP-FILE FOLDER\n");
    return 2;
  }
  try {
    const auto seed = static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10));
    std::printf("%u calls\n", run(seed, argv[2], argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
