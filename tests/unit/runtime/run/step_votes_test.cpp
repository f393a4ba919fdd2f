#include "run/step_votes.hpp"

#include <limits>
#include <span>
#include <vector>

#include "catch.hpp"
#include "optim/step_control.hpp"

using namespace paro;
using ho::device::all_have_rate;

namespace {

// As an all-reduce adds them.
StepVotes summed(const std::vector<StepVotes>& all) {
  StepVotes sums = {};
  const auto numbers = [](auto& votes) {
    return std::span(&votes.rate[0], sizeof votes / sizeof(double));
  };
  for (const StepVotes& one : all) {
    for (size_t i = 0; i < numbers(sums).size(); ++i) {
      numbers(sums)[i] += numbers(one)[i];
    }
  }
  return sums;
}

StepVotes of_rates(const std::vector<double>& rates) {
  std::vector<StepVotes> all;
  for (const double rate : rates) {
    all.push_back(votes_of(rate));
  }
  return summed(all);
}

// Why a step of finite gradients is left out.
uint64_t reason(const StepVotes& votes, const uint64_t* ended = nullptr) {
  StepControl control;
  control.votes = votes;
  control.sums.squared = 4;
  paro::decide({.ranks = 2, .rate = 0.1, .ended = ended}, control);
  CHECK(control.steps == (control.left_out == ho::device::kTaken ? 1 : 0));
  return control.left_out;
}

}  // namespace

TEST_CASE("ranks with one rate agree on it, whatever it is") {
  for (const double rate : {0.0, 1e-300, 0.1, 3e-4, 1e300, -1.0}) {
    for (const size_t ranks : {1U, 3U, 1000U}) {
      const StepVotes votes = of_rates(std::vector<double>(ranks, rate));
      CHECK(all_have_rate(votes, rate, static_cast<double>(ranks)));
    }
  }
}

TEST_CASE("where rates differ every rank notices, also the one in the middle") {
  for (const auto& rates : std::vector<std::vector<double>>{{0.1, 0.1, 0.10000000000000002},
                                                            {1.0, 2.0, 3.0},
                                                            {0.0, -0.0},
                                                            {1e-3, 2e-3, 2e-3, 3e-3}}) {
    const StepVotes votes = of_rates(rates);
    for (const double rate : rates) {
      CAPTURE(rate);
      CHECK_FALSE(all_have_rate(votes, rate, static_cast<double>(rates.size())));
    }
  }
}

TEST_CASE("a step is taken only where all ranks vote for the same, and nothing has failed") {
  const StepVotes plain = votes_of(0.1);
  const uint64_t none = 0;
  const uint64_t failed = 1;
  CHECK(reason(summed({plain, plain}), &none) == ho::device::kTaken);
  CHECK(reason(summed({votes_of(0.1, true), plain})) == ho::device::kTaken);  // a signal is news
  CHECK(reason(summed({votes_of(0.1, false, true), votes_of(0.1, false, true)})) ==
        ho::device::kTaken);
  CHECK(reason(summed({votes_of(0.1, false, true), plain})) == ho::device::kRefused);
  CHECK(reason(summed({votes_of(0.1, false, false, true), plain})) == ho::device::kRefused);
  CHECK(reason(summed({plain, votes_of(0.2)})) == ho::device::kRefused);
  CHECK(reason(plain) == ho::device::kRefused);  // of one rank alone, as behind an abort
  CHECK(reason(summed({plain, plain}), &failed) == ho::device::kLost);
}
