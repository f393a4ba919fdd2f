// A training, sharded over thread ranks and on one rank, and where the two part.
#pragma once

#include <string>
#include <vector>

#include "cli/paro/toy_model/training.hpp"

namespace paro::test {

// How far sharded training may be from one rank's. fp32: both round, in another order, once per
// addition. 16 bits: the reference's gradients are not rounded at all.
struct Tolerance {
  double loss = 2e-5;    // relative
  double norm = 1e-4;    // relative
  double master = 5e-5;  // of masters, which are about 1, absolute
};
inline constexpr Tolerance kFloat32Tolerance{};
inline constexpr Tolerance kFloat16Tolerance{5e-3, 2e-2, 1e-2};
inline constexpr Tolerance kBfloat16Tolerance{2e-2, 1e-1, 4e-2};

// "" or the first step, norm, decision or master that is not as on one rank.
[[nodiscard]] std::string difference(const toy::Outcome& sharded,
                                     const toy::Outcome& alone,
                                     const Tolerance& tolerance);

// Trains on this rank as one of a job, states split over `groups`: "" or what is wrong with the
// outcome, with the copies of states on other ranks, with the bytes that were sent, or with the
// memory that was used.
[[nodiscard]] std::string train_and_compare(ho_comm* comm,
                                            const ho::GroupMap& groups,
                                            const toy::Training& training,
                                            const toy::Outcome& alone,
                                            const Tolerance& tolerance);

// Everything at once: a model of uneven units, clipping, a step that overflows.
[[nodiscard]] toy::Training hard_training(const Strategy& strategy, uint32_t micro_batches);
// Two units more, which share buckets; frozen parameters at another scope than the trained ones; 12
// steps, of which the eighth overflows.
[[nodiscard]] toy::Training bucketed_training(const Strategy& strategy, uint32_t micro_batches);

// As above, and the head shares the embedding's parameters, which are trained.
[[nodiscard]] toy::Training tied_training(const Strategy& strategy, uint32_t micro_batches);

// Runs each training on the ranks of a job on `nodes`, states split over `groups` (the nodes where
// null); the first rank's complaint, by training.
[[nodiscard]] std::vector<std::string> complaints(const char* nodes,
                                                  const std::vector<toy::Training>& trainings,
                                                  const Tolerance& tolerance,
                                                  const ho::GroupMap* groups = nullptr);

// "IIG, 4 micro-batches, parameters bfloat16, buckets of 0 bytes, frozen parameters I"
[[nodiscard]] std::string to_string(const toy::Training& training);

}  // namespace paro::test
