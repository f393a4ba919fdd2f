// One rank makes another call than the others. Every rank gets an error that names it and what
// differs, long before the deadline: also a rank whose own part was over, which finds it in what it
// calls next.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "horing.h"
#include "job.hpp"
#include "more_time.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 55'000;
constexpr int32_t kOdd = 1;

enum class Kind : uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kAllToAll,
  kAllToAllCounts,
  kGather,
  kScatter,
  kReduce,
  kBarrier,
};

struct Request {
  Kind kind = Kind::kReduce;
  size_t count = 3;
  ho_dtype dtype = HO_FLOAT32;
  ho_op op = HO_SUM;
  int32_t root = 0;
  size_t sends = 0;  // to each rank, of kAllToAllCounts; 0: as many as it expects, `count`
  uint64_t label = 0;
};

ho_status call(ho_comm* comm, const Request& wanted_call) {
  const auto world = static_cast<size_t>(ho_comm_world_size(comm));
  const size_t n = wanted_call.count;
  const size_t sends = wanted_call.sends == 0 ? n : wanted_call.sends;
  std::vector<uint64_t> in(sends * world, 0);
  std::vector<uint64_t> out(n * world, 0);
  const std::vector<size_t> send_counts(world, sends);
  const std::vector<size_t> recv_counts(world, n);
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.label = wanted_call.label;
  switch (wanted_call.kind) {
    case Kind::kAllGather:
      return ho_all_gather(
          comm, in.data(), out.data(), n, wanted_call.dtype, &options, nullptr, nullptr);
    case Kind::kReduceScatter:
      return ho_reduce_scatter(comm,
                               in.data(),
                               out.data(),
                               n,
                               wanted_call.dtype,
                               wanted_call.op,
                               &options,
                               nullptr,
                               nullptr);
    case Kind::kAllReduce:
      return ho_all_reduce(comm,
                           in.data(),
                           out.data(),
                           n,
                           wanted_call.dtype,
                           wanted_call.op,
                           &options,
                           nullptr,
                           nullptr);
    case Kind::kBroadcast:
      return ho_broadcast(comm,
                          in.data(),
                          out.data(),
                          n,
                          wanted_call.dtype,
                          wanted_call.root,
                          &options,
                          nullptr,
                          nullptr);
    case Kind::kAllToAll:
      return ho_all_to_all(
          comm, in.data(), out.data(), n, wanted_call.dtype, &options, nullptr, nullptr);
    case Kind::kAllToAllCounts:
      return ho_all_to_all_counts(comm,
                                  in.data(),
                                  send_counts.data(),
                                  out.data(),
                                  recv_counts.data(),
                                  wanted_call.dtype,
                                  &options,
                                  nullptr,
                                  nullptr);
    case Kind::kGather:
      return ho_gather(comm,
                       in.data(),
                       out.data(),
                       n,
                       wanted_call.dtype,
                       wanted_call.root,
                       &options,
                       nullptr,
                       nullptr);
    case Kind::kScatter:
      return ho_scatter(comm,
                        in.data(),
                        out.data(),
                        n,
                        wanted_call.dtype,
                        wanted_call.root,
                        &options,
                        nullptr,
                        nullptr);
    case Kind::kReduce:
      return ho_reduce(comm,
                       in.data(),
                       out.data(),
                       n,
                       wanted_call.dtype,
                       wanted_call.op,
                       wanted_call.root,
                       &options,
                       nullptr,
                       nullptr);
    case Kind::kBarrier:
      return ho_barrier(comm, &options, nullptr);
  }
  return HO_INTERNAL;
}

struct Row {
  const char* name;
  Request usual;
  Request odd;
  std::array<const char*, 2> said;  // of the usual call and of the odd one
};

constexpr size_t kMany = 30'000;

