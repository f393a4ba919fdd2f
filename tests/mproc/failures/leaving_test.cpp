// Ranks destroy their communicators. In good order nobody may notice; too early, everybody who
// still needs them must hear at once who left, and after what. Deadlines are a minute away: an
// error that waited for one would have another code.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "all_end_well.hpp"
#include "call_memory.hpp"
#include "catch.hpp"
#include "counted_message.hpp"
#include "horing.h"
#include "process_job.hpp"
#include "shared_count.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarDeadlineMs = 60000;

// Every promise holds with a rail per rank, with ranks beyond the rails, and with more than one
// connection per neighbour, of which some may end while others still hold messages.
struct Setting {
  const char* text;
  uint32_t rails;
  uint32_t tcp_connections;

  [[nodiscard]] ProcessJobOptions with(const char* groups) const {
    return {groups, kFarDeadlineMs, rails, tcp_connections};
  }
};

constexpr std::array kSettings{Setting{"a rail per rank", 64, 1},
                               Setting{"rails by NICs", 0, 1},
                               Setting{"two streams", 64, 2}};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ho_status all_reduce(ho_comm* comm, const CallFloats& data) {
  return ho_all_reduce(
      comm, data.data(), data.data(), data.size(), HO_FLOAT32, HO_SUM, nullptr, nullptr, nullptr);
}

ho_status broadcast(ho_comm* comm, const CallFloats& data, int32_t root) {
  return ho_broadcast(
      comm, data.data(), data.data(), data.size(), HO_FLOAT32, root, nullptr, nullptr, nullptr);
}

ho_status all_reduces(ho_comm* comm, const CallFloats& data, int count) {
  ho_status status = HO_OK;
  for (int i = 0; i < count && status == HO_OK; ++i) {
    status = all_reduce(comm, data);
  }
  return status;
}

void check_left(const RankOutcome& outcome, const std::string& operation, const std::string& who) {
  CHECK(outcome.exited);
  CHECK(outcome.status == HO_PEER_LOST);
  CHECK(contains(outcome.message, operation));
  CHECK(contains(outcome.message, who));
  CHECK(contains(outcome.message, "all ranks must make the same calls"));
}

}  // namespace

TEST_CASE("a rank that leaves early is named at once to whoever waits for it or calls later") {
  const size_t which = GENERATE(range(size_t{0}, kSettings.size()));
  const Setting setting = kSettings[which];
  INFO(setting.text);
  size_t turn = which;  // another one in each setting: all choices meet over the three
  for (const char* groups : {"2x2", "1x3", "3x1"}) {
    ++turn;
    for (const int leaver : {0, 2}) {
      const bool others_wait = ++turn % 2 == 0;
      ProcessJob job(setting.with(groups), [=](const ProcessJob::Rank& rank) -> ho_status {
        const CallFloats data(1000, 1.0F);
        const ho_status status = all_reduces(rank.comm, data, 5);
        if (status != HO_OK || ho_comm_rank(rank.comm) == leaver) {
          ::usleep(others_wait ? 200000 : 0);
          return status;
        }
        ::usleep(others_wait ? 0 : 200000);
        return all_reduce(rank.comm, data);
      });
      const std::string name = "rank " + std::to_string(leaver);
      for (size_t rank = 0; rank < job.size(); ++rank) {
        const RankOutcome outcome = job.outcome(rank);
        INFO(groups << " leaver " << leaver << " wait " << others_wait << " rank " << rank << ": "
                    << outcome.message);
        if (static_cast<int>(rank) == leaver) {
          CHECK(outcome.exited);
          CHECK(outcome.status == HO_OK);
        } else {
          check_left(outcome,
                     "all_reduce #6",
                     name + " has left (it destroyed its communicator after all_reduce #5)");
        }
      }
    }
  }
}

TEST_CASE("after a rank has left, every later call says so again") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  const SharedCount requested;
  ProcessJob job(setting.with("2x2"), [&](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    if (ho_comm_rank(rank.comm) == 1) {
      return all_reduces(rank.comm, data, 2);
    }
    (void)all_reduces(rank.comm, data, 2);
    const ho_status first = all_reduce(rank.comm, data);
    const ho_status second = all_reduce(rank.comm, data);
    const CallFloats gathered(4000);
    const ho_status other = ho_all_gather(
        rank.comm, data.data(), gathered.data(), 1000, HO_FLOAT32, nullptr, nullptr, nullptr);
    const std::string gather_text = ho_last_error_message();
    ho_comm* half = nullptr;
    const ho_status split = ho_comm_split(rank.comm, 0, 0, &half);
    // Lest a slow rank find that rank 0, which answers, has left as well.
    requested.add();
    const bool all_requested = requested.wait_for(3);
    const bool all_lost = all_requested && first == HO_PEER_LOST && second == HO_PEER_LOST &&
                          other == HO_PEER_LOST && split == HO_PEER_LOST &&
                          contains(gather_text, "before any such operation");
    return all_lost ? HO_PEER_LOST : HO_INTERNAL;
  });
  for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_PEER_LOST);
    CHECK(contains(outcome.message, "rank 1"));
    CHECK(contains(outcome.message, "has left"));
  }
  CHECK(job.outcome(1).status == HO_OK);
}

