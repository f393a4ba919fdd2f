// The options of `paro plan` that give models, machines and programs by name. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/text/plan_options.hpp"

namespace paro {

// What --gpu, --instance and --network say, for what `facts` leaves open; and of that, what is
// assumed.
[[nodiscard]] ho::Result<ClusterFacts> with_machine(const PlanTexts& texts,
                                                    const ClusterFacts& facts,
                                                    std::vector<std::string>& assumed);

// The job where one of its options is there or the model is one by name; else none. After the
// model, the step and the bytes of a parameter.
[[nodiscard]] ho::Status take_job(const PlanTexts& texts, PlanOptions& options);

// Whose collectives: --collectives or --world-algorithm says so, else NCCL's where a GPU is known
// and HO-Ring's elsewhere. Steps with a GPU have what GPUs add unless --effects says otherwise.
// After take_job(), and after what a cluster file has.
[[nodiscard]] ho::Status take_collectives(const PlanTexts& texts, PlanOptions& options);
// The links as NCCL's protocols see them, where options.nccl_network is there: of the request's
// world.
[[nodiscard]] ho::Status set_nccl(const PlanOptions& options, PlannerRequest& request);
// Which networks were assumed, of a cluster of so many nodes.
void note_networks(const PlanOptions& options, const WorldShape& nodes, PlannerRequest& request);

// For which framework a program is to be written, and by which strategy.
[[nodiscard]] ho::Status take_export(const PlanTexts& texts, PlanOptions& options);

}  // namespace paro
