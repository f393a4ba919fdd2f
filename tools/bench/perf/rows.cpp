#include "bench/perf/rows.hpp"

#include "base/names.hpp"
#include "base/quantity.hpp"

namespace ho::perf {

std::string rails_text(const Job& job) {
  if (job.group_count < 2) {
    return "one node, no rails";
  }
  const auto rails = static_cast<uint32_t>(job.rails);
  std::string text = counted(rails, "rail");
  if (job.nics == 0) {
    return text;
  }
  if (job.nics == rails) {
    return text + (rails == 1 ? "" : ", each") + " over a NIC of its own";
  }
  if (job.nics < rails) {
    return text + " over " + counted(job.nics, "NIC") + " per node";
  }
  return text + " over " + std::to_string(rails) + " of " + counted(job.nics, "NIC") + " per node";
}

std::string memory_text(Memory memory) {
  constexpr const char* kTimed =
      "; timed: calls on a stream, each until the stream is past it on the device";
  constexpr Names<3> kTexts{"host", "device", "mixed: sends device, receives pinned host memory"};
  return std::string(name_in(kTexts, memory)) + (memory == Memory::kHost ? "" : kTimed);
}

std::vector<const Measurement*> Row::measured() const {
  std::vector<const Measurement*> present;
  for (const auto* each : {&out_of_place, &in_place}) {
    if (each->has_value()) {
      present.push_back(&**each);
    }
  }
  return present;
}

std::string redop_name(const Case& what) {
  return what.collective == harness::Collective::kAllGather ? "none"
                                                            : std::string(to_string(what.op));
}

Summary summarize(const std::vector<Row>& rows) {
  Summary summary;
  uint32_t count = 0;
  for (const Row& row : rows) {
    for (const Measurement* each : row.measured()) {
      ++count;
      summary.average_bus_gbps += each->bus_gbps;
      summary.wrong += each->wrong.value_or(0);
      summary.checked |= each->wrong.has_value();
      summary.unclaimed_shares += !each->share_claimed && each->link_share.value_or(0.0) > 1.0;
    }
  }
  summary.average_bus_gbps /= count == 0 ? 1.0 : count;
  return summary;
}

}  // namespace ho::perf