// Every rank is the slow one once, and the fast ones are gone long before it begins.
TEST_CASE("ranks that are through may leave before slower ones have begun the last operation") {
  const size_t which = GENERATE(range(size_t{0}, kSettings.size()));
  const Setting setting = kSettings[which];
  INFO(setting.text);
  size_t turn = which;
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    ++turn;
    for (int slow = 0; slow < 4; ++slow) {
      const size_t count = ++turn % 2 == 0 ? 4 : 20000;
      ProcessJob job(setting.with(groups), [=](const ProcessJob::Rank& rank) -> ho_status {
        CallFloats data(count, 1.0F);
        if (const ho_status status = all_reduces(rank.comm, data, 2); status != HO_OK) {
          return status;
        }
        const int self = ho_comm_rank(rank.comm);
        ::usleep(self == slow ? 150000 : 0);
        const int32_t root = slow == 0 ? 3 : 0;
        const ho_status status = broadcast(rank.comm, data, root);
        // And the others at different times.
        ::usleep(static_cast<useconds_t>(self * 7000));
        return status == HO_OK && data.values().back() != data.values().front() ? HO_INTERNAL
                                                                                : status;
      });
      INFO(groups << ", slow rank " << slow << ", " << count << " elements");
      check_all_end_well(job);
    }
  }
}

// Longer than the second after which connections that nobody reads are looked at. With two
// connections the message lies on one, and the other holds nothing but its end: which, the number
// of messages before decides.
TEST_CASE("a rank may enter an operation long after the ranks that it needs have left") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  std::vector<std::unique_ptr<ProcessJob>> jobs;  // at once: they sleep most of the time
  for (const int32_t root : {0, 1}) {
    for (const int before : {1, 2}) {
      const auto body = [=](const ProcessJob::Rank& rank) -> ho_status {
        const bool slow = ho_comm_rank(rank.comm) != root;
        const CallFloats first(4, slow ? 0.0F : 7.0F);
        CallFloats data(4, slow ? 0.0F : 7.0F);
        ho_status status = HO_OK;
        for (int i = 0; i < before && status == HO_OK; ++i) {
          status = broadcast(rank.comm, first, root);
        }
        ::usleep(slow ? 1500000 : 0);
        status = status == HO_OK ? broadcast(rank.comm, data, root) : status;
        return status == HO_OK && data.values().back() != 7.0F ? HO_INTERNAL : status;
      };
      jobs.push_back(std::make_unique<ProcessJob>(setting.with("2x1"), body));
    }
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    INFO("root " << i / 2 << ", " << i % 2 + 1 << " before");
    check_all_end_well(*jobs[i]);
  }
}

TEST_CASE("large operations end well on every rank when each leaves at once") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    for (const int root : {0, 3}) {
      ProcessJob job(setting.with(groups), [=](const ProcessJob::Rank& rank) -> ho_status {
        const CallFloats data(size_t{1} << 20, 1.0F);
        const ho_status status = all_reduce(rank.comm, data);
        return status == HO_OK ? broadcast(rank.comm, data, root) : status;
      });
      INFO(groups << ", root " << root);
      check_all_end_well(job);
    }
  }
}

