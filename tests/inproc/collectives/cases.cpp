#include "cases.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "call_memory.hpp"
#include "job.hpp"
#include "patterns.hpp"

namespace ho::test {
namespace {

// What the checks of all collectives need of a case and a communicator.
struct Setup {
  Setup(ho_comm* on, const Case& of)
      : comm(on),
        c(of),
        rank(static_cast<uint32_t>(ho_comm_rank(on))),
        world(static_cast<uint32_t>(ho_comm_world_size(on))),
        element_bytes(size_bytes(of.dtype)) {
    options.algorithm = of.algorithm ? static_cast<ho_algorithm>(*of.algorithm) : HO_ALGORITHM_AUTO;
    options.fp32_sums = of.fp32_sums ? 1 : 0;
    options.scale = factor_of(rank);
    for (uint32_t r = 0; r < world; ++r) {
      const size_t other = r == 1 ? 0 : of.count + size_t{3} * r;
      counts.push_back(of.unequal ? other : of.count);
      first.push_back(total);
      total += counts.back();
    }
  }

  [[nodiscard]] ho_dtype dtype() const { return static_cast<ho_dtype>(c.dtype); }
  [[nodiscard]] ho_op op() const { return static_cast<ho_op>(c.op); }
  [[nodiscard]] size_t own_bytes() const { return counts[rank] * element_bytes; }
  [[nodiscard]] size_t own_offset() const { return first[rank] * element_bytes; }
  ho_request** into() { return c.request ? &request : nullptr; }
  void finish(ho_status status) {
    must(status);
    if (c.request) {
      must(ho_request_wait(request, 0));
    }
  }

  ho_comm* comm;
  const Case& c;
  uint32_t rank;
  uint32_t world;
  size_t element_bytes;
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  std::vector<size_t> counts;  // by rank: elements, of all-gather and reduce-scatter
  std::vector<size_t> first;   // by rank: elements before it
  size_t total = 0;
  ho_request* request = nullptr;
};

void check_all_gather(Setup s) {
  auto mine = filled(s.c.dtype, s.c.op, s.rank, s.counts[s.rank]);
  std::vector<std::byte> out(s.total * s.element_bytes, std::byte{0xee});
  if (s.c.in_place) {
    std::copy(mine.begin(), mine.end(), out.begin() + static_cast<ptrdiff_t>(s.own_offset()));
  }
  CallMemory input(mine);
  CallMemory output(out);
  const void* send = s.c.in_place ? output.at(s.own_offset()) : input.at();
  if (s.c.unequal) {
    s.finish(ho_all_gather_counts(
        s.comm, send, output.at(), s.counts.data(), s.dtype(), &s.options, nullptr, s.into()));
  } else {
    s.finish(ho_all_gather(
        s.comm, send, output.at(), s.c.count, s.dtype(), &s.options, nullptr, s.into()));
  }
  output.take_back();
  std::vector<std::byte> want;
  for (uint32_t r = 0; r < s.world; ++r) {
    const auto part = filled(s.c.dtype, s.c.op, r, s.counts[r]);
    want.insert(want.end(), part.begin(), part.end());
  }
  require_equal(out, want, s.element_bytes, s.c.name());
}

std::vector<std::byte> reduced(const Case& c, uint32_t world, uint64_t first, uint64_t count) {
  const bool whole = c.dtype < DType::kFloat16;
  std::vector<double> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    double& value = values[i];
    value = expected(c.op, world, first + i);
    if (c.op == ReduceOp::kAvg) {
      value /= world;
      value = whole ? static_cast<double>(static_cast<int64_t>(value)) : value;
    }
  }
  return stored(c.dtype, values);
}

void check_reduce_scatter(Setup s) {
  auto in = filled(s.c.dtype, s.c.op, s.rank, s.total);
  const auto before = in;
  std::vector<std::byte> out(s.own_bytes(), std::byte{0xee});
  CallMemory input(in);
  CallMemory output(out);
  void* recv = s.c.in_place ? input.at(s.own_offset()) : output.at();
  if (s.c.unequal) {
    s.finish(ho_reduce_scatter_counts(s.comm,
                                      input.at(),
                                      recv,
                                      s.counts.data(),
                                      s.dtype(),
                                      s.op(),
                                      &s.options,
                                      nullptr,
                                      s.into()));
  } else {
    s.finish(ho_reduce_scatter(
        s.comm, input.at(), recv, s.c.count, s.dtype(), s.op(), &s.options, nullptr, s.into()));
  }
  input.take_back();
  output.take_back();
  if (s.c.in_place) {
    std::copy_n(in.begin() + static_cast<ptrdiff_t>(s.own_offset()), s.own_bytes(), out.begin());
  } else {
    require_equal(in, before, 1, s.c.name() + ": the input changed");
  }
  require_equal(
      out, reduced(s.c, s.world, s.first[s.rank], s.counts[s.rank]), s.element_bytes, s.c.name());
}

void check_all_reduce(Setup s) {
  auto in = filled(s.c.dtype, s.c.op, s.rank, s.c.count);
  const auto before = in;
  std::vector<std::byte> out(in.size(), std::byte{0xee});
  CallMemory input(in);
  CallMemory output(out);
  s.finish(ho_all_reduce(s.comm,
                         input.at(),
                         s.c.in_place ? input.at() : output.at(),
                         s.c.count,
                         s.dtype(),
                         s.op(),
                         &s.options,
                         nullptr,
                         s.into()));
  input.take_back();
  output.take_back();
  if (!s.c.in_place) {
    require_equal(in, before, 1, s.c.name() + ": the input changed");
  }
  require_equal(
      s.c.in_place ? in : out, reduced(s.c, s.world, 0, s.c.count), s.element_bytes, s.c.name());
}

void check_broadcast(Setup s) {
  const bool root = static_cast<int32_t>(s.rank) == s.c.root;
  const auto want = filled(s.c.dtype, s.c.op, static_cast<uint32_t>(s.c.root), s.c.count);
  std::vector<std::byte> in = want;
  std::vector<std::byte> out(want.size(), std::byte{0xee});
  if (s.c.in_place && root) {
    out = want;
  }
  CallMemory input(in);
  CallMemory output(out);
  const void* send = s.c.in_place ? output.at() : input.at();
  s.finish(ho_broadcast(s.comm,
                        root ? send : nullptr,
                        output.at(),
                        s.c.count,
                        s.dtype(),
                        s.c.root,
                        &s.options,
                        nullptr,
                        s.into()));
  output.take_back();
  require_equal(out, want, s.element_bytes, s.c.name());
}

// Of an all-to-all with unequal counts. In a world of two all four differ, one is none.
size_t count_between(const Setup& s, uint32_t from, uint32_t to) {
  const size_t other = (from + 2 * to) % 3 == 2 ? 0 : s.c.count + size_t{5} * from + to;
  return s.c.unequal ? other : s.c.count;
}

std::vector<std::byte> slice(const std::vector<std::byte>& of, size_t first, size_t bytes) {
  const auto begin = of.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(bytes)};
}

