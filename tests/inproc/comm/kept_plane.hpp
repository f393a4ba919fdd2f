// A control plane without other ranks: it keeps what it is told, and gathers what the test says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bootstrap/control/control_plane.hpp"

namespace ho::test {

class KeptPlane final : public ControlPlane {
 public:
  KeptPlane(uint32_t rank, uint32_t world_size) {
    rendezvous_.rank = rank;
    rendezvous_.world_size = world_size;
  }

  struct Gather {
    std::string tag;
    std::vector<GlobalRank> members;
  };
  std::vector<Gather> gathers;
  std::vector<FailureReport> reports;
  std::vector<CallQuestion> questions;
  Status over;           // what why_over() says
  std::string over_tag;  // of which tags
  Callbacks callbacks;   // once it was started
  Status gathers_end;    // how end_gathers() ended them

  Result<std::vector<std::vector<std::byte>>> all_gather(std::string_view tag,
                                                         std::span<const std::byte> mine,
                                                         std::span<const GlobalRank> members,
                                                         Deadline /*deadline*/) override {
    gathers.push_back({std::string(tag), {members.begin(), members.end()}});
    return std::vector<std::vector<std::byte>>(members.size(), {mine.begin(), mine.end()});
  }
  void start(Callbacks to_call) override { callbacks = std::move(to_call); }
  void join(const Membership& /*membership*/, std::string_view /*tag_end*/) override {}
  void release(uint64_t /*communicator*/) override {}
  void report(const FailureReport& failure) override { reports.push_back(failure); }
  void leave(const LeaveNotice& /*leave_notice*/) override {}
  void ask(const CallQuestion& question) override { questions.push_back(question); }
  void answer_status(StatusCallbacks /*callbacks*/) override {}
  bool ask_status(uint64_t /*number*/) override { return false; }
  void end_gathers(std::string_view /*tag_end*/, const Status& why) override { gathers_end = why; }
  void forget_gathers(std::string_view /*tag_end*/) override {}
  Status why_over(std::string_view tag_end) override {
    over_tag = tag_end;
    return over;
  }
  [[nodiscard]] uint64_t job_id() const override { return 77; }
  [[nodiscard]] const Rendezvous& rendezvous() const override { return rendezvous_; }
  [[nodiscard]] std::string local_address() const override { return "127.0.0.1"; }

 private:
  Rendezvous rendezvous_;
};

}  // namespace ho::test