TEST_CASE("what a rank has sent before it left can still be received, nothing more") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  for (const char* groups : {"1x2", "2x1"}) {
    for (const size_t count : {size_t{10}, size_t{5000}, size_t{60000}}) {
      ProcessJob job(setting.with(groups), [=](const ProcessJob::Rank& rank) -> ho_status {
        std::vector<float> data(count, 0.0F);
        const auto receive = [&](int32_t from) {
          return ho_recv(
              rank.comm, data.data(), count, HO_FLOAT32, from, 0, nullptr, nullptr, nullptr);
        };
        if (ho_comm_rank(rank.comm) == 0) {
          data.assign(count, 7.0F);
          ho_request* sends[2] = {};
          for (ho_request*& request : sends) {
            const ho_status status =
                ho_send(rank.comm, data.data(), count, HO_FLOAT32, 1, 0, nullptr, &request);
            if (status != HO_OK) {
              return status;
            }
          }
          for (ho_request* request : sends) {
            if (const ho_status status = ho_request_wait(request, kFarDeadlineMs);
                status != HO_OK) {
              return status;
            }
          }
          return HO_OK;
        }
        // Rank 0 never receives this: it must not take back what rank 0 has sent.
        float nothing = 0;
        if (count != 5000) {
          (void)ho_send(rank.comm, &nothing, 1, HO_FLOAT32, 0, 0, nullptr, nullptr);
          ::usleep(200000);
        }
        for (int i = 0; i < 2; ++i) {
          if (receive(0) != HO_OK || data.front() != 7.0F || data.back() != 7.0F) {
            return HO_INTERNAL;
          }
        }
        return receive(0);
      });
      const RankOutcome outcome = job.outcome(1);
      INFO(groups << ", " << count << " elements: " << outcome.message);
      CHECK(job.outcome(0).status == HO_OK);
      check_left(outcome,
                 "recv from rank 0 tag 0",
                 "rank 0 has left (it destroyed its communicator after 2 messages to this rank");
    }
  }
}

TEST_CASE("leaving a child communicator concerns neither its parent nor its siblings") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    ProcessJob job(setting.with(groups), [](const ProcessJob::Rank& rank) -> ho_status {
      const CallFloats data(1000, 1.0F);
      ho_comm* pair = nullptr;
      ho_comm* whole = nullptr;
      const int self = ho_comm_rank(rank.comm);
      if (ho_comm_split(rank.comm, self % 2, 0, &pair) != HO_OK ||
          ho_comm_split(rank.comm, 0, 0, &whole) != HO_OK) {
        return HO_INTERNAL;
      }
      ho_status status = all_reduces(pair, data, 3);
      if (self == 2) {  // rank 1 of {0, 2}
        ho_comm_destroy(pair);
        pair = nullptr;
      } else if (self == 0) {
        const ho_status lost = all_reduce(pair, data);
        const std::string text = ho_last_error_message();
        rank.say(text);
        const bool named =
            contains(text, "rank 1 has left (it destroyed its communicator after all_reduce #3)");
        status =
            lost == HO_PEER_LOST && named && contains(text, "of the job") ? HO_OK : HO_INTERNAL;
      }
      // The sibling {1, 3}, the parent and the other child of the same ranks go on.
      if (status == HO_OK && self % 2 == 1) {
        status = all_reduces(pair, data, 3);
      }
      for (int i = 0; i < 3 && status == HO_OK; ++i) {
        status = all_reduce(rank.comm, data);
        status = status == HO_OK ? all_reduce(whole, data) : status;
      }
      ho_comm_destroy(pair);
      ho_comm_destroy(whole);
      return status;
    });
    INFO(groups);
    check_all_end_well(job);
  }
}

TEST_CASE("a split waits in vain for no rank that has left but kept a child") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  ProcessJob job(setting.with("2x2"), [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(100, 1.0F);
    ho_comm* child = nullptr;
    ho_comm* grandchild = nullptr;
    ho_comm* in_vain = nullptr;
    if (ho_comm_split(rank.comm, 0, 0, &child) != HO_OK ||
        ho_comm_split(child, 0, 0, &grandchild) != HO_OK) {
      return HO_INTERNAL;
    }
    const bool leaver = ho_comm_rank(rank.comm) == 3;
    ::usleep(leaver ? 200000 : 0);  // the others wait already
    if (leaver) {
      ho_comm_destroy(child);
    }
    const ho_status split = leaver ? HO_PEER_LOST : ho_comm_split(child, 0, 0, &in_vain);
    const std::string text = ho_last_error_message();
    const bool named = leaver || contains(text, "rank 3 has left");
    rank.say(text);
    const ho_status status = all_reduce(grandchild, data);
    ho_comm_destroy(grandchild);
    if (!leaver) {
      ho_comm_destroy(child);
    }
    return split == HO_PEER_LOST && named ? status : HO_INTERNAL;
  });
  check_all_end_well(job);
}

namespace {

// A request that is never ended keeps memory of the device, which these jobs must not leave behind.
bool on_host() {
  return device_of(0) == HO_DEVICE_NONE;
}

// A receive of one float from the peer, in a request that the caller never ends.
ho_status leave_open(ho_comm* comm, int32_t peer, uint64_t timeout_ms) {
  static float into = 0;
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  ho_request* request = nullptr;
  return ho_recv(comm, &into, 1, HO_FLOAT32, peer, 9, &options, nullptr, &request);
}

}  // namespace

