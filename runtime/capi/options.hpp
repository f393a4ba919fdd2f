// From the C interface's options to a runner's configuration.
#pragma once

#include <paro.h>

#include <cstddef>
#include <memory>

#include "observe/step_log.hpp"
#include "run/step_runner.hpp"
#include "steering/steering.hpp"

namespace paro::capi {

struct Prepared {
  RunnerConfig config;
  std::unique_ptr<Memory> memory;  // of states
  ho::GroupMap groups;
  bool frozen_as_parameters = true;
  observe::StepLog log;
  steering::Settings steering;
};

// What this rank was given; nothing is sent. `comm` is not null.
[[nodiscard]] ho::Result<Prepared> prepare(const ho_comm* comm,
                                           const paro_runner_options* options,
                                           const paro_unit* units,
                                           size_t unit_count);

// "NULL" is NNN.
[[nodiscard]] ho::Result<Strategy> strategy_of(const char* text);

}  // namespace paro::capi