const Row kRows[] = {
    {"all_to_all, count", {Kind::kAllToAll}, {Kind::kAllToAll, 5}, {"of 12 float", "of 20 float"}},
    {"all_to_all, many", {Kind::kAllToAll, kMany}, {Kind::kAllToAll, 5}, {"120000", "of 20 float"}},
    {"all_to_all, type", {Kind::kAllToAll}, {Kind::kAllToAll, 3, HO_INT32}, {"float", "int32"}},
    {"gather, count", {Kind::kGather}, {Kind::kGather, 5}, {"of 12 float", "of 20 float"}},
    {"gather, many", {Kind::kGather, kMany}, {Kind::kGather, 5}, {"120000", "of 20 float"}},
    {"gather, type", {Kind::kGather}, {Kind::kGather, 3, HO_INT32}, {"float", "int32"}},
    {"gather, root",
     {Kind::kGather},
     {Kind::kGather, 3, HO_FLOAT32, HO_SUM, 2},
     {"root 0", "root 2"}},
    {"gather, odd root",
     {Kind::kGather},
     {Kind::kGather, 3, HO_FLOAT32, HO_SUM, kOdd},
     {"root 0", "root 1"}},
    {"gather, root of the odd rank",
     {Kind::kGather, 3, HO_FLOAT32, HO_SUM, kOdd},
     {Kind::kGather},
     {"root 1", "root 0"}},
    {"gather, root of many",
     {Kind::kGather, kMany},
     {Kind::kGather, kMany, HO_FLOAT32, HO_SUM, 2},
     {"root 0", "root 2"}},
    {"scatter, count", {Kind::kScatter}, {Kind::kScatter, 5}, {"of 12 float", "of 20 float"}},
    {"scatter, type", {Kind::kScatter}, {Kind::kScatter, 3, HO_INT32}, {"float", "int32"}},
    {"scatter, root",
     {Kind::kScatter},
     {Kind::kScatter, 3, HO_FLOAT32, HO_SUM, 2},
     {"root 0", "root 2"}},
    {"scatter, odd root",
     {Kind::kScatter},
     {Kind::kScatter, 3, HO_FLOAT32, HO_SUM, kOdd},
     {"root 0", "root 1"}},
    {"scatter, root of many",
     {Kind::kScatter, kMany},
     {Kind::kScatter, kMany, HO_FLOAT32, HO_SUM, 3},
     {"root 0", "root 3"}},
    {"reduce, count", {Kind::kReduce}, {Kind::kReduce, 5}, {"of 3 float", "of 5 float"}},
    {"reduce, type", {Kind::kReduce}, {Kind::kReduce, 3, HO_INT32}, {"float", "int32"}},
    {"reduce, operation",
     {Kind::kReduce},
     {Kind::kReduce, 3, HO_FLOAT32, HO_MAX},
     {"float sum", "float max"}},
    {"reduce, premultiplied",
     {Kind::kReduce},
     {Kind::kReduce, 3, HO_FLOAT32, HO_PREMUL_SUM},
     {"float sum", "premul_sum"}},
    {"reduce, root",
     {Kind::kReduce},
     {Kind::kReduce, 3, HO_FLOAT32, HO_SUM, 2},
     {"root 0", "root 2"}},
    {"reduce, root of many",
     {Kind::kReduce, kMany},
     {Kind::kReduce, kMany, HO_FLOAT32, HO_SUM, 3},
     {"root 0", "root 3"}},
    {"broadcast, root",
     {Kind::kBroadcast},
     {Kind::kBroadcast, 3, HO_FLOAT32, HO_SUM, 2},
     {"root 0", "root 2"}},
    {"broadcast, root of many",
     {Kind::kBroadcast, kMany},
     {Kind::kBroadcast, kMany, HO_FLOAT32, HO_SUM, 3},
     {"root 0", "root 3"}},
    {"all_to_all_counts, type",
     {Kind::kAllToAllCounts},
     {Kind::kAllToAllCounts, 3, HO_INT32},
     {"float", "int32"}},
    {"all_to_all_counts, too many sent",
     {Kind::kAllToAllCounts},
     {Kind::kAllToAllCounts, 3, HO_FLOAT32, HO_SUM, 0, 8},
     {"sends 8 elements to rank 0, which expects 3", "recv_counts[1] of rank 0"}},
    {"all_to_all_counts, too many expected",
     {Kind::kAllToAllCounts},
     {Kind::kAllToAllCounts, 8, HO_FLOAT32, HO_SUM, 0, 3},
     {"rank 0 sends 3 elements to rank 1, which expects 8", "send_counts[1] of rank 0"}},
    {"gather and scatter", {Kind::kGather}, {Kind::kScatter}, {"gather #1", "scatter #1"}},
    {"scatter and gather", {Kind::kScatter}, {Kind::kGather}, {"scatter #1", "gather #1"}},
    {"broadcast and all_reduce",
     {Kind::kBroadcast},
     {Kind::kAllReduce},
     {"broadcast #1", "all_reduce #1"}},
    {"all_reduce and broadcast",
     {Kind::kAllReduce},
     {Kind::kBroadcast, 3, HO_FLOAT32, HO_SUM, 2},
     {"all_reduce #1", "broadcast #1"}},
    {"reduce and all_reduce", {Kind::kReduce}, {Kind::kAllReduce}, {" reduce #1", "all_reduce #1"}},
    {"broadcast and scatter", {Kind::kBroadcast}, {Kind::kScatter}, {"broadcast #1", "scatter #1"}},
    {"gather and reduce", {Kind::kGather}, {Kind::kReduce}, {"gather #1", " reduce #1"}},
    {"all_to_all with counts and without",
     {Kind::kAllToAll},
     {Kind::kAllToAllCounts},
     {"all_to_all #1", "all_to_all_counts #1"}},
    {"all_to_all and gather", {Kind::kAllToAll}, {Kind::kGather}, {"all_to_all #1", "gather #1"}},
    {"barrier and gather", {Kind::kBarrier}, {Kind::kGather}, {"all_reduce #1", "gather #1"}},
    {"scatter and barrier", {Kind::kScatter}, {Kind::kBarrier}, {"scatter #1", "all_reduce #1"}},
    {"gather, label",
     {Kind::kGather, 3, HO_FLOAT32, HO_SUM, 0, 0, 7},
     {Kind::kGather, 3, HO_FLOAT32, HO_SUM, 0, 0, 8},
     {"gather #1", "another label"}},
    {"all_gather, label on one rank",
     {Kind::kAllGather},
     {Kind::kAllGather, 3, HO_FLOAT32, HO_SUM, 0, 0, 8},
     {"all_gather #1", "a label is set on "}},
    {"all_to_all_counts, label",
     {Kind::kAllToAllCounts, 3, HO_FLOAT32, HO_SUM, 0, 0, 7},
     {Kind::kAllToAllCounts, 3, HO_FLOAT32, HO_SUM, 0, 0, 8},
     {"all_to_all_counts #1", "another label"}},
};

