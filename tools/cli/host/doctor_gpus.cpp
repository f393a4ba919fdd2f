#include "cli/host/doctor_gpus.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>

#include "base/env.hpp"
#include "bootstrap/messages/rank_names.hpp"
#include "cli/host/gather_all.hpp"
#include "cli/host/gpu_rates.hpp"
#include "cli/host/gpus.hpp"
#include "cli/subcommands/table.hpp"
#include "topo/discover.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kMaxMeasuring{60};  // of one rank

template <size_t kBytes>
void write_text(const std::string& text, std::array<char, kBytes>& into) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), kBytes - 1));
}

// What a peer sent may lack its zero.
template <size_t kBytes>
std::string as_string(const std::array<char, kBytes>& text) {
  return {text.data(), ::strnlen(text.data(), kBytes)};
}

std::vector<GpuRow> rows_of(const Gpus& gpus, uint32_t rank) {
  std::vector<GpuRow> rows;
  for (const Gpu& gpu : gpus.list) {
    GpuRow& row = rows.emplace_back();
    row.rank = rank;
    row.number = gpu.facts.ordinal;
    row.numa_node = gpu.numa_node;
    row.memory_bytes = gpu.facts.memory_bytes;
    write_text(gpu.facts.name, row.name);
    write_text(gpu.facts.pci_bus_id, row.pci);
    write_text(gpu.facts.uuid, row.uuid);
    write_text(gpus.driver, row.driver);
    write_text(gpu.interface, row.interface);
    write_text(gpu.nearness, row.nearness);
  }
  return rows;
}

// Each GPU once, of the lowest rank that sees it. UUIDs tell GPUs of all hosts apart.
std::vector<GpuRow> each_once(std::vector<GpuRow> rows) {
  std::set<std::string> seen;
  std::erase_if(rows, [&](const GpuRow& row) { return !seen.insert(as_string(row.uuid)).second; });
  return rows;
}

// Half of what the others would wait for this rank.
Result<Deadline> measuring_ends() {
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kTimeoutMs));
  const auto half = std::chrono::milliseconds(timeout_ms / 2);
  return deadline_after(std::min<std::chrono::milliseconds>(kMaxMeasuring, half));
}

GpuRow* row_of(std::vector<GpuRow>& rows, int device) {
  const auto found = std::ranges::find(rows, device, &GpuRow::number);
  return found == rows.end() ? nullptr : &*found;
}

void measure(const device::Driver& driver,
             Deadline deadline,
             std::vector<GpuRow>& mine,
             std::vector<GpuPairRow>& pairs) {
  std::vector<int> devices;
  for (const GpuRow& row : mine) {
    devices.push_back(row.number);
  }
  RateLimits limits;
  limits.deadline = deadline;
  limits.say = [rank = mine.front().rank](const std::string& line) {
    std::fprintf(stderr, "horing doctor: rank %u: %s\n", rank, line.c_str());
  };
  const CopyRates rates = measure_copy_rates(driver, devices, limits);
  for (const CopyRate& rate : rates.rates) {
    if (rate.kind == CopyKind::kToPeer) {
      pairs.push_back({mine.front().rank, rate.device, rate.peer, rate.bytes_per_second});
    } else if (GpuRow* const row = row_of(mine, rate.device)) {
      row->bytes_per_second.at(static_cast<size_t>(rate.kind)) = rate.bytes_per_second;
    }
  }
  for (const FailedDevice& failed : rates.failed) {
    if (GpuRow* const row = row_of(mine, failed.device)) {
      write_text(failed.status.message(), row->failure);
    }
  }
}

// The number of a rank among those of its host, and of how many, the largest host's.
struct Turn {
  size_t mine = 0;
  size_t count = 0;
};
Turn turn_of(const Communicator& communicator) {
  Turn turn;
  for (uint32_t rank = 0; rank < communicator.map().world_size(); ++rank) {
    turn.count =
        std::max(turn.count, communicator.placement().ranks_on_host_of(GlobalRank(rank)).size());
  }
  const auto here = communicator.placement().ranks_on_host_of(communicator.rank());
  turn.mine = static_cast<size_t>(std::ranges::find(here, communicator.rank()) - here.begin());
  return turn;
}

std::string cell(double bytes_per_second) {
  return bytes_per_second > 0 ? fixed(bytes_per_second / 1e9, 1) : "-";
}

std::string facts_table(const GpuFindings& findings) {
  std::vector<Column> columns{{"host", true, {}},
                              {"rank", false, {}},
                              {"GPU", false, {}},
                              {"name", true, {}},
                              {"GiB", false, {}},
                              {"PCI", true, {}},
                              {"NUMA", false, {}},
                              {"driver", true, {}},
                              {"NIC", true, {}}};
  for (const GpuRow& gpu : findings.gpus) {
    const std::string nic = as_string(gpu.interface);
    add_row(columns,
            {findings.host_of_rank.at(gpu.rank),
             std::to_string(gpu.rank),
             std::to_string(gpu.number),
             as_string(gpu.name),
             gib_text(gpu.memory_bytes),
             as_string(gpu.pci),
             gpu.numa_node < 0 ? "?" : std::to_string(gpu.numa_node),
             as_string(gpu.driver),
             nic.empty() ? "none" : nic + " (" + as_string(gpu.nearness) + ")"});
  }
  return aligned(columns);
}

