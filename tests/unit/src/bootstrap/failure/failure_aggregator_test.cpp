#include "bootstrap/failure/failure_aggregator.hpp"

#include "bootstrap/messages/rank_names.hpp"
#include "catch.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

const Deadline kStart{std::chrono::seconds(1000)};

std::vector<std::string> names(uint32_t size) {
  std::vector<std::string> result;
  for (uint32_t rank = 0; rank < size; ++rank) {
    result.push_back(rank_at_host(rank, "n", 100 + rank));
  }
  return result;
}

std::shared_ptr<const std::vector<std::string>> shared_names(uint32_t size) {
  return std::make_shared<const std::vector<std::string>>(names(size));
}

FailureReport report_of(uint32_t rank, StatusCode code, const std::string& text) {
  return {.code = code, .reporter = GlobalRank(rank), .peer = {}, .text = text};
}

RankState state_of(uint32_t entered,
                   uint32_t completed,
                   const std::string& operation = "",
                   const std::string& waiting = "",
                   uint16_t communicator = 0,
                   uint8_t channel = 0) {
  return {.communicator = communicator,
          .channel = channel,
          .entered = entered,
          .completed = completed,
          .operation = operation,
          .waiting = waiting};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Decided {
  Status cause;
  std::chrono::milliseconds after;
};

// Follows the aggregator's own deadlines until it decides.
Decided decide(FailureAggregator& aggregator) {
  Deadline now = kStart;
  for (int i = 0; i < 10; ++i) {
    if (const auto decision = aggregator.decide(now)) {
      return {decision->cause, std::chrono::duration_cast<std::chrono::milliseconds>(now - kStart)};
    }
    now = aggregator.next_deadline();
    REQUIRE(now != Deadline::max());
  }
  return {Status(StatusCode::kInternal, "undecided"), 0ms};
}

}  // namespace

TEST_CASE("communicators of one number are told apart: no stranger is blamed") {
  const auto in = [](uint64_t communicator_id, uint32_t entered, const std::string& operation) {
    RankState state = state_of(entered, 0, operation, "", 3);
    state.communicator_id = communicator_id;
    return state;
  };
  constexpr uint64_t kEven = 70;
  constexpr uint64_t kOdd = 71;
  std::vector<RankAnswer> answers{{0, true, {in(kEven, 1, "all_reduce")}},
                                  {1, true, {in(kOdd, 1, "broadcast")}},
                                  {2, true, {in(kEven, 0, "")}},
                                  {3, true, {in(kOdd, 0, "")}}};
  FailureReport first = report_of(0, StatusCode::kTimeout, "all_reduce #1 is late");
  first.communicator = kEven;
  const auto said = [&] { return stall_text(answers, names(4), first); };
  CHECK(has(said(), "rank 2 has not entered all_reduce #1 of communicator 3 (it has entered none"));
  CHECK(has(said(), "communicator 3 is of ranks 0, 2 of the job"));
  CHECK_FALSE(has(said(), "rank 3"));
  CHECK_FALSE(different_calls_text(answers, first).has_value());
  // Where the others are ahead in numbers, too.
  answers[1].states = {in(kOdd, 200, "barrier")};
  CHECK(has(said(), "rank 2 has not entered all_reduce #1 of communicator 3"));
  // Nor does a circle lead from one into the other.
  CHECK_FALSE(find_circle(answers, first).has_value());
}

TEST_CASE("of two communicators that stall, the one that the report is of is explained") {
  constexpr uint64_t kOne = 71;
  constexpr uint64_t kTwo = 72;
  const auto in = [](uint64_t communicator_id, uint32_t entered) {
    RankState state = state_of(entered, 0, entered > 0 ? "all_reduce" : "", "", 0);
    state.communicator_id = communicator_id;
    return state;
  };
  // Rank 0 is in both; rank 1 is late in the one, rank 2 in the other.
  const std::vector<RankAnswer> answers{
      {0, true, {in(kOne, 1), in(kTwo, 1)}}, {1, true, {in(kOne, 0)}}, {2, true, {in(kTwo, 0)}}};
  for (const uint64_t reported : {kOne, kTwo}) {
    FailureReport first = report_of(0, StatusCode::kTimeout, "all_reduce #1 is late");
    first.communicator = reported;
    const std::string said = stall_text(answers, names(3), first);
    CHECK(has(said, "rank 1 has not entered") == (reported == kOne));
    CHECK(has(said, "rank 2 has not entered") == (reported == kTwo));
  }
}

