#include "cli/host/doctor_gpus.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

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

constexpr std::array kOwnCopies{
    CopyKind::kToDevice, CopyKind::kFromDevice, CopyKind::kBothWays, CopyKind::kWithin};

// Names are a driver's: anything that is not UTF-8 is replaced, not thrown over.
std::string line_of(const nlohmann::json& row) {
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// Collective. The arrays of all ranks as one.
Result<nlohmann::json> gather_rows(Communicator& communicator, const nlohmann::json& mine) {
  std::vector<char> lines;
  for (const nlohmann::json& row : mine) {
    std::ranges::copy(line_of(row), std::back_inserter(lines));
  }
  HORING_ASSIGN(const std::vector<char> all, gather_all(communicator, lines));
  nlohmann::json rows = nlohmann::json::array();
  std::istringstream stream(std::string(all.begin(), all.end()));
  for (std::string line; std::getline(stream, line);) {
    rows.push_back(nlohmann::json::parse(line));
  }
  return rows;
}

nlohmann::json rows_of(const Gpus& gpus, uint32_t rank, const std::string& host) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Gpu& gpu : gpus.list) {
    nlohmann::json& row = rows.emplace_back(to_json(gpu));
    row.update({{"host", host}, {"rank", rank}, {"driver", gpus.driver}, {"failure", ""}});
    for (const CopyKind kind : kOwnCopies) {
      row["bytes_per_second"][std::string(to_string(kind))] = 0.0;
    }
  }
  return rows;
}

// Each GPU once, of the lowest rank that sees it. UUIDs tell GPUs of all hosts apart.
nlohmann::json each_once(const nlohmann::json& rows) {
  nlohmann::json result = nlohmann::json::array();
  std::set<std::string> seen;
  for (const nlohmann::json& row : rows) {
    if (seen.insert(row.at("uuid")).second) {
      result.push_back(row);
    }
  }
  return result;
}

std::vector<uint32_t> ranks_without(const nlohmann::json& rows, uint32_t world) {
  std::vector<uint32_t> without;
  for (uint32_t rank = 0; rank < world; ++rank) {
    if (std::ranges::none_of(rows, [&](const auto& row) { return row.at("rank") == rank; })) {
      without.push_back(rank);
    }
  }
  return without;
}

// Half of what the others would wait for this rank.
Result<Deadline> measuring_ends() {
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kTimeoutMs));
  const auto half = std::chrono::milliseconds(timeout_ms / 2);
  return deadline_after(std::min<std::chrono::milliseconds>(kMaxMeasuring, half));
}