// What `from` sends to all, and which part of it is for this rank.
std::vector<std::byte> block_from(const Setup& s, uint32_t from) {
  size_t total = 0;
  size_t before = 0;
  for (uint32_t to = 0; to < s.world; ++to) {
    before = to == s.rank ? total : before;
    total += count_between(s, from, to);
  }
  return slice(filled(s.c.dtype, s.c.op, from, total),
               before * s.element_bytes,
               count_between(s, from, s.rank) * s.element_bytes);
}

void check_all_to_all(Setup s) {
  std::vector<size_t> send_counts;
  std::vector<size_t> recv_counts;
  std::vector<std::byte> want;
  size_t sent = 0;
  for (uint32_t other = 0; other < s.world; ++other) {
    send_counts.push_back(count_between(s, s.rank, other));
    recv_counts.push_back(count_between(s, other, s.rank));
    sent += send_counts.back();
    const auto block = block_from(s, other);
    want.insert(want.end(), block.begin(), block.end());
  }
  auto in = filled(s.c.dtype, s.c.op, s.rank, sent);
  const auto before = in;
  std::vector<std::byte> out(want.size(), std::byte{0xee});
  CallMemory input(in);
  CallMemory output(out);
  if (s.c.unequal) {
    s.finish(ho_all_to_all_counts(s.comm,
                                  input.at(),
                                  send_counts.data(),
                                  output.at(),
                                  recv_counts.data(),
                                  s.dtype(),
                                  &s.options,
                                  nullptr,
                                  s.into()));
  } else {
    s.finish(ho_all_to_all(
        s.comm, input.at(), output.at(), s.c.count, s.dtype(), &s.options, nullptr, s.into()));
  }
  input.take_back();
  output.take_back();
  require_equal(in, before, 1, s.c.name() + ": the input changed");
  require_equal(out, want, s.element_bytes, s.c.name());
}