TEST_CASE("a message between two that only one has begun says so") {
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(1, 0, "send/recv", "recv from rank 1", 0, 9)}}, {1, true, {}}};
  const FailureReport first = report_of(0, StatusCode::kTimeout, "send/recv #1 is late");
  CHECK(has(stall_text(answers, names(2), first),
            "only rank 0 has entered send/recv #1 and waits: recv from rank 1"));
}

TEST_CASE("lists of ranks are short") {
  const auto list = [](std::vector<uint32_t> ranks, size_t most = 16) {
    return rank_list(ranks, most);
  };
  CHECK(list({5}) == "rank 5");
  CHECK(list({1, 2}) == "ranks 1, 2");
  CHECK(list({1, 2, 3, 7, 9, 10}) == "ranks 1-3, 7, 9, 10");
  CHECK(list({0, 2, 4, 6}, 2) == "ranks 0, 2 and 2 more");
}

TEST_CASE("nothing is decided without a cause, and once with one") {
  FailureAggregator aggregator(shared_names(3));
  CHECK(aggregator.next_deadline() == Deadline::max());
  CHECK_FALSE(aggregator.decide(kStart).has_value());
  aggregator.report(report_of(1, StatusCode::kConnection, "first"), kStart);
  CHECK_FALSE(aggregator.decide(kStart + 149ms).has_value());
  CHECK(aggregator.decide(kStart + 150ms).has_value());
  aggregator.report(report_of(2, StatusCode::kConnection, "second"), kStart + 200ms);
  CHECK_FALSE(aggregator.decide(kStart + 10s).has_value());
  CHECK(aggregator.next_deadline() == Deadline::max());
}

TEST_CASE("the first of the most telling class is the cause") {
  FailureAggregator aggregator(shared_names(6));
  aggregator.report(report_of(0, StatusCode::kTimeout, "waited"), kStart);
  CHECK(aggregator.take_query());
  CHECK_FALSE(aggregator.take_query());
  aggregator.report(report_of(1, StatusCode::kConnection, "reset"), kStart);
  aggregator.report(report_of(2, StatusCode::kMismatch, "7 against 8"), kStart + 1ms);
  aggregator.report(report_of(3, StatusCode::kMismatch, "8 against 7"), kStart + 2ms);
  const Decided decided = decide(aggregator);
  CHECK(decided.cause.code() == StatusCode::kMismatch);
  CHECK(decided.cause.message() == "7 against 8 (first reported by rank 2 (n, pid 102))");
  CHECK(decided.after == 150ms);
}

TEST_CASE("a rank that is gone beats every report, which then says how it was noticed") {
  FailureAggregator aggregator(shared_names(6));
  aggregator.report(report_of(1, StatusCode::kMismatch, "frame from rank 5 ended"), kStart);
  aggregator.rank_gone(5, kStart + 20ms);
  aggregator.rank_gone(5, kStart + 21ms);
  const Status cause = decide(aggregator).cause;
  CHECK(cause.code() == StatusCode::kPeerLost);
  CHECK(has(cause.message(), "rank 5 (n, pid 105) is gone"));
  CHECK(has(cause.message(), "rank 1 (n, pid 101) noticed it as: frame from rank 5 ended"));
}

TEST_CASE("several that are gone are listed in the order they went") {
  FailureAggregator aggregator(shared_names(20));
  for (uint32_t rank = 19; rank > 5; --rank) {
    aggregator.rank_gone(rank, kStart);
  }
  const Status cause = decide(aggregator).cause;
  CHECK(has(cause.message(), "rank 19 (n, pid 119), rank 18 (n, pid 118)"));
  CHECK(has(cause.message(), "and 6 more ranks are gone"));
}

TEST_CASE("a rank that said why before it vanished is not the cause by vanishing") {
  FailureAggregator aggregator(shared_names(3));
  aggregator.report(report_of(1, StatusCode::kMismatch, "sizes differ"), kStart);
  aggregator.rank_gone(1, kStart + 5ms);
  CHECK(decide(aggregator).cause.code() == StatusCode::kMismatch);
  // But a mere timeout explains nothing.
  FailureAggregator other(shared_names(3));
  other.report(report_of(1, StatusCode::kTimeout, "waited"), kStart);
  other.rank_gone(1, kStart + 5ms);
  CHECK(decide(other).cause.code() == StatusCode::kPeerLost);
}

