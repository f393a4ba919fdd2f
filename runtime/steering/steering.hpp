// Changes of strategy without a call: a file names the strategy (requested_strategy.hpp), or, with
// auto_strategy, a budget in the file or changed links cause a choice.
//
// Rank 0 alone checks, before each step, also whether the change is possible at all. It signals in
// the sums that a step makes anyway, so that all ranks know at that step's end; then it sends them
// the order, over a communicator for that moment. Until then the others never wait for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "run/change.hpp"
#include "steering/choice.hpp"
#include "steering/link_watch.hpp"
#include "steering/requested_strategy.hpp"

namespace paro::steering {

struct Settings {
  std::string file;  // empty: none
  // Choose where a budget has changed, or links have (LinkWatch, every `interval` steps; 0: never).
  bool automatic = false;
  uint32_t interval = 0;
};

class Steering {
 public:
  // Settings count on rank 0 only.
  Steering(Settings settings, bool frozen_as_parameters);

  // In the middle of a step, before the runner's step(). Any rank.
  void before_step(StepRunner& runner);
  // After it. Collective where a rank has signalled: the runner may be another one then. An error
  // where there is none any more; what else goes wrong is logged.
  [[nodiscard]] ho::Status after_step(std::unique_ptr<StepRunner>& runner,
                                      const StepReport& report);

 private:
  enum class Act : uint64_t { kNothing, kTake, kChoose };
  // What rank 0 decides, as it is sent to the others.
  struct Order {
    Act act = Act::kNothing;
    Strategy strategy;
  };

  void refuse(const StepRunner& runner, const ho::Status& why) const;
  void take(const StepRunner& runner, const RequestedStrategy& request);
  [[nodiscard]] uint64_t budget_of(const StepRunner& runner) const;
  [[nodiscard]] ho::Status apply_request(std::unique_ptr<StepRunner>& runner);
  [[nodiscard]] ho::Result<Order> chosen(ho_comm* comm, StepRunner& runner) const;
  [[nodiscard]] ho::Status change(std::unique_ptr<StepRunner>& runner,
                                  const Strategy& strategy,
                                  uint64_t budget_bytes) const;

  Settings settings_;
  bool frozen_as_parameters_;
  std::optional<RequestedStrategyFile> file_;
  std::optional<uint64_t> budget_;  // of the file, once it had one
  Order order_;                     // until a step has sent it
  LinkWatch links_;
};

}  // namespace paro::steering
