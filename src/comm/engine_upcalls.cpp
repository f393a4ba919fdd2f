#include "comm/engine_upcalls.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "comm/counted_exchange.hpp"

namespace ho {

void EngineUpcalls::on_failure(const RunError& error) {
  FailureReport report;
  report.code = error.status.code();
  report.reporter = identity_.ranks[self_.at()];
  if (error.peer && error.peer->at() < identity_.ranks.size()) {
    report.peer = identity_.ranks[error.peer->at()];
  }
  report.text = error.status.message();
  if (identity_.id != 0) {
    // Its texts have its own numbers.
    const bool renamed = report.peer && *report.peer != *error.peer;
    report.text = fmt::format("communicator {}{}: {}",
                              identity_.id,
                              renamed ? fmt::format(", whose rank {} is rank {} of the job",
                                                    error.peer->value(),
                                                    report.peer->value())
                                      : "",
                              report.text);
  }
  log_error("{}{}", control_.log_prefix(identity_.communicator_id), report.text);
  control_.fail(identity_.communicator_id, std::move(report));
}

void EngineUpcalls::on_doubt(const MadeCall& call) {
  control_.ask(identity_.communicator_id, call);
}

std::optional<RailIndex> EngineUpcalls::rail_to(GlobalRank peer) const {
  const GroupMap& map = placement_.map;
  if (map.group_of(self_) == map.group_of(peer) && placement_.same_host(self_, peer)) {
    return std::nullopt;
  }
  return map.rail_of(std::min(self_, peer)).value_or(RailIndex(0));
}

Result<NextPart> EngineUpcalls::make_next_part(const PartToCome& part) {
  return part.data_part();
}

}  // namespace ho