TEST_CASE("a rank that left as planned is neither gone nor asked") {
  FailureAggregator aggregator(shared_names(2));
  aggregator.rank_left(1);
  aggregator.rank_gone(1, kStart);
  CHECK(aggregator.next_deadline() == Deadline::max());
  aggregator.report(report_of(0, StatusCode::kTimeout, "waited"), kStart);
  aggregator.answer(0, {state_of(3, 2, "barrier", "recv from rank 1")});
  const Decided decided = decide(aggregator);
  CHECK(decided.after == 150ms);  // no answer is missing
  CHECK_FALSE(has(decided.cause.message(), "does not answer"));
}

TEST_CASE("a stall waits for answers, but not for long") {
  FailureAggregator aggregator(shared_names(3));
  aggregator.report(report_of(0, StatusCode::kTimeout, "all_gather #4 is late"), kStart);
  REQUIRE(aggregator.take_query());
  aggregator.answer(0, {state_of(4, 3, "all_gather", "recv from rank 2")});
  aggregator.answer(1, {state_of(4, 3, "all_gather", "recv from rank 2")});
  const Decided decided = decide(aggregator);
  CHECK(decided.after == 2000ms);
  CHECK(decided.cause.code() == StatusCode::kTimeout);
  CHECK(has(decided.cause.message(),
            "rank 2 (n, pid 102) does not answer: stopped, or its host is gone"));
  CHECK(has(decided.cause.message(),
            "all 2 ranks have entered all_gather #4 and wait: recv from "
            "rank 2 (ranks 0, 1)"));
  CHECK(
      has(decided.cause.message(), "first reported by rank 0 (n, pid 100): all_gather #4 is late"));
}

TEST_CASE("where one rank alone answers, it is not called all ranks") {
  const std::vector<RankAnswer> answers{{0, true, {state_of(4, 3, "barrier", "recv from rank 1")}},
                                        {1, false, {}}};
  CHECK(stall_text(answers, names(2), report_of(0, StatusCode::kTimeout, "barrier #4")) ==
        "rank 1 (n, pid 101) does not answer: stopped, or its host is gone; the one rank that "
        "answers has entered barrier #4 and waits: recv from rank 1 (rank 0)");
}

TEST_CASE("a chain of waits over thousands of ranks is followed to its end") {
  // Rank r waits in communicator r + 1 for the next one, which is not in it yet.
  constexpr uint16_t kRanks = 4096;
  std::vector<RankAnswer> answers;
  for (uint16_t rank = 0; rank < kRanks; ++rank) {
    answers.push_back({rank, true, {state_of(0, 0, "", "", rank)}});
    if (rank + 1 < kRanks) {
      answers.back().states.push_back(state_of(1, 0, "barrier", "recv", rank + 1));
    }
  }
  const std::string text =
      stall_text(answers, names(kRanks), report_of(0, StatusCode::kTimeout, "barrier #1"));
  CHECK(text.starts_with("rank 4095 has not entered barrier #1 of communicator 4095 ("));
}

TEST_CASE("a stall names who has not entered, and where the others wait") {
  std::vector<RankAnswer> answers;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const std::string waiting =
        rank == 1 || rank == 4 ? "inter step 2 of rail 1" : "intra step 1 of rank 5";
    answers.push_back(
        {rank, true, {rank == 5 ? state_of(11, 11) : state_of(12, 11, "all_reduce", waiting)}});
  }
  const std::string text =
      stall_text(answers, names(16), report_of(3, StatusCode::kTimeout, "all_reduce #12"));
  CHECK(text ==
        "rank 5 has not entered all_reduce #12 (its last is #11); 15 ranks wait in it: "
        "inter step 2 of rail 1 (ranks 1, 4), intra step 1 of rank 5 (ranks 0, 2, 3, 6-15)");
}

