// A recommendation as JSON for programs, and the way there from a request as JSON. Pure, but for
// reading a cluster file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/planner.hpp"
#include "planner/text/plan_options.hpp"

namespace paro {

struct Report {
  PlanOptions options;  // complete
  Recommendation recommendation;
  std::vector<std::string> notes;  // on the source of the figures
  SizedPlans sizes = {};           // where several were compared
  // What `export_to` asks for, in Python.
  std::optional<std::string> program = {};
};

// Recommends for the group sizes that the options ask for. The options' request becomes that of the
// chosen one.
[[nodiscard]] ho::Result<Report> report_of(PlanOptions options, std::vector<std::string> notes);

// "ZeRO-3, FSDP"; may be empty.
[[nodiscard]] std::string known_as_text(const Strategy& strategy);

// Bytes and seconds. Keys stay; new ones may be added.
[[nodiscard]] std::string json_text(const Report& report);

struct Sweep;
// The same of the first value, and the row of every value.
[[nodiscard]] std::string json_text(const Sweep& sweep);

// `request`: a JSON object. Its keys are the names of plan_options() with _ for -, its values texts
// or numbers, "units" a list, and "no_overlap", true or false. The answer is json_text(). Errors
// name the key.
[[nodiscard]] ho::Result<std::string> answer_to(std::string_view request);

}  // namespace paro