std::string rates_table(const GpuFindings& findings) {
  std::vector<Column> columns{{"host", true, {}},
                              {"GPU", false, {}},
                              {"to device GB/s", false, {}},
                              {"from device", false, {}},
                              {"both at once", false, {}},
                              {"within", false, {}}};
  for (const GpuRow& gpu : findings.gpus) {
    std::vector<std::string> cells{findings.host_of_rank.at(gpu.rank), std::to_string(gpu.number)};
    for (const double rate : gpu.bytes_per_second) {
      cells.push_back(cell(rate));
    }
    add_row(columns, std::move(cells));
  }
  return aligned(columns);
}

std::string pairs_table(const GpuFindings& findings) {
  std::vector<Column> columns{
      {"host", true, {}}, {"from GPU", false, {}}, {"to GPU", false, {}}, {"GB/s", false, {}}};
  for (const GpuPairRow& pair : findings.pairs) {
    add_row(columns,
            {findings.host_of_rank.at(pair.rank),
             std::to_string(pair.from),
             std::to_string(pair.to),
             cell(pair.bytes_per_second)});
  }
  return aligned(columns);
}

}  // namespace

Result<GpuFindings> examine_gpus(Communicator& communicator) {
  HORING_ASSIGN(const Topology topology, discover());
  HORING_ASSIGN(const InterfaceFilter filter, interface_filter());
  const auto driver = device::driver();
  const Gpus gpus = find_gpus(driver, topology, filter);
  const uint32_t self = communicator.rank().value();
  GpuFindings findings;
  findings.why_none = gpus.why_none;
  findings.host_of_rank = communicator.placement().host_name;
  HORING_ASSIGN(std::vector<GpuRow> all, gather_all(communicator, rows_of(gpus, self)));
  for (uint32_t rank = 0; rank < communicator.map().world_size(); ++rank) {
    if (std::ranges::find(all, rank, &GpuRow::rank) == all.end()) {
      findings.without.push_back(rank);
    }
  }
  all = each_once(std::move(all));
  if (all.empty()) {
    return findings;
  }
  std::vector<GpuRow> mine;
  std::ranges::copy_if(
      all, std::back_inserter(mine), [&](const GpuRow& row) { return row.rank == self; });
  std::vector<GpuPairRow> pairs;
  const Turn turn = turn_of(communicator);
  for (size_t i = 0; i < turn.count; ++i) {
    if (i == turn.mine && !mine.empty()) {
      HORING_ASSIGN(const Deadline deadline, measuring_ends());
      measure(**driver, deadline, mine, pairs);
    }
    // Others measure when this rank has.
    HORING_TRY(gather_all(communicator, std::vector<uint8_t>{1}).status());
  }
  HORING_ASSIGN(findings.gpus, gather_all(communicator, mine));
  HORING_ASSIGN(findings.pairs, gather_all(communicator, pairs));
  return findings;
}

std::string failures_of(const GpuFindings& findings) {
  std::string text;
  for (const GpuRow& gpu : findings.gpus) {
    if (const std::string failure = as_string(gpu.failure); !failure.empty()) {
      text += fmt::format("{}GPU {} of rank {} ({}): {}",
                          text.empty() ? "GPUs fail: " : "; ",
                          gpu.number,
                          gpu.rank,
                          findings.host_of_rank.at(gpu.rank),
                          failure);
    }
  }
  return text;
}

std::string to_string(const GpuFindings& findings) {
  if (findings.gpus.empty()) {
    return "GPUs: none: " + findings.why_none + "\n";
  }
  std::string text = facts_table(findings) + rates_table(findings);
  text += findings.pairs.empty() ? "" : pairs_table(findings);
  if (!findings.without.empty()) {
    text += "GPUs: none on " + rank_list(findings.without) + "\n";
  }
  return text;
}

nlohmann::json to_json(const GpuFindings& findings) {
  nlohmann::json json{{"why_none", findings.gpus.empty() ? findings.why_none : ""},
                      {"ranks_without", findings.without},
                      {"devices", nlohmann::json::array()},
                      {"pairs", nlohmann::json::array()}};
  for (const GpuRow& gpu : findings.gpus) {
    nlohmann::json device{{"host", findings.host_of_rank.at(gpu.rank)},
                          {"rank", gpu.rank},
                          {"number", gpu.number},
                          {"name", as_string(gpu.name)},
                          {"memory_bytes", gpu.memory_bytes},
                          {"pci", as_string(gpu.pci)},
                          {"uuid", as_string(gpu.uuid)},
                          {"numa_node", gpu.numa_node},
                          {"interface", as_string(gpu.interface)},
                          {"nearness", as_string(gpu.nearness)},
                          {"driver", as_string(gpu.driver)},
                          {"failure", as_string(gpu.failure)}};
    for (size_t kind = 0; kind < gpu.bytes_per_second.size(); ++kind) {
      device["bytes_per_second"][std::string(to_string(static_cast<CopyKind>(kind)))] =
          gpu.bytes_per_second.at(kind);
    }
    json["devices"].push_back(std::move(device));
  }
  for (const GpuPairRow& pair : findings.pairs) {
    json["pairs"].push_back({{"host", findings.host_of_rank.at(pair.rank)},
                             {"rank", pair.rank},
                             {"from", pair.from},
                             {"to", pair.to},
                             {"bytes_per_second", pair.bytes_per_second}});
  }
  return json;
}

}  // namespace ho