TEST_CASE("ranks behind are told apart by what they do") {
  const std::vector<RankAnswer> answers{{0, true, {state_of(9, 8, "barrier", "recv from rank 1")}},
                                        {1, true, {state_of(8, 7, "all_gather", "send to rank 2")}},
                                        {2, true, {state_of(7, 7)}},
                                        {3, true, {state_of(7, 7)}},
                                        {4, true, {state_of(0, 0)}},
                                        {5, true, {state_of(9, 9)}},
                                        {6, true, {}}};
  const std::string text =
      stall_text(answers, names(7), report_of(0, StatusCode::kTimeout, "late"));
  CHECK(has(text,
            "rank 1 has not entered barrier #9 (it is still in all_gather #8: send to rank 2)"));
  CHECK(has(text, "ranks 2, 3 have not entered barrier #9 (their last is #7)"));
  CHECK(has(text, "rank 4 has not entered barrier #9 (it has entered none so far)"));
  CHECK(has(text, "1 rank has completed it"));
  CHECK(has(text, "1 rank waits in it: recv from rank 1 (rank 0)"));
  CHECK_FALSE(has(text, "rank 6"));
}

TEST_CASE("the operation that the first report names is the one that is explained") {
  const std::vector<RankAnswer> answers{
      {0,
       true,
       {state_of(3, 2, "all_gather", "a", 0, 0), state_of(5, 4, "reduce_scatter", "b", 2, 1)}},
      {1, true, {state_of(3, 2, "all_gather", "c", 0, 0), state_of(4, 4, "", "", 2, 1)}}};
  const std::string second = stall_text(
      answers, names(2), report_of(0, StatusCode::kTimeout, "reduce_scatter #5 is late"));
  CHECK(has(second, "rank 1 has not entered reduce_scatter #5 of communicator 2"));
  const std::string first =
      stall_text(answers, names(2), report_of(0, StatusCode::kTimeout, "all_gather #3 is late"));
  CHECK(first == "all 2 ranks have entered all_gather #3 and wait: a (rank 0), c (rank 1)");
}

TEST_CASE("a wait in different operations is a mismatch, not a stall") {
  FailureAggregator aggregator(shared_names(4));
  aggregator.report(report_of(0, StatusCode::kTimeout, "all_reduce #3 is late"), kStart);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    aggregator.answer(rank, {state_of(3, 2, rank == 1 ? "broadcast" : "all_reduce", "recv", 0, 2)});
  }
  const Status cause = decide(aggregator).cause;
  CHECK(cause.code() == StatusCode::kMismatch);
  CHECK(cause.message() ==
        "rank 1 is in broadcast #3, ranks 0, 2, 3 in all_reduce #3; all ranks must make the same "
        "calls in the same order; first reported by rank 0 (n, pid 100): all_reduce #3 is late");
}

TEST_CASE("ranks that have completed unequally many may be in different operations") {
  const std::vector<RankAnswer> answers{{0, true, {state_of(3, 0, "all_reduce", "a")}},
                                        {1, true, {state_of(3, 2, "broadcast", "b")}}};
  const FailureReport first = report_of(0, StatusCode::kTimeout, "late");
  CHECK_FALSE(different_calls_text(answers, first).has_value());
}

TEST_CASE("a rank that is in an operation of another kind is named with it") {
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(0, 0), state_of(1, 0, "reduce_scatter", "recv from rank 1", 0, 1)}},
      {1, true, {state_of(1, 0, "all_gather", "recv from rank 0"), state_of(0, 0, "", "", 0, 1)}}};
  const std::string text = stall_text(
      answers, names(2), report_of(0, StatusCode::kTimeout, "reduce_scatter #1 is late"));
  CHECK(has(text,
            "rank 1 has not entered reduce_scatter #1 (it has entered none so far; it is in "
            "all_gather #1)"));
}

TEST_CASE("a rank that is in a split is named with it, and the split is not what the others miss") {
  const RankState split = state_of(2, 1, "ho_comm_split", "", 0, kCallChannel);
  const std::vector<RankAnswer> answers{
      {0, true, {split, state_of(3, 3)}},
      {1, true, {state_of(4, 3, "all_reduce", "recv from rank 0")}}};
  for (const uint32_t reporter : {0U, 1U}) {
    const std::string said =
        stall_text(answers, names(2), report_of(reporter, StatusCode::kTimeout, "late"));
    INFO(said);
    CHECK(has(said,
              "rank 0 has not entered all_reduce #4 (its last is #3; it is in ho_comm_split #2)"));
  }
}

