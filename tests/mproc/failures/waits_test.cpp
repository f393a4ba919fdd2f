// Ranks that wait for each other over several communicators, and one that comes late to what the
// others have given up. Deadlines are far away unless said otherwise: what ends, ends because it is
// told.
#include <stdlib.h>

#include <chrono>
#include <string>
#include <thread>

#include "all_end_well.hpp"
#include "call_memory.hpp"
#include "catch.hpp"
#include "horing.h"
#include "more_time.hpp"
#include "process_job.hpp"
#include "shared_count.hpp"
#include "sum_of_ones.hpp"

using namespace ho::test;

namespace {

constexpr uint64_t kFarMs = 100'000;

bool says(const std::string& part) {
  return std::string(ho_last_error_message()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a circle of waits over two communicators is named to all, and ends both") {
  const SharedCount entered;
  ProcessJob job({"2x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const int32_t self = ho_comm_rank(rank.comm);
    ho_comm* one = nullptr;
    ho_comm* other = nullptr;
    ho_status status = ho_comm_split(rank.comm, 0, 0, &one);
    status = status == HO_OK ? ho_comm_split(rank.comm, 0, 0, &other) : status;
    if (status != HO_OK) {
      return status;
    }
    // Only one of them has a deadline that passes.
    ho_comm* const part = self % 2 == 0 ? one : other;
    const bool all_wait = self != 0 || entered.wait_for(3);
    const ho_status ended =
        self == 0 ? sum_of_ones(part, 500) : sum_of_ones(part, kFarMs, &entered);
    const bool named = says(
                           "ranks wait for each other in a circle: rank 0 is in all_reduce #1 of "
                           "communicator ") &&
                       says(
                           ", which rank 1 has not entered; rank 1 is in all_reduce #1 of "
                           "communicator ") &&
                       says(", which rank 0 has not entered; ");
    rank.say(ho_last_error_message());
    status = all_wait && ended == HO_MISMATCH && named ? HO_OK : HO_INTERNAL;
    // What they were split from goes on.
    status = status == HO_OK ? sum_of_ones(rank.comm) : status;
    ho_comm_destroy(other);
    ho_comm_destroy(one);
    return status;
  });
  check_all_end_well(job);
}

namespace {

// Three communicators of two ranks. A message has passed on the third, so that not both have begun
// equally many there.
struct Three {
  ho_comm* one = nullptr;
  ho_comm* two = nullptr;
  ho_comm* third = nullptr;

  [[nodiscard]] ho_status make(const ProcessJob::Rank& rank) {
    float value = 0;
    for (ho_comm** made : {&one, &two, &third}) {
      if (const ho_status status = ho_comm_split(rank.comm, 0, 0, made); status != HO_OK) {
        return status;
      }
    }
    return ho_comm_rank(rank.comm) == 0
               ? ho_recv(third, &value, 1, HO_FLOAT32, 1, 0, nullptr, nullptr, nullptr)
               : ho_send(third, &value, 1, HO_FLOAT32, 0, 0, nullptr, nullptr);
  }
  void destroy() const {
    for (ho_comm* made : {third, two, one}) {
      ho_comm_destroy(made);
    }
  }
};

// What no rank sends.
ho_status receive_in_vain(ho_comm* comm) {
  float value = 0;
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = 500;
  return ho_recv(comm, &value, 1, HO_FLOAT32, 1, 0, &options, nullptr, nullptr);
}

}  // namespace

// Until the receive has ended, each rank is in what the other has not entered. Afterwards both go
// on, with another thread.
TEST_CASE("a time-out ends its own communicator, not those whose other threads come later") {
  const SharedCount entered;
  const SharedCount timed_out;
  ProcessJob job({"1x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const bool first = ho_comm_rank(rank.comm) == 0;
    Three comms;
    if (const ho_status status = comms.make(rank); status != HO_OK) {
      return status;
    }
    ho_status at_once = HO_INTERNAL;
    ho_status later = HO_INTERNAL;
    std::thread early(
        [&] { at_once = sum_of_ones(first ? comms.one : comms.two, kFarMs, &entered); });
    std::thread late([&] {
      (void)timed_out.wait_for(1);
      later = sum_of_ones(first ? comms.two : comms.one);
    });
    ho_status received = HO_TIMEOUT;
    if (first && entered.wait_for(2)) {
      received = receive_in_vain(comms.third);
      rank.say(ho_last_error_message());
      timed_out.add();
    }
    early.join();
    late.join();
    comms.destroy();
    return received == HO_TIMEOUT && at_once == HO_OK && later == HO_OK ? HO_OK : HO_INTERNAL;
  });
  check_all_end_well(job);
}

TEST_CASE("a time-out ends its own communicator, not those in which requests are open") {
  const SharedCount entered;
  const SharedCount timed_out;
  ProcessJob job({"1x2", kFarMs}, [&](const ProcessJob::Rank& rank) -> ho_status {
    const bool first = ho_comm_rank(rank.comm) == 0;
    Three comms;
    if (const ho_status status = comms.make(rank); status != HO_OK) {
      return status;
    }
    CallFloats value(1, 1.0F);
    ho_request* open = nullptr;
    ho_status status = ho_all_reduce(first ? comms.one : comms.two,
                                     value.data(),
                                     value.data(),
                                     1,
                                     HO_FLOAT32,
                                     HO_SUM,
                                     nullptr,
                                     nullptr,
                                     &open);
    entered.add();
    ho_status received = HO_TIMEOUT;
    if (first && entered.wait_for(2)) {
      received = receive_in_vain(comms.third);
      rank.say(ho_last_error_message());
      timed_out.add();
    }
    (void)timed_out.wait_for(1);
    status = status == HO_OK ? sum_of_ones(first ? comms.two : comms.one) : status;
    status = status == HO_OK ? ho_request_wait(open, 0) : status;
    comms.destroy();
    return received == HO_TIMEOUT ? status : HO_INTERNAL;
  });
  check_all_end_well(job);
}

namespace {

// Rank 3 comes to a split when the others have waited for it as long as they may, which is also how
// long they may take for everything else.
bool late_rank_hears_why(std::chrono::milliseconds limit, std::string& heard) {
  const SharedCount abandoned;
  ProcessJobOptions options{"2x2", kFarMs};
  options.prepare = [limit](size_t /*rank*/) {
    ::setenv("HORING_CONNECT_TIMEOUT_MS", std::to_string(limit.count()).c_str(), 1);
  };
  ProcessJob job(options, [&](const ProcessJob::Rank& rank) -> ho_status {
    const bool late = ho_comm_rank(rank.comm) == 3;
    if (late && !abandoned.wait_for(3)) {
      return HO_INTERNAL;
    }
    ho_comm* split = nullptr;
    const ho_status refused = ho_comm_split(rank.comm, 0, 0, &split);
    abandoned.add();
    const bool named = says("rank 3 has not answered since") && says("; missing: rank 3");
    if (refused != HO_TIMEOUT || !named || says("rank 3 came ") != late) {
      return HO_INTERNAL;
    }
    // The next one is another split.
    const ho_status status = ho_comm_split(rank.comm, 0, 0, &split);
    ho_comm_destroy(split);
    return status;
  });
  bool well = true;
  for (size_t rank = 0; rank < job.size(); ++rank) {
    const RankOutcome outcome = job.outcome(rank);
    well = well && outcome.exited && outcome.status == HO_OK;
    heard += "\nrank " + std::to_string(rank) + ": " + outcome.message;
  }
  return well;
}

}  // namespace

TEST_CASE("a rank that comes late to a split that has failed hears why, and blames nobody else") {
  std::string heard;
  // A slow machine may need more for what is no part of this.
  const bool well = with_more_time(std::chrono::seconds(4), [&](std::chrono::milliseconds limit) {
    heard += "\nwithin " + std::to_string(limit.count()) + " ms:";
    return late_rank_hears_why(limit, heard);
  });
  INFO(heard);
  CHECK(well);
}
