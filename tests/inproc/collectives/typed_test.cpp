// The typed forms of horing/communicator.hpp: which counts, types and tags they pass on. What the
// collectives compute is for the other files of this suite.
#include <array>
#include <functional>
#include <horing/communicator.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"

using namespace ho::test;

namespace {

constexpr int32_t kRanks = 4;
constexpr size_t kCount = 2;

void expect_equal(const std::vector<int>& got, const std::vector<int>& expected, const char* what) {
  if (got != expected) {
    throw std::runtime_error(std::string("not as expected: ") + what);
  }
}

// Element i of what rank `from` has for rank `to`.
int sent(int32_t from, int32_t to, size_t i) {
  return from * 100 + to * 10 + static_cast<int>(i);
}

void with_communicator(const std::function<void(horing::Communicator&)>& body) {
  require_job({"2x2"}, [&](ho_comm* job) {
    ho_comm* part = nullptr;
    must(ho_comm_split(job, 0, 0, &part));
    horing::Communicator comm(part);
    body(comm);
  });
}

// What this rank has for all ranks, block after block.
std::vector<int> blocks_from(int32_t from) {
  std::vector<int> all;
  for (int32_t to = 0; to < kRanks; ++to) {
    for (size_t i = 0; i < kCount; ++i) {
      all.push_back(sent(from, to, i));
    }
  }
  return all;
}

// What all ranks have for this one.
std::vector<int> blocks_to(int32_t to) {
  std::vector<int> all;
  for (int32_t from = 0; from < kRanks; ++from) {
    for (size_t i = 0; i < kCount; ++i) {
      all.push_back(sent(from, to, i));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("typed all_to_all, gather and scatter take one rank's count from the spans") {
  with_communicator([](horing::Communicator& comm) {
    const int32_t self = comm.rank();
    const std::vector<int> mine = blocks_from(self);
    std::vector<int> got(mine.size());
    comm.all_to_all(std::span<const int>(mine), std::span(got));
    expect_equal(got, blocks_to(self), "all_to_all");

    constexpr int32_t kRootRank = 1;
    const std::vector<int> for_root = {sent(self, kRootRank, 0), sent(self, kRootRank, 1)};
    std::vector<int> gathered(self == kRootRank ? kRanks * kCount : 0);
    comm.gather(std::span<const int>(for_root), std::span(gathered), kRootRank);
    expect_equal(gathered, self == kRootRank ? blocks_to(kRootRank) : std::vector<int>(), "gather");

    std::vector<int> part(kCount);
    const std::vector<int> whole = self == kRootRank ? blocks_from(kRootRank) : std::vector<int>();
    comm.scatter(std::span<const int>(whole), std::span(part), kRootRank);
    expect_equal(part, {sent(kRootRank, self, 0), sent(kRootRank, self, 1)}, "scatter");
  });
}

TEST_CASE("typed reduce leaves the sum on root alone") {
  with_communicator([](horing::Communicator& comm) {
    constexpr int32_t kRootRank = 2;
    const std::vector<int> mine = {comm.rank(), 1};
    std::vector<int> sum(comm.rank() == kRootRank ? mine.size() : 0);
    comm.reduce(std::span<const int>(mine), std::span(sum), HO_SUM, kRootRank);
    expect_equal(
        sum, comm.rank() == kRootRank ? std::vector<int>{6, 4} : std::vector<int>(), "reduce");
  });
}

TEST_CASE("typed messages pass their tag, and say whose they were") {
  with_communicator([](horing::Communicator& comm) {
    constexpr int32_t kFirst = 5;
    constexpr int32_t kSecond = 6;
    if (comm.rank() == 3) {
      const std::array<int, 1> first = {50};
      const std::array<int, 1> second = {60};
      comm.send(std::span<const int>(first), 0, kFirst);
      comm.send(std::span<const int>(second), 0, kSecond);
    } else if (comm.rank() == 0) {
      std::vector<int> value(1);
      int32_t source = -1;
      comm.recv(std::span(value), HO_ANY_SOURCE, kSecond, {}, &source);
      expect_equal({value[0], source}, {60, 3}, "the message with the second tag");
      comm.recv(std::span(value), 3, kFirst);
      expect_equal(value, {50}, "the message with the first tag");
    }
    comm.barrier();
  });
}

TEST_CASE("typed forms refuse spans that do not fit before anything is sent") {
  with_communicator([](horing::Communicator& comm) {
    std::vector<int> odd(kRanks + 1);
    std::vector<int> other(kRanks + 1);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const horing::Error& error) {
        return error.status() == HO_INVALID_ARGUMENT;
      }
      return false;
    };
    const std::span<const int> send(odd);
    const bool all =
        refused([&] { comm.all_to_all(send, std::span(other)); }) &&
        refused([&] { comm.gather(send, std::span(other), comm.rank()); }) &&
        refused([&] { comm.scatter(send, std::span(other), comm.rank()); }) &&
        refused([&] { comm.reduce(send.first(1), std::span(other), HO_SUM, comm.rank()); });
    if (!all) {
      throw std::runtime_error("a span of another size was taken");
    }
    comm.barrier();
  });
}