// "" or what is wrong with the error.
std::string check_named(const Row& row, ho_status status, const std::string& text) {
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  const bool named = has("rank " + std::to_string(kOdd)) && has(row.said[0]) && has(row.said[1]);
  return status == HO_MISMATCH && named
             ? ""
             : std::string(row.name) + ": " + ho_status_name(status) + ", " + text + "\n";
}

// On a communicator of its own, which the mismatch ends.
std::string run_row(ho_comm* world, const Row& row) {
  ho_comm* comm = nullptr;
  must(ho_comm_split(world, 0, 0, &comm));
  ho_status status = call(comm, ho_comm_rank(comm) == kOdd ? row.odd : row.usual);
  if (status == HO_OK) {
    status = ho_barrier(comm, nullptr, nullptr);
  }
  const std::string text = ho_last_error_message();
  ho_comm_destroy(comm);
  return check_named(row, status, text);
}

}  // namespace

TEST_CASE("a rank that makes another call is named to all with what differs") {
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    const auto errors = run_job({groups, false, kFarMs}, [&](ho_comm* world) {
      std::string wrong;
      for (const Row& row : kRows) {
        wrong += run_row(world, row);
      }
      if (!wrong.empty()) {
        throw std::runtime_error(wrong);
      }
    });
    for (size_t rank = 0; rank < errors.size(); ++rank) {
      INFO(groups << ", rank " << rank);
      CHECK(errors[rank] == "");
    }
  }
}