TEST_CASE("a stall names the rank at the end of the waits, over all communicators, not a victim") {
  // Ranks 2, 3 wait for rank 0 in communicator 4, rank 0 for rank 1 in 3, and rank 1 for nobody.
  const std::vector<RankAnswer> answers{
      {0,
       true,
       {state_of(1, 0, "all_gather", "recv from rank 1", 3), state_of(0, 0, "", "", 4, 1)}},
      {1, true, {state_of(0, 0, "", "", 3)}},
      {2, true, {state_of(1, 0, "reduce_scatter", "recv from rank 0", 4, 1)}},
      {3, true, {state_of(1, 0, "reduce_scatter", "recv from rank 0", 4, 1)}}};
  const std::string text = stall_text(
      answers, names(4), report_of(2, StatusCode::kTimeout, "reduce_scatter #1 is late"));
  CHECK(
      text ==
      "rank 1 has not entered all_gather #1 of communicator 3 (it has entered none so far); 1 "
      "rank waits in it: recv from rank 1 (rank 0); because of that, rank 0 has not entered "
      "reduce_scatter #1 of communicator 4 (it has entered none so far; it is in all_gather #1 "
      "of communicator 3); communicator 3 is of ranks 0, 1 of the job; communicator 4 is of ranks "
      "0, 2, 3 of the job");
}

TEST_CASE("waits are followed through several communicators") {
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(2, 1, "all_reduce", "a", 1, 2), state_of(5, 5, "", "", 0, 2)}},
      {1, true, {state_of(1, 1, "", "", 1, 2), state_of(3, 2, "broadcast", "b", 2, 2)}},
      {2, true, {state_of(2, 2, "", "", 2, 2)}},
      {3, true, {state_of(6, 5, "all_reduce", "c", 0, 2)}}};
  const std::string text =
      stall_text(answers, names(4), report_of(3, StatusCode::kTimeout, "all_reduce #6"));
  INFO(text);
  CHECK(text.starts_with("rank 2 has not entered broadcast #3 of communicator 2 (its last is #2)"));
  CHECK(has(text, "because of that, rank 0 has not entered all_reduce #6"));
}

TEST_CASE("waits end at a rank that waits for a message, whose numbers are no others'") {
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(1, 0, "all_gather", "a", 3), state_of(0, 0, "", "", 0, 1)}},
      {1, true, {state_of(0, 0, "", "", 3), state_of(1, 0, "send/recv", "b", 0, 3)}},
      {2, true, {state_of(1, 0, "reduce_scatter", "c", 0, 1), state_of(7, 7, "", "", 0, 3)}}};
  const std::string text = stall_text(
      answers, names(3), report_of(2, StatusCode::kTimeout, "reduce_scatter #1 is late"));
  INFO(text);
  CHECK(text.starts_with(
      "rank 1 has not entered all_gather #1 of communicator 3 (it has entered none so far; it is "
      "in send/recv #1)"));
}

TEST_CASE("ranks that wait for each other in two communicators are told as they are") {
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(1, 0, "all_gather", "a", 1), state_of(0, 0, "", "", 2)}},
      {1, true, {state_of(0, 0, "", "", 1), state_of(1, 0, "broadcast", "b", 2)}}};
  const std::string text =
      stall_text(answers, names(2), report_of(0, StatusCode::kTimeout, "all_gather #1"));
  INFO(text);
  CHECK(text.starts_with(
      "rank 1 has not entered all_gather #1 of communicator 1 (it has entered none so far; it is "
      "in broadcast #1 of communicator 2)"));
}

TEST_CASE("a stall without any operation says so") {
  const std::vector<RankAnswer> answers{{0, true, {state_of(3, 3)}}, {1, false, {}}};
  const std::string text =
      stall_text(answers, names(2), report_of(0, StatusCode::kTimeout, "late"));
  CHECK(has(text, "rank 1 (n, pid 101) does not answer"));
  CHECK(has(text, "no rank that answers is inside an operation"));
}

