// What `horing status` asks ranks of other hosts: over the control plane, and what the coordinator
// passes on.
#include "bootstrap/control/status_questions.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "must_have.hpp"
#include "peer_ends.hpp"
#include "planes.hpp"

namespace ho::test {
namespace {

constexpr uint32_t kRanks = 4;

StatusReport report_of(uint32_t rank, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {GlobalRank(rank), {bytes.begin(), bytes.end()}};
}

struct Asking {
  PeerEnds peers;
  StatusQuestions questions{peers.connections};

  explicit Asking(uint32_t ranks = kRanks) : peers(ranks) {}

  // What the rank finds: "asked", "1: text" and "2 of 7: gone", of the question's number.
  std::string at(uint32_t rank) {
    std::string text;
    for (const wire::Message& message : peers.messages_at(rank)) {
      text += text.empty() ? "" : ", ";
      if (message.header.type == wire::Type::kStatusQuestion) {
        text += "asked";
        continue;
      }
      REQUIRE(message.header.type == wire::Type::kStatusReport);
      const auto report = must_have(wire::decode<StatusReport>(message.body));
      text += std::to_string(report.rank.value()) + " of " + std::to_string(message.header.id) +
              ": " + (report.report.empty() ? "gone" : as_string(report.report));
    }
    return text;
  }
};

}  // namespace

TEST_CASE("a question goes to all other ranks, and each answer to who asked") {
  Asking asking;
  asking.questions.ask(1, 7);
  CHECK(asking.at(0) == "asked");
  CHECK(asking.at(1).empty());
  CHECK(asking.at(2) == "asked");
  CHECK(asking.at(3) == "asked");
  asking.questions.report(2, report_of(0, "two"));  // whoever it says it is
  asking.questions.report(2, report_of(2, "again"));
  asking.questions.report(1, report_of(1, "not asked"));
  CHECK(asking.at(1) == "2 of 7: two");
  CHECK(asking.at(0).empty());
}

TEST_CASE("two that ask at once share the answers, and a rank is asked once") {
  Asking asking;
  asking.questions.ask(0, 1);
  asking.questions.ask(1, 9);
  CHECK(asking.at(2) == "asked");
  CHECK(asking.at(3) == "asked");
  CHECK(asking.at(0) == "asked");
  CHECK(asking.at(1) == "asked");
  asking.questions.report(3, report_of(3, "three"));
  CHECK(asking.at(0) == "3 of 1: three");
  CHECK(asking.at(1) == "3 of 9: three");
}

TEST_CASE("a rank that does not answer is not asked again, and answers the last question") {
  Asking asking;
  for (uint64_t number = 1; number <= 100; ++number) {
    asking.questions.ask(0, number);
    asking.questions.report(1, report_of(1, "one"));
  }
  CHECK(asking.at(2) == "asked");
  static_cast<void>(asking.at(0));
  asking.questions.report(2, report_of(2, "two"));
  CHECK(asking.at(0) == "2 of 100: two");
}

TEST_CASE("many hosts that ask at once are all answered by a rank that is slow") {
  constexpr uint32_t kHosts = 100;
  Asking asking(kHosts + 1);
  for (uint32_t rank = 0; rank < kHosts; ++rank) {
    asking.questions.ask(rank, rank);
    static_cast<void>(asking.at(rank));
  }
  asking.questions.report(kHosts, report_of(kHosts, "slow"));
  for (uint32_t rank = 0; rank < kHosts; ++rank) {
    const std::string expected = std::to_string(kHosts) + " of " + std::to_string(rank) + ": slow";
    CHECK(asking.at(rank).find(expected) != std::string::npos);
  }
}

TEST_CASE("ranks that have gone or go are named to who asks") {
  Asking asking;
  asking.peers.connections.drop(3);
  asking.questions.gone(3);
  asking.questions.ask(0, 5);
  CHECK(asking.at(0) == "3 of 5: gone");
  asking.peers.connections.drop(2);
  asking.questions.gone(2);
  CHECK(asking.at(0) == "2 of 5: gone");
  asking.peers.connections.drop(0);
  asking.questions.gone(0);  // nobody is left to be told
  asking.questions.report(1, report_of(1, "one"));
}

TEST_CASE("who asks and does not read is not sent more than is kept for it") {
  Asking asking;
  const std::string large(wire::kMaxStatusBytes, 'x');
  for (uint64_t number = 0; number < 1000; ++number) {
    asking.questions.ask(0, number);
    asking.questions.report(1, report_of(1, large));
    static_cast<void>(asking.at(1));
  }
  CHECK(asking.peers.connections.of(0).unsent_bytes() <=
        StatusQuestions::kMaxUnread + 2 * wire::kMaxStatusBytes);
  CHECK(asking.peers.connections.take_overfull().empty());
}

TEST_CASE("a question that comes before a rank can answer is answered once it can") {
  constexpr uint32_t kLate = 2;
  std::promise<std::string> first;
  std::promise<std::string> last;
  const auto planes = world(3);
  planes[0]->answer_status(
      {.report = [] { return std::string("of 0"); },
       .on_report =
           [&](uint64_t /*number*/, const StatusReport& report) {
             (report.rank.value() == kLate ? last : first).set_value(as_string(report.report));
           }});
  planes[1]->answer_status(
      {.report = [] { return std::string("of 1"); },
       .on_report = [](uint64_t /*number*/, const StatusReport& /*report*/) {}});
  CHECK(planes[0]->ask_status(1));
  // Rank 0's process has sent the question to all by then, and what is gathered comes after it.
  auto answered = first.get_future();
  REQUIRE(answered.wait_for(kFar) == std::future_status::ready);
  std::vector<std::future<bool>> gathers;
  for (const auto& plane : planes) {
    gathers.push_back(std::async(std::launch::async, [&plane] {
      return plane->barrier("after the question", {}, deadline_after(kFar)).ok();
    }));
  }
  for (auto& gather : gathers) {
    CHECK(gather.get());
  }
  planes[kLate]->answer_status(
      {.report = [] { return std::string("of 2"); },
       .on_report = [](uint64_t /*number*/, const StatusReport& /*report*/) {}});
  auto late = last.get_future();
  REQUIRE(late.wait_for(kFar) == std::future_status::ready);
  CHECK(late.get() == "of 2");
}

TEST_CASE("all ranks hear what the others do while none of their threads calls anything") {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint32_t, std::map<uint32_t, std::string>> heard;  // by who asked and who answered
  const auto planes = world(kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    planes[rank]->answer_status({.report = [rank] { return "report of " + std::to_string(rank); },
                                 .on_report =
                                     [&, rank](uint64_t number, const StatusReport& report) {
                                       const std::scoped_lock lock(mutex);
                                       heard[rank][report.rank.value()] = as_string(report.report) +
                                                                          " to " +
                                                                          std::to_string(number);
                                       changed.notify_all();
                                     }});
  }
  CHECK(planes[0]->ask_status(40));
  CHECK(planes[2]->ask_status(42));
  std::unique_lock lock(mutex);
  REQUIRE(changed.wait_for(lock, kFar, [&] { return heard[0].size() + heard[2].size() == 6; }));
  CHECK(heard[0] == std::map<uint32_t, std::string>{{1, "report of 1 to 40"},
                                                    {2, "report of 2 to 40"},
                                                    {3, "report of 3 to 40"}});
  CHECK(heard[2] == std::map<uint32_t, std::string>{{0, "report of 0 to 42"},
                                                    {1, "report of 1 to 42"},
                                                    {3, "report of 3 to 42"}});
}

}  // namespace ho::test