void check_gather(Setup s) {
  const bool root = static_cast<int32_t>(s.rank) == s.c.root;
  auto mine = filled(s.c.dtype, s.c.op, s.rank, s.c.count);
  std::vector<std::byte> out(root ? s.total * s.element_bytes : 0, std::byte{0xee});
  const bool in_place = s.c.in_place && root;
  if (in_place) {
    std::copy(mine.begin(), mine.end(), out.begin() + static_cast<ptrdiff_t>(s.own_offset()));
  }
  CallMemory input(mine);
  CallMemory output(out);
  s.finish(ho_gather(s.comm,
                     in_place ? output.at(s.own_offset()) : input.at(),
                     root ? output.at() : nullptr,
                     s.c.count,
                     s.dtype(),
                     s.c.root,
                     &s.options,
                     nullptr,
                     s.into()));
  output.take_back();
  std::vector<std::byte> want;
  for (uint32_t r = 0; r < s.world && root; ++r) {
    const auto part = filled(s.c.dtype, s.c.op, r, s.c.count);
    want.insert(want.end(), part.begin(), part.end());
  }
  require_equal(out, want, s.element_bytes, s.c.name());
}

void check_scatter(Setup s) {
  const bool root = static_cast<int32_t>(s.rank) == s.c.root;
  auto all = filled(s.c.dtype, s.c.op, static_cast<uint32_t>(s.c.root), s.total);
  const auto before = all;
  std::vector<std::byte> out(s.own_bytes(), std::byte{0xee});
  const bool in_place = s.c.in_place && root;
  CallMemory input(all);
  CallMemory output(out);
  s.finish(ho_scatter(s.comm,
                      root ? input.at() : nullptr,
                      in_place ? input.at(s.own_offset()) : output.at(),
                      s.c.count,
                      s.dtype(),
                      s.c.root,
                      &s.options,
                      nullptr,
                      s.into()));
  input.take_back();
  output.take_back();
  require_equal(all, before, 1, s.c.name() + ": the input changed");
  require_equal(in_place ? slice(all, s.own_offset(), s.own_bytes()) : out,
                slice(before, s.own_offset(), s.own_bytes()),
                s.element_bytes,
                s.c.name());
}

void check_reduce(Setup s) {
  const bool root = static_cast<int32_t>(s.rank) == s.c.root;
  auto in = filled(s.c.dtype, s.c.op, s.rank, s.c.count);
  const auto before = in;
  std::vector<std::byte> out(in.size(), std::byte{0xee});
  const bool in_place = s.c.in_place && root;
  CallMemory input(in);
  CallMemory output(out);
  s.finish(ho_reduce(s.comm,
                     input.at(),
                     in_place ? input.at()
                     : root   ? output.at()
                              : nullptr,
                     s.c.count,
                     s.dtype(),
                     s.op(),
                     s.c.root,
                     &s.options,
                     nullptr,
                     s.into()));
  input.take_back();
  output.take_back();
  if (!in_place) {
    require_equal(in, before, 1, s.c.name() + ": the input changed");
  }
  if (root) {
    require_equal(
        in_place ? in : out, reduced(s.c, s.world, 0, s.c.count), s.element_bytes, s.c.name());
  }
}

}  // namespace

bool takes_counts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll;
}

std::string Case::name() const {
  return std::string(to_string(collective)) + " " +
         std::string(algorithm ? to_string(*algorithm) : "auto") + " " +
         std::string(to_string(dtype)) + " " + std::string(to_string(op)) + " count " +
         std::to_string(count) + (has_root(collective) ? " root " + std::to_string(root) : "") +
         (in_place ? " in place" : "") + (fp32_sums ? " fp32_sums" : "") +
         (unequal ? " unequal counts" : "") + (request ? " as a request" : "");
}

void check_case(ho_comm* comm, const Case& c) {
  const Setup setup(comm, c);
  switch (c.collective) {
    case Collective::kAllGather:
      return check_all_gather(setup);
    case Collective::kReduceScatter:
      return check_reduce_scatter(setup);
    case Collective::kAllReduce:
      return check_all_reduce(setup);
    case Collective::kBroadcast:
      return check_broadcast(setup);
    case Collective::kAllToAll:
      return check_all_to_all(setup);
    case Collective::kGather:
      return check_gather(setup);
    case Collective::kScatter:
      return check_scatter(setup);
    case Collective::kReduce:
      return check_reduce(setup);
  }
}

void expect(bool kept, const char* promise) {
  if (!kept) {
    throw std::runtime_error(std::string(promise) + "; last message: " + ho_last_error_message());
  }
}

}  // namespace ho::test
