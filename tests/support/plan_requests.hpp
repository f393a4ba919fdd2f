// What tests ask the planner: one cluster by its numbers, one job by its names, and texts that are
// refused.
#pragma once

#include <string>
#include <vector>

#include "catch.hpp"
#include "planner/text/plan_options.hpp"

namespace paro::test {

inline PlanTexts plan_by_numbers() {
  PlanTexts texts;
  texts.model = "llama-7b";
  texts.nodes = "4";
  texts.ranks_per_node = "8";
  texts.memory = "80GB";
  texts.intra = "2000Gbit";
  texts.inter = "80Gbit";
  return texts;
}

inline PlanTexts plan_by_names() {
  PlanTexts texts;
  texts.model = "llama-3-8b";
  texts.gpu = "h100";
  texts.nodes = "16";
  texts.network = "8x400Gbit";
  texts.global_batch = "512";
  texts.sequence = "8192";
  return texts;
}

inline PlanOptions understood(const PlanTexts& texts) {
  const auto options = understand(texts);
  INFO(options.status().message());
  REQUIRE(options.ok());
  return *options;
}

inline bool assumes(const PlanOptions& options, const std::string& what) {
  for (const std::string& each : options.request.assumed) {
    if (each.find(what) != std::string::npos) {
      return true;
    }
  }
  return false;
}

struct RefusedText {
  PlanTexts::Text PlanTexts::*option;
  PlanTexts::Text text;
  const char* message;  // how it begins
};

// Each text in place of what `usual` has is refused in one line.
inline void check_refused(const PlanTexts& usual, const std::vector<RefusedText>& cases) {
  for (const RefusedText& bad : cases) {
    PlanTexts texts = usual;
    texts.*bad.option = bad.text;
    const auto refused = understand(texts);
    INFO(bad.message << "; got " << refused.status().message());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(refused.status().message().find(bad.message) == 0);
    CHECK(refused.status().message().find('\n') == std::string::npos);
  }
}

}  // namespace paro::test
