// What the runtime's collectives ask of libhoring, whose calls are those of this file.
#include <horing.h>

#include <array>
#include <string>
#include <vector>

#include "catch.hpp"
#include "collectives/horing_collectives.hpp"

namespace {

// Of the last call.
struct Requested {
  std::string call;
  const void* from = nullptr;
  void* to = nullptr;
  std::vector<size_t> counts;
  ho_dtype dtype = HO_FLOAT32;
  ho_call_options options = HO_CALL_OPTIONS_INIT;
};
Requested requested;
ho_status answer = HO_OK;  // to whatever comes next
int32_t done = 0;
std::array<std::byte, 2> at_index;  // as a communicator and as a request: never followed

ho_comm* comm() {
  return reinterpret_cast<ho_comm*>(at_index.data());
}

ho_status begin(Requested with, ho_op_report* report, ho_request** request) {
  requested = std::move(with);
  if (answer == HO_OK) {
    report->intra_sent_bytes = 7;
    *request = reinterpret_cast<ho_request*>(&at_index[1]);
  }
  return answer;
}

}  // namespace

extern "C" {

int32_t ho_comm_world_size(const ho_comm* /*comm*/) {
  return 2;
}

ho_status ho_all_gather_counts(ho_comm* /*comm*/,
                               const void* send,
                               void* recv,
                               const size_t* counts,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request) {
  return begin({"all_gather", send, recv, {counts, counts + 2}, dtype, *options}, report, request);
}

ho_status ho_reduce_scatter_counts(ho_comm* /*comm*/,
                                   const void* send,
                                   void* recv,
                                   const size_t* counts,
                                   ho_dtype dtype,
                                   ho_op op,
                                   const ho_call_options* options,
                                   ho_op_report* report,
                                   ho_request** request) {
  CHECK(op == HO_SUM);
  return begin(
      {"reduce_scatter", send, recv, {counts, counts + 2}, dtype, *options}, report, request);
}

ho_status ho_all_reduce(ho_comm* /*comm*/,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        ho_op op,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  CHECK(op == HO_SUM);
  return begin({"all_reduce", send, recv, {count}, dtype, *options}, report, request);
}

ho_status ho_broadcast(ho_comm* /*comm*/,
                       const void* send,
                       void* recv,
                       size_t count,
                       ho_dtype dtype,
                       int32_t root,
                       const ho_call_options* options,
                       ho_op_report* report,
                       ho_request** request) {
  CHECK(root == 1);
  return begin({"broadcast", send, recv, {count}, dtype, *options}, report, request);
}

ho_status ho_request_join(ho_request* /*request*/, void* stream, uint64_t timeout_ms) {
  requested.call = "join";
  requested.options.stream = stream;
  requested.options.timeout_ms = timeout_ms;
  return answer;
}

ho_status ho_comm_status(ho_comm* /*comm*/) {
  return answer;
}

ho_status ho_all_gather(ho_comm* /*comm*/,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  ho_op_report mine = HO_OP_REPORT_INIT;
  ho_request* blocks = nullptr;
  CHECK((request == nullptr || report == nullptr));
  return begin({"all_gather_values", send, recv, {count}, dtype, *options},
               &mine,
               request == nullptr ? &blocks : request);
}

ho_status ho_request_test(ho_request* /*request*/, int32_t* over) {
  *over = done;
  return answer;
}

ho_status ho_request_wait(ho_request* /*request*/, uint64_t timeout_ms) {
  requested.call = "wait";
  requested.options.timeout_ms = timeout_ms;
  return answer;
}

const char* ho_last_error_message(void) {
  return "peer gone";
}

}  // extern "C"

