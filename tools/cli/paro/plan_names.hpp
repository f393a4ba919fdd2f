// The options of `paro plan` that give models and machines by name. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "cli/paro/plan_options.hpp"

namespace paro::tool {

// What --gpu, --instance and --network say, for what `facts` leaves open; and of that, what is
// assumed.
[[nodiscard]] ho::Result<ClusterFacts> with_machine(const PlanTexts& texts,
                                                    const ClusterFacts& facts,
                                                    std::vector<std::string>& assumed);

// The job where one of its options is there or the model is one by name; else none. After the
// model, the step and the bytes of a parameter.
[[nodiscard]] ho::Status take_job(const PlanTexts& texts, PlanOptions& options);

// All names, with what they stand for and its source, as tables.
[[nodiscard]] std::string names_text();

}  // namespace paro::tool
