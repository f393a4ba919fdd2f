// Runs a test body once per instruction set that this build has and this processor runs.
#pragma once

#include <hwy/highway.h>

#include <string>

#include "catch.hpp"
#include "reduce/reduce.hpp"

namespace ho::test {

template <typename Body>
void on_every_target(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    INFO("instruction set " << reduce_target_name());
    CHECK(std::string(reduce_target_name()) == hwy::TargetName(target));
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
}

}  // namespace ho::test