// What rank 0 has completed completes on the others, in the child as in its parent, and rank 0 has
// left: its process is gone before they begin.
TEST_CASE("a rank that leaves a receive open leaves as properly as any other") {
  if (!on_host()) {
    return;
  }
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  for (const char* groups : {"1x2", "2x1", "2x2"}) {
    const SharedCount ended;
    const auto body = [&](const ProcessJob::Rank& rank) -> ho_status {
      const CallFloats data(100, 1.0F);
      ho_comm* child = nullptr;
      if (ho_comm_split(rank.comm, 0, 0, &child) != HO_OK || broadcast(child, data, 0) != HO_OK ||
          broadcast(rank.comm, data, 0) != HO_OK || ho_barrier(rank.comm, nullptr, nullptr)) {
        return HO_INTERNAL;
      }
      const bool first = ho_comm_rank(rank.comm) == 0;
      ho_status status = first ? leave_open(child, 1, 150) : HO_OK;
      if (!first && !ended.wait_for(1)) {
        return HO_INTERNAL;
      }
      status = status == HO_OK ? broadcast(child, data, 0) : status;
      status = status == HO_OK ? broadcast(rank.comm, data, 0) : status;
      const ho_status beyond = first || status != HO_OK ? HO_PEER_LOST : all_reduce(child, data);
      const std::string text = ho_last_error_message();
      rank.say(text);
      ho_comm_destroy(child);
      const bool named = first || contains(text, "rank 0 has left (it destroyed its communicator");
      return beyond == HO_PEER_LOST && named ? status : HO_INTERNAL;
    };
    ProcessJob job(setting.with(groups), body);
    INFO(groups);
    const RankOutcome left = job.outcome(0);
    CHECK(left.exited);
    CHECK(left.status == HO_OK);
    ended.add();
    check_all_end_well(job);
  }
}

// Each waits for what the other will not send: both hear that, and nobody for the deadline.
TEST_CASE("ranks that leave receives open for each other end at once") {
  if (!on_host()) {
    return;
  }
  for (const char* groups : {"1x2", "2x1"}) {
    ProcessJob job({groups, kFarDeadlineMs}, [](const ProcessJob::Rank& rank) -> ho_status {
      const int self = ho_comm_rank(rank.comm);
      for (const int32_t peer : {1 - self, self, HO_ANY_SOURCE}) {
        if (const ho_status status = leave_open(rank.comm, peer, 0); status != HO_OK) {
          return status;
        }
      }
      return HO_OK;
    });
    INFO(groups);
    check_all_end_well(job);
  }
}

TEST_CASE("a request may be ended after its communicator was destroyed, and says how it ended") {
  ProcessJob job({"1x2", kFarDeadlineMs}, [](const ProcessJob::Rank& rank) -> ho_status {
    CallFloats data(100, 1.0F);
    ho_comm* child = nullptr;
    if (ho_comm_split(rank.comm, 0, 0, &child) != HO_OK) {
      return HO_INTERNAL;
    }
    ho_request* sum = nullptr;
    ho_request* never = nullptr;
    float into = 0;
    const bool begun = ho_all_reduce(child,
                                     data.data(),
                                     data.data(),
                                     data.size(),
                                     HO_FLOAT32,
                                     HO_SUM,
                                     nullptr,
                                     nullptr,
                                     &sum) == HO_OK &&
                       ho_recv(child,
                               &into,
                               1,
                               HO_FLOAT32,
                               1 - ho_comm_rank(rank.comm),
                               9,
                               nullptr,
                               nullptr,
                               &never) == HO_OK;
    ho_comm_destroy(child);
    if (!begun || data.values().front() != 2.0F || ho_request_wait(sum, 0) != HO_OK) {
      return HO_INTERNAL;
    }
    const bool lost = ho_request_wait(never, 0) == HO_PEER_LOST;
    return lost && contains(ho_last_error_message(), "recv from rank") ? HO_OK : HO_INTERNAL;
  });
  check_all_end_well(job);
}