TEST_CASE("an aggregator that must close decides with what it has") {
  FailureAggregator aggregator(shared_names(3));
  CHECK_FALSE(aggregator.began().has_value());
  CHECK_FALSE(aggregator.decide_now().has_value());
  aggregator.report(report_of(0, StatusCode::kTimeout, "late"), kStart);
  CHECK(aggregator.began().has_value());
  CHECK(aggregator.waits_for_answers());
  aggregator.report(report_of(1, StatusCode::kAborted, "the test says so"), kStart);
  CHECK_FALSE(aggregator.waits_for_answers());
  const auto decision = aggregator.decide_now();
  REQUIRE(decision.has_value());
  CHECK(decision->cause.code() == StatusCode::kAborted);
  CHECK_FALSE(aggregator.decide_now().has_value());
  CHECK_FALSE(aggregator.decide(kStart + 10s).has_value());
}

TEST_CASE("hostile reports are bounded, and no such rank's is taken") {
  FailureAggregator aggregator(shared_names(2));
  aggregator.report(report_of(7, StatusCode::kConnection, "no such rank"), kStart);
  CHECK(aggregator.next_deadline() == Deadline::max());
  for (int i = 0; i < 10000; ++i) {
    aggregator.report(report_of(1, StatusCode::kConnection, "again"), kStart);
  }
  CHECK(decide(aggregator).cause.code() == StatusCode::kConnection);
}

namespace {

RankState of_communicator_id(RankState state, uint64_t communicator_id) {
  state.communicator_id = communicator_id;
  return state;
}

}  // namespace

TEST_CASE("ranks that wait for each other in a circle are a mismatch that names the circle") {
  FailureAggregator aggregator(shared_names(3));
  aggregator.report(report_of(2, StatusCode::kTimeout, "barrier #4 is late"), kStart);
  // Rank 2 waits for both; these wait for each other.
  aggregator.answer(0,
                    {state_of(3, 3),
                     of_communicator_id(state_of(1, 0, "all_gather", "a", 1, 2), 71),
                     of_communicator_id(state_of(5, 5, "", "", 2, 2), 72)});
  aggregator.answer(1,
                    {state_of(3, 3),
                     of_communicator_id(state_of(0, 0, "", "", 1, 2), 71),
                     of_communicator_id(state_of(6, 5, "broadcast", "b", 2, 2), 72)});
  aggregator.answer(2, {state_of(4, 3, "barrier", "c")});
  const auto decision = aggregator.decide(kStart + 1s);
  REQUIRE(decision.has_value());
  CHECK(decision->cause.code() == StatusCode::kMismatch);
  CHECK(
      decision->cause.message() ==
      "ranks wait for each other in a circle: rank 0 is in all_gather #1 of communicator 1, which "
      "rank 1 has not entered; rank 1 is in broadcast #6 of communicator 2, which rank 0 has not "
      "entered; all ranks must call what waits for others in the same order, over all "
      "communicators; first reported by rank 2 (n, pid 102): barrier #4 is late");
  CHECK(decision->also == std::vector<uint64_t>{71, 72});
}

TEST_CASE("a circle of three communicators is found though another rank than began it closes it") {
  // Ranks 0 and 3 are in one operation of communicator 1.
  const std::vector<RankAnswer> answers{
      {0, true, {state_of(1, 0, "all_gather", "a", 1)}},
      {1, true, {state_of(0, 0, "", "", 1), state_of(2, 1, "broadcast", "b", 2)}},
      {2, true, {state_of(1, 1, "", "", 2), state_of(3, 2, "all_reduce", "c", 3)}},
      {3, true, {state_of(1, 0, "all_gather", "d", 1), state_of(2, 2, "", "", 3)}}};
  const auto circle = find_circle(answers, report_of(0, StatusCode::kTimeout, "all_gather #1"));
  REQUIRE(circle.has_value());
  CHECK(circle->text.starts_with(
      "ranks wait for each other in a circle: rank 3 is in all_gather #1 of communicator 1, which "
      "rank 1 has not entered; rank 1 is in broadcast #2 of communicator 2, which rank 2 has not "
      "entered; rank 2 is in all_reduce #3 of communicator 3, which rank 3 has not entered; "));
  CHECK(circle->communicators.empty());  // their communicator ids are not known
}