// Gathers of all and of one are numbered apart, so each rank may yet call what the others are in:
// that they wait for each other shows at the deadline.
namespace {

// Each rank's error with that time for its calls. Where a rank was so late that the others' time
// was over, they can only say that it has not come: then the case is tried with more.
std::vector<std::string> errors_of(const Row& row) {
  std::vector<std::string> errors;
  (void)with_more_time(std::chrono::milliseconds(1500), [&](std::chrono::milliseconds time) {
    errors = run_job({"2x2", false, static_cast<uint64_t>(time.count())}, [&](ho_comm* comm) {
      ho_status status = call(comm, ho_comm_rank(comm) == kOdd ? row.odd : row.usual);
      if (status == HO_OK) {
        status = ho_barrier(comm, nullptr, nullptr);
      }
      const std::string wrong = check_named(row, status, ho_last_error_message());
      if (!wrong.empty()) {
        throw std::runtime_error(wrong);
      }
    });
    return std::none_of(errors.begin(), errors.end(), [](const std::string& error) {
      return error.find("not entered") != std::string::npos;
    });
  });
  return errors;
}

}  // namespace

TEST_CASE("ranks in sequences that are numbered apart are named with both calls") {
  const Row rows[] = {
      {"gather and all_gather",
       {Kind::kGather},
       {Kind::kAllGather},
       {"gather #1", "all_gather #1"}},
      {"reduce and reduce_scatter",
       {Kind::kReduce, kMany},
       {Kind::kReduceScatter, kMany},
       {"reduce #1", "reduce_scatter #1"}},
      {"all_to_all and all_gather",
       {Kind::kAllToAll},
       {Kind::kAllGather},
       {"all_to_all #1", "all_gather #1"}},
  };
  for (const Row& row : rows) {
    const auto errors = errors_of(row);
    for (size_t rank = 0; rank < errors.size(); ++rank) {
      INFO(row.name << ", rank " << rank);
      CHECK(errors[rank] == "");
    }
  }
}

TEST_CASE("calls with a label are one sequence, whatever their kind") {
  const auto labelled = [](Kind kind, uint64_t label) {
    return Request{kind, 3, HO_FLOAT32, HO_SUM, 0, 0, label};
  };
  const Row rows[] = {
      {"all_gather and reduce_scatter",
       labelled(Kind::kAllGather, 7),
       labelled(Kind::kReduceScatter, 7),
       {"all_gather #1", "reduce_scatter #1"}},
      {"reduce_scatter and barrier",
       labelled(Kind::kReduceScatter, 7),
       labelled(Kind::kBarrier, 1),
       {"reduce_scatter #1", "all_reduce #1"}},
  };
  const auto errors = run_job({"2x2", false, kFarMs}, [&](ho_comm* world) {
    std::string wrong;
    for (const Row& row : rows) {
      wrong += run_row(world, row);
    }
    if (!wrong.empty()) {
      throw std::runtime_error(wrong);
    }
  });
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(errors[rank] == "");
  }
}

// Both may be under way at once: a label gives them no channel of their own.
TEST_CASE("calls with a label may still overlap") {
  const auto errors = run_job({"2x2", false, kFarMs}, [](ho_comm* comm) {
    const auto world = static_cast<size_t>(ho_comm_world_size(comm));
    const std::vector<float> in(world, 1);
    std::vector<float> gathered(world);
    float sum = 0;
    ho_call_options options = HO_CALL_OPTIONS_INIT;
    ho_request* scatter = nullptr;
    ho_request* gather = nullptr;
    options.label = 1;
    must(ho_reduce_scatter(
        comm, in.data(), &sum, 1, HO_FLOAT32, HO_SUM, &options, nullptr, &scatter));
    options.label = 2;
    must(
        ho_all_gather(comm, in.data(), gathered.data(), 1, HO_FLOAT32, &options, nullptr, &gather));
    must(ho_request_wait(gather, 0));  // the one that was begun later
    must(ho_request_wait(scatter, 0));
    if (sum != static_cast<float>(world) || gathered != in) {
      throw std::runtime_error("wrong elements");
    }
  });
  for (const std::string& error : errors) {
    CHECK(error == "");
  }
}