TEST_CASE("an abort's reason is heard although its caller leaves at once") {
  const Setting setting = GENERATE(from_range(kSettings));
  INFO(setting.text);
  ProcessJob job(setting.with("2x2"), [](const ProcessJob::Rank& rank) -> ho_status {
    const CallFloats data(1000, 1.0F);
    (void)all_reduces(rank.comm, data, 2);
    if (ho_comm_rank(rank.comm) == 2) {
      (void)ho_comm_abort(rank.comm, "the test says so");
      return HO_OK;
    }
    return all_reduce(rank.comm, data);
  });
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{3}}) {
    const RankOutcome outcome = job.outcome(rank);
    INFO("rank " << rank << ": " << outcome.message);
    CHECK(outcome.status == HO_ABORTED);
    CHECK(contains(outcome.message, "the test says so"));
  }
}

// Nobody else could tell the others, who wait for each other and not for those that go.
TEST_CASE("an abort is heard although rank 0, who passes it on, leaves at once") {
  for (const char* groups : {"2x2", "1x4", "4x1"}) {
    for (const int aborter : {0, 1}) {
      const SharedCount reported;
      const auto body = [=, &reported](const ProcessJob::Rank& rank) -> ho_status {
        const CallFloats data(1000, 1.0F);
        (void)all_reduces(rank.comm, data, 2);
        const int self = ho_comm_rank(rank.comm);
        if (self == aborter) {
          ::usleep(250000);  // the others wait already
          count_next_message(reported);
          (void)ho_comm_abort(rank.comm, "the test says so");
        } else if (self == 0) {
          // An abort after it has left would have nobody to pass it on; it leaves amid this one.
          (void)reported.wait_for(1);
        }
        if (self == 0 || self == aborter) {
          return HO_OK;
        }
        const int32_t peer = self == 1 ? 2 : 5 - self;
        float received = 0;
        return ho_recv(rank.comm, &received, 1, HO_FLOAT32, peer, 0, nullptr, nullptr, nullptr);
      };
      ProcessJob job({groups, kFarDeadlineMs}, body);
      for (size_t rank = aborter == 0 ? 1 : 2; rank < job.size(); ++rank) {
        const RankOutcome outcome = job.outcome(rank);
        INFO(groups << ", aborter " << aborter << ", rank " << rank << ": " << outcome.message);
        CHECK(outcome.exited);
        CHECK(outcome.status == HO_ABORTED);
        CHECK(contains(outcome.message, "the test says so"));
      }
    }
  }
}

namespace {

enum class End : uint8_t { kLeaves, kKilled };

// Rank 1 and rank 2, alone in a communicator on one node, wait for nobody but each other. Rank 2 is
// in an operation there when rank 0's process is killed, and then rank 1 ends.
ho_status left_by_node_mate(const ProcessJob::Rank& rank, End end, const SharedCount& entered) {
  const int32_t self = ho_comm_rank(rank.comm);
  const CallFloats data(1000, 1.0F);
  ho_comm* pair = nullptr;
  if (ho_comm_split(rank.comm, self == 0 ? -1 : 0, 0, &pair) != HO_OK) {
    return HO_INTERNAL;
  }
  ho_status status = HO_OK;
  if (self < 2) {
    if (self == 1) {
      entered.add();  // rank 0's end would find it in the split else
    }
    (void)entered.wait_for(2);
    if (self == 0) {
      ::raise(SIGKILL);
    }
    status = all_reduce(rank.comm, data);
    if (end == End::kKilled) {
      ::raise(SIGKILL);
    }
  } else {
    ho_request* request = nullptr;
    status = ho_all_reduce(pair,
                           data.data(),
                           data.data(),
                           data.size(),
                           HO_FLOAT32,
                           HO_SUM,
                           nullptr,
                           nullptr,
                           &request);
    entered.add();
    status = status == HO_OK ? ho_request_wait(request, 0) : status;
    const std::string text = ho_last_error_message();
    const bool named = contains(text, "the peer has ended") && contains(text, "rank 0 is gone");
    status = status != HO_PEER_LOST || named ? status : HO_INTERNAL;
  }
  ho_comm_destroy(pair);
  return status;
}

}  // namespace

TEST_CASE("a node-mate that ends after rank 0 was killed is noticed long before the deadline") {
  for (const End end : {End::kLeaves, End::kKilled}) {
    const SharedCount entered;
    ProcessJob job({"1x3", kFarDeadlineMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
      return left_by_node_mate(rank, end, entered);
    });
    CHECK(job.outcome(0).signal == SIGKILL);
    CHECK((job.outcome(1).signal == SIGKILL) == (end == End::kKilled));
    const RankOutcome outcome = job.outcome(2);
    INFO((end == End::kKilled ? "killed" : "leaves"));
    CHECK(outcome.exited);
    CHECK(outcome.status == HO_PEER_LOST);
  }
}