namespace paro {

TEST_CASE("each collective is libhoring's, with its options, and sums 16 bits in fp32") {
  HoringCollectives over(comm());
  std::array<float, 4> all{};
  const std::array<size_t, 2> counts{1, 3};
  const CollectiveOptions options{HO_ALGORITHM_RING, 500};
  answer = HO_OK;
  for (const ho::DType dtype : {ho::DType::kFloat32, ho::DType::kFloat16, ho::DType::kBfloat16}) {
    const int32_t wide_sums = dtype == ho::DType::kFloat32 ? 0 : 1;
    Pending gather;
    REQUIRE(over.begin_all_gather(options, dtype, &all[1], all.data(), counts, gather).ok());
    CHECK((requested.call == "all_gather" && requested.from == &all[1] &&
           requested.to == all.data()));
    CHECK(requested.counts == std::vector<size_t>{1, 3});
    CHECK(requested.options.fp32_sums == 0);
    Pending scatter;
    REQUIRE(over.begin_reduce_scatter(options, dtype, all.data(), &all[1], counts, scatter).ok());
    CHECK((requested.call == "reduce_scatter" && requested.from == all.data() &&
           requested.to == &all[1]));
    CHECK(requested.options.fp32_sums == wide_sums);
    Pending reduce;
    REQUIRE(over.begin_all_reduce(options, dtype, all.data(), 4, reduce).ok());
    CHECK((requested.call == "all_reduce" && requested.from == all.data() &&
           requested.to == all.data()));
    CHECK(requested.counts == std::vector<size_t>{4});
    CHECK(requested.dtype == static_cast<ho_dtype>(dtype));
    CHECK(requested.options.fp32_sums == wide_sums);
    CHECK(requested.options.algorithm == HO_ALGORITHM_RING);
    CHECK(requested.options.timeout_ms == 500);
  }
}

TEST_CASE("a broadcast and a stream's order are libhoring's, and so is a communicator's status") {
  HoringCollectives over(comm());
  std::array<float, 4> all{};
  answer = HO_OK;
  Pending pending;
  const CollectiveOptions options{HO_ALGORITHM_RING, 500, &all[3]};
  REQUIRE(over.begin_broadcast(options, ho::DType::kInt8, all.data(), 4, 1, pending).ok());
  CHECK((requested.call == "broadcast" && requested.from == all.data() &&
         requested.to == all.data()));
  CHECK(requested.options.stream == &all[3]);
  const ho::Result<bool> joined = over.join_stream(pending, all.data(), 30);
  CHECK((joined.ok() && *joined && pending.request != nullptr));
  CHECK((requested.call == "join" && requested.options.stream == all.data() &&
         requested.options.timeout_ms == 30));
  answer = HO_IN_PROGRESS;
  const ho::Result<bool> early = over.join_stream(pending, all.data(), 30);
  CHECK((early.ok() && !*early));
  answer = HO_OK;
  CHECK(over.status().ok());
  answer = HO_PEER_LOST;
  CHECK(over.status().code() == ho::StatusCode::kPeerLost);
}

TEST_CASE("a collective is under way until it is joined") {
  HoringCollectives over(comm());
  std::array<float, 4> all{};
  Pending pending;
  answer = HO_OK;
  REQUIRE(over.begin_all_reduce({}, ho::DType::kFloat32, all.data(), 4, pending).ok());
  done = 0;
  CHECK_FALSE(over.over(pending));
  answer = HO_IN_PROGRESS;
  const ho::Result<bool> early = over.join(pending, 20);
  CHECK((early.ok() && !*early && pending.request != nullptr));
  CHECK(requested.options.timeout_ms == 20);
  answer = HO_OK;
  done = 1;
  CHECK(over.over(pending));
  const ho::Result<bool> joined = over.join(pending, 0);
  CHECK((joined.ok() && *joined && pending.request == nullptr));
  CHECK(pending.report.intra_sent_bytes == 7);
}

TEST_CASE("a collective that fails has libhoring's error, at its begin or at its end") {
  HoringCollectives over(comm());
  std::array<float, 4> all{};
  Pending pending;
  answer = HO_PEER_LOST;
  const ho::Status begun = over.begin_all_reduce({}, ho::DType::kFloat32, all.data(), 4, pending);
  CHECK((begun.code() == ho::StatusCode::kPeerLost && begun.message() == "peer gone"));
  CHECK(pending.request == nullptr);
  answer = HO_OK;
  REQUIRE(over.begin_all_reduce({}, ho::DType::kFloat32, all.data(), 4, pending).ok());
  answer = HO_PEER_LOST;
  done = 0;
  CHECK(over.over(pending));  // join() tells why
  const ho::Result<bool> joined = over.join(pending, 0);
  CHECK((!joined.ok() && joined.status().code() == ho::StatusCode::kPeerLost));
  CHECK(pending.request == nullptr);
}

TEST_CASE("gathered values are joined once, by their end at the latest") {
  const std::array<uint64_t, 1> mine{5};
  std::array<uint64_t, 2> all{};
  answer = HO_OK;
  {
    GatheredValues values;
    REQUIRE(values.begin(comm(), mine, all, 300).ok());
    CHECK((requested.call == "all_gather_values" && requested.options.timeout_ms == 300));
    done = 0;
    CHECK_FALSE(values.over());
    done = 1;
    CHECK(values.over());
  }
  CHECK(requested.call == "wait");
  GatheredValues values;
  REQUIRE(values.begin(comm(), mine, all, 300).ok());
  answer = HO_TIMEOUT;
  CHECK(values.join().code() == ho::StatusCode::kTimeout);
  CHECK(values.join().ok());
}

}  // namespace paro
