// The queries of paro.h on strategies and runners; nothing here waits for another rank.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "capi/arguments.hpp"
#include "capi/boundary.hpp"
#include "capi/options.hpp"
#include "planner/text/answer.hpp"
#include "run/budget.hpp"

namespace paro::capi {
namespace {

static_assert(PARO_MEMORY_PARAMETERS == static_cast<int>(Purpose::kParameters));
static_assert(PARO_MEMORY_GRADIENTS == static_cast<int>(Purpose::kGradients));
static_assert(PARO_MEMORY_OPTIMIZER == static_cast<int>(Purpose::kOptimizer));
static_assert(PARO_MEMORY_GATHERED == static_cast<int>(Purpose::kGathered));
static_assert(PARO_MEMORY_OUTPUT == static_cast<int>(Purpose::kOutput));
static_assert(PARO_MEMORY_SCRATCH == static_cast<int>(Purpose::kScratch));
static_assert(PARO_PHASE_FORWARD == static_cast<int>(Phase::kForward));
static_assert(PARO_PHASE_BACKWARD == static_cast<int>(Phase::kBackward));
static_assert(PARO_PHASE_SYNC_G == static_cast<int>(Phase::kSyncG));
static_assert(PARO_PHASE_UPDATE == static_cast<int>(Phase::kUpdate));
static_assert(PARO_PHASE_SYNC_P == static_cast<int>(Phase::kSyncP));

ho::Result<paro_memory> memory_of(const StepRunner& runner, int purpose) {
  paro_memory memory = PARO_MEMORY_INIT;
  const MemoryUse& now = runner.shards().ledger.now();
  const MemoryUse& peak = runner.shards().ledger.peak();
  const MemoryUse predicted = predicted_use(runner.shards(), runner.plan());
  if (purpose == PARO_MEMORY_LIBRARY) {
    memory.now_bytes = runner.shards().domains->memory_bytes();
  } else if (purpose == PARO_MEMORY_STATES) {
    memory.predicted_bytes = predicted.total();
    memory.now_bytes = now.total();
    memory.peak_bytes = peak.total();
  } else if (purpose >= 0 && purpose < static_cast<int>(kPurposeCount)) {
    const auto which = static_cast<Purpose>(purpose);
    memory.predicted_bytes = predicted[which];
    memory.now_bytes = now[which];
    memory.peak_bytes = peak[which];
  } else {
    return ho::invalid("paro_runner_memory: there is no purpose " + std::to_string(purpose) +
                       "; see paro_purpose");
  }
  return memory;
}

static_assert(PARO_REPLICATED == static_cast<int>(Scope::kReplicated));
static_assert(PARO_GROUP == static_cast<int>(Scope::kGroup));
static_assert(PARO_WORLD == static_cast<int>(Scope::kWorld));

struct StrategyTexts {
  std::string letters;
  std::string known_as;
};

StrategyTexts texts_of(const Strategy& strategy) {
  StrategyTexts texts{letters(strategy), {}};
  for (const std::string_view name : known_as(strategy)) {
    texts.known_as += (texts.known_as.empty() ? "" : ", ") + std::string(name);
  }
  return texts;
}

// Callers keep pointers to them.
const StrategyTexts& texts_at(size_t number) {
  static const std::array<StrategyTexts, kStrategyCount> texts = [] {
    std::array<StrategyTexts, kStrategyCount> of_all;
    std::transform(all_strategies().begin(), all_strategies().end(), of_all.begin(), texts_of);
    return of_all;
  }();
  return texts.at(number);
}

ho::Result<Strategy> checked_strategy(const char* text, const char* what) {
  return text == nullptr ? ho::invalid(std::string(what) + ": a null text") : strategy_of(text);
}

}  // namespace
}  // namespace paro::capi

using namespace paro;
using namespace paro::capi;

extern "C" {

const char* paro_version(void) {
  return PARO_VERSION;
}

ho_status paro_strategy_check(const char* text) {
  return guarded([&] { return checked_strategy(text, "paro_strategy_check").status(); });
}

ho_status paro_strategy_letters(const char* text, char* letters, size_t capacity) {
  return guarded([&]() -> ho::Status {
    HORING_ASSIGN(const Strategy strategy, checked_strategy(text, "paro_strategy_letters"));
    const std::string three = paro::letters(strategy);
    if (letters == nullptr || capacity <= three.size()) {
      return ho::invalid("paro_strategy_letters: room for " +
                         std::to_string(letters == nullptr ? 0 : capacity) + " characters; takes " +
                         std::to_string(three.size() + 1));
    }
    std::memcpy(letters, three.c_str(), three.size() + 1);
    return {};
  });
}

uint32_t paro_strategy_count(void) {
  return kStrategyCount;
}

ho_status paro_strategy_at(uint32_t number, paro_strategy* strategy) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_out(strategy, "paro_strategy"));
    if (number >= kStrategyCount) {
      return ho::invalid("paro_strategy_at: there is no strategy " + std::to_string(number) +
                         "; they are 0 to " + std::to_string(kStrategyCount - 1));
    }
    const Strategy& found = all_strategies().at(number);
    const StrategyTexts& texts = texts_at(number);
    paro_strategy values = PARO_STRATEGY_INIT;
    values.parameters = static_cast<paro_scope>(found.parameters);
    values.gradients = static_cast<paro_scope>(found.gradients);
    values.optimizer = static_cast<paro_scope>(found.optimizer);
    values.letters = texts.letters.c_str();
    values.known_as = texts.known_as.c_str();
    write_out(strategy, values);
    return {};
  });
}

ho_status paro_plan(const char* request, const char** answer) {
  return guarded([&]() -> ho::Status {
    if (request == nullptr || answer == nullptr) {
      return ho::invalid(
          "paro_plan: a null request or answer; takes a JSON text and where the answer goes");
    }
    thread_local std::string kept;
    HORING_ASSIGN(kept, answer_to(request));
    *answer = kept.c_str();
    return {};
  });
}

double paro_runner_loss_scale(const paro_runner* runner) {
  return runner == nullptr || runner->runner == nullptr ? 0
                                                        : runner->runner->updater().scale().value();
}

uint64_t paro_runner_applied_steps(const paro_runner* runner) {
  return runner == nullptr || runner->runner == nullptr ? 0
                                                        : runner->runner->updater().applied_steps();
}

ho_status paro_runner_memory(const paro_runner* runner, paro_purpose purpose, paro_memory* memory) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_memory"));
    HORING_TRY(check_out(memory, "paro_memory"));
    HORING_ASSIGN(const paro_memory values, memory_of(*runner->runner, number_of(purpose)));
    write_out(memory, values);
    return {};
  });
}

ho_status paro_runner_sent_bytes(const paro_runner* runner,
                                 paro_phase phase,
                                 uint64_t* intra,
                                 uint64_t* inter) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, "paro_runner_sent_bytes"));
    const int number = number_of(phase);
    if (number < 0 || number > PARO_PHASE_SYNC_P) {
      return ho::invalid("paro_runner_sent_bytes: there is no phase " + std::to_string(number) +
                         "; see paro_phase");
    }
    if (intra == nullptr || inter == nullptr) {
      return ho::invalid("paro_runner_sent_bytes: a null place for a number");
    }
    const SentBytes& sent = runner->runner->sent(static_cast<Phase>(number));
    *intra = sent.intra;
    *inter = sent.inter;
    return {};
  });
}

}  // extern "C"
