// The control plane of a job, shared by all of its communicators on this rank: spreads one verdict
// to all of them, and answers for all of them when the coordinator asks where this rank is.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bootstrap/control_plane.hpp"
#include "exec/engine.hpp"

namespace ho {

class JobControl {
 public:
  explicit JobControl(std::unique_ptr<ControlPlane> plane);
  ~JobControl();
  JobControl(const JobControl&) = delete;
  JobControl& operator=(const JobControl&) = delete;

  [[nodiscard]] ControlPlane& plane() { return *plane_; }
  // Events are delivered from here on. Once.
  void start();
  // The engine hears of the verdict (at once where there is one already) until it is removed.
  void add(uint16_t communicator, Engine* engine);
  void remove(Engine* engine);
  // A communicator id that no other communicator of this rank has: at least `proposal`.
  [[nodiscard]] uint16_t next_id();
  void used_id(uint16_t id);

 private:
  struct Member {
    uint16_t communicator;
    Engine* engine;
  };
  void on_verdict(const Verdict& verdict);
  [[nodiscard]] std::vector<RankState> states();

  std::mutex mutex_;
  std::vector<Member> members_;
  std::optional<Status> verdict_;
  uint16_t last_id_ = 0;
  // Last: its thread calls the functions above until it is gone.
  std::unique_ptr<ControlPlane> plane_;
};

}  // namespace ho