// Of the only rank whose rows these are.
void measure(const device::Driver& driver,
             Deadline deadline,
             nlohmann::json& mine,
             nlohmann::json& pairs) {
  std::map<int, nlohmann::json*> row_of;
  std::vector<int> devices;
  for (nlohmann::json& row : mine) {
    devices.push_back(row.at("number"));
    row_of[devices.back()] = &row;
  }
  const nlohmann::json of_rank{{"host", mine.front().at("host")},
                               {"rank", mine.front().at("rank")}};
  RateLimits limits;
  limits.deadline = deadline;
  limits.say = [&](const std::string& line) {
    std::fprintf(
        stderr, "horing doctor: rank %u: %s\n", of_rank.at("rank").get<uint32_t>(), line.c_str());
  };
  const CopyRates rates = measure_copy_rates(driver, devices, limits);
  for (const CopyRate& rate : rates.rates) {
    if (rate.kind == CopyKind::kToPeer) {
      nlohmann::json& pair = pairs.emplace_back(of_rank);
      pair.update(
          {{"from", rate.device}, {"to", rate.peer}, {"bytes_per_second", rate.bytes_per_second}});
    } else {
      (*row_of.at(rate.device))["bytes_per_second"][std::string(to_string(rate.kind))] =
          rate.bytes_per_second;
    }
  }
  for (const FailedDevice& failed : rates.failed) {
    (*row_of.at(failed.device))["failure"] = failed.status.message();
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

std::string text(const nlohmann::json& row, const char* key) {
  const nlohmann::json& value = row.at(key);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string gigabytes(const nlohmann::json& bytes_per_second) {
  const double value = bytes_per_second;
  return value > 0 ? fixed(value / 1e9, 1) : "-";
}

std::string facts_table(const nlohmann::json& devices) {
  auto columns =
      headed("lrrlrlrll", {"host", "rank", "GPU", "name", "GiB", "PCI", "NUMA", "driver", "NIC"});
  for (const nlohmann::json& gpu : devices) {
    const std::string nic = text(gpu, "interface");
    const int numa_node = gpu.at("numa_node");
    add_row(columns,
            {text(gpu, "host"),
             text(gpu, "rank"),
             text(gpu, "number"),
             text(gpu, "name"),
             gib_text(gpu.at("memory_bytes")),
             text(gpu, "pci"),
             numa_node < 0 ? "?" : std::to_string(numa_node),
             text(gpu, "driver"),
             nic.empty() ? "none" : nic + " (" + text(gpu, "nearness") + ")"});
  }
  return aligned(columns);
}

std::string rates_table(const nlohmann::json& devices) {
  auto columns =
      headed("lrrrrr", {"host", "GPU", "to device GB/s", "from device", "both at once", "within"});
  for (const nlohmann::json& gpu : devices) {
    std::vector<std::string> cells{text(gpu, "host"), text(gpu, "number")};
    for (const CopyKind kind : kOwnCopies) {
      cells.push_back(gigabytes(gpu.at("bytes_per_second").at(std::string(to_string(kind)))));
    }
    add_row(columns, std::move(cells));
  }
  return aligned(columns);
}

std::string pairs_table(const nlohmann::json& pairs) {
  auto columns = headed("lrrr", {"host", "from GPU", "to GPU", "GB/s"});
  for (const nlohmann::json& pair : pairs) {
    add_row(columns,
            {text(pair, "host"),
             text(pair, "from"),
             text(pair, "to"),
             gigabytes(pair.at("bytes_per_second"))});
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
  const std::string& host = communicator.placement().host_name[self];
  GpuFindings findings;
  HORING_ASSIGN(const nlohmann::json all, gather_rows(communicator, rows_of(gpus, self, host)));
  findings.without = ranks_without(all, communicator.map().world_size());
  if (all.empty()) {
    findings.why_none = gpus.why_none;
    return findings;
  }
  nlohmann::json mine = nlohmann::json::array();
  for (const nlohmann::json& row : each_once(all)) {
    if (row.at("rank") == self) {
      mine.push_back(row);
    }
  }
  nlohmann::json pairs = nlohmann::json::array();
  const Turn turn = turn_of(communicator);
  for (size_t i = 0; i < turn.count; ++i) {
    if (i == turn.mine && !mine.empty()) {
      HORING_ASSIGN(const Deadline deadline, measuring_ends());
      measure(**driver, deadline, mine, pairs);
    }
    // Others measure when this rank has.
    HORING_TRY(gather_all(communicator, std::vector<uint8_t>{1}).status());
  }
  HORING_ASSIGN(findings.devices, gather_rows(communicator, mine));
  HORING_ASSIGN(findings.pairs, gather_rows(communicator, pairs));
  return findings;
}

std::string failures_of(const GpuFindings& findings) {
  std::string result;
  for (const nlohmann::json& gpu : findings.devices) {
    if (const std::string failure = text(gpu, "failure"); !failure.empty()) {
      result += fmt::format("{}GPU {} of rank {} ({}): {}",
                            result.empty() ? "GPUs fail: " : "; ",
                            text(gpu, "number"),
                            text(gpu, "rank"),
                            text(gpu, "host"),
                            failure);
    }
  }
  return result;
}

std::string to_string(const GpuFindings& findings) {
  if (findings.devices.empty()) {
    return "GPUs: none: " + findings.why_none + "\n";
  }
  std::string tables = facts_table(findings.devices) + rates_table(findings.devices);
  tables += findings.pairs.empty() ? "" : pairs_table(findings.pairs);
  if (!findings.without.empty()) {
    tables += "GPUs: none on " + rank_list(findings.without) + "\n";
  }
  return tables;
}

nlohmann::json to_json(const GpuFindings& findings) {
  return {{"why_none", findings.why_none},
          {"ranks_without", findings.without},
          {"devices", findings.devices},
          {"pairs", findings.pairs}};
}

}  // namespace ho