TEST_CASE("waits that end at a rank which waits for nobody, or in a split, are no circle") {
  const FailureReport first = report_of(0, StatusCode::kTimeout, "all_gather #1");
  const RankAnswer zero{0, true, {state_of(1, 0, "all_gather", "a", 1), state_of(0, 0, "", "", 2)}};
  const RankAnswer one{1, true, {state_of(0, 0, "", "", 1), state_of(1, 0, "broadcast", "b", 2)}};
  CHECK(find_circle(std::vector<RankAnswer>{zero, one}, first).has_value());
  const std::vector<RankAnswer> slow{zero, one, {2, true, {state_of(0, 0, "", "", 1)}}};
  CHECK_FALSE(find_circle(slow, first).has_value());
  const RankState split = state_of(2, 1, "ho_comm_split", "", 0, kCallChannel);
  const std::vector<RankAnswer> splits{zero, {1, true, {state_of(0, 0, "", "", 1), split}}};
  CHECK_FALSE(find_circle(splits, first).has_value());
}

namespace {

// Two ranks, each in an operation of communicator 1 or 2 that the other has not entered.
std::vector<RankAnswer> crossing_waits() {
  return {{0, true, {state_of(1, 0, "all_gather", "a", 1), state_of(4, 4, "", "", 2)}},
          {1, true, {state_of(0, 0, "", "", 1), state_of(5, 4, "broadcast", "b", 2)}}};
}

const FailureReport kLateGather = report_of(0, StatusCode::kTimeout, "all_gather #1 is late");

}  // namespace

TEST_CASE("a rank that may go on with other calls is in no circle") {
  REQUIRE(find_circle(crossing_waits(), kLateGather).has_value());
  for (const size_t rank : {size_t{0}, size_t{1}}) {
    std::vector<RankAnswer> answers = crossing_waits();
    for (RankState& state : answers[rank].states) {
      state.held = 0;
    }
    INFO("rank " << rank);
    CHECK_FALSE(find_circle(answers, kLateGather).has_value());
  }
}

TEST_CASE("a rank with another way on is in no circle, one with none is, whatever else it is in") {
  std::vector<RankAnswer> answers = crossing_waits();
  answers[1].states.push_back(state_of(8, 7, "barrier", "c", 3));
  answers.push_back({2, true, {state_of(7, 7, "", "", 3), state_of(3, 2, "barrier", "d", 4)}});
  answers.push_back({3, true, {state_of(2, 2, "", "", 4), state_of(1, 0, "all_gather", "e", 1)}});
  answers[3].states.back().held = 0;
  // Rank 1 is also held in what rank 2 may yet enter, once rank 3 has come to communicator 4.
  CHECK_FALSE(find_circle(answers, kLateGather).has_value());
  // A request that nobody waits for does not matter.
  answers[1].states.back().held = 0;
  CHECK(find_circle(answers, kLateGather).has_value());
  // Nor is rank 2 a way on where rank 3 is in the circle too.
  answers[1].states.back().held = 8;
  answers[3].states.back().held = 1;
  CHECK(find_circle(answers, kLateGather).has_value());
}

TEST_CASE("a rank waits in the operation whose end it awaits, not in those it began after it") {
  std::vector<RankAnswer> answers = crossing_waits();
  // Rank 0 awaits #1, which rank 1 has entered, and has begun #2.
  answers[0].states[0].entered = 2;
  answers[0].states[0].held = 1;
  answers[1].states[0].entered = 1;
  answers[1].states[0].completed = 1;
  CHECK_FALSE(find_circle(answers, kLateGather).has_value());
  answers[0].states[0].held = 2;
  CHECK(find_circle(answers, kLateGather).has_value());
}

TEST_CASE("who waits for a message may get it: no circle, and messages have none behind") {
  std::vector<RankAnswer> answers = crossing_waits();
  answers[0].states.push_back(state_of(2, 1, "send/recv", "recv from rank 1", 3, 3));
  CHECK_FALSE(find_circle(answers, kLateGather).has_value());
  answers[0].states.back().held = 0;
  answers[1].states.push_back(state_of(1, 1, "", "", 3, 3));
  CHECK(find_circle(answers, kLateGather).has_value());
  const FailureReport late_message =
      report_of(0, StatusCode::kTimeout, "recv from rank 1 did not complete: send/recv #2");
  CHECK_FALSE(find_circle(answers, late_message).has_value());
}

TEST_CASE("a circle is none of a communicator's whose own operations have all ended") {
  std::vector<RankAnswer> answers = crossing_waits();
  FailureReport elsewhere = kLateGather;
  elsewhere.communicator = 70;
  CHECK_FALSE(find_circle(answers, elsewhere).has_value());
}
