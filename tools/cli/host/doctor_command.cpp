// Every rank runs the same command; rank 0 prints one table and one result for the job. A rank
// that cannot be reached shows as the error of the communicator, which names it.
#include "doctor_command.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/escaped.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "cli/host/doctor_gpus.hpp"
#include "cli/host/gather_all.hpp"
#include "cli/host/measured_levels.hpp"
#include "cli/subcommands/option_error.hpp"
#include "cli/subcommands/output_file.hpp"
#include "cli/subcommands/table.hpp"
#include "comm/communicator.hpp"
#include "comm/link_rates.hpp"

namespace ho {
namespace {

// A link is suspicious below this share of the median of its kind.
constexpr double kSlowShare = 0.7;

struct Row {
  uint32_t from = 0;
  uint32_t to = 0;
  int32_t rail = -1;  // -1: inside the group
  double bytes_per_second = 0;
  double round_trip_ns = 0;
};

Result<std::vector<Row>> gather_rows(Communicator& communicator,
                                     const std::vector<LinkRate>& rates) {
  std::vector<Row> mine;
  for (const LinkRate& rate : rates) {
    mine.push_back({communicator.rank().value(),
                    rate.peer.value(),
                    rate.rail ? static_cast<int32_t>(rate.rail->value()) : -1,
                    rate.bytes_per_second,
                    rate.round_trip_ns});
  }
  return gather_all(communicator, mine);
}

// The median rate of each rail and, under -1, of links inside groups.
std::map<bool, double> medians(const std::vector<Row>& rows) {
  std::map<bool, std::vector<double>> rates;
  for (const Row& row : rows) {
    rates[row.rail >= 0].push_back(row.bytes_per_second);
  }
  std::map<bool, double> result;
  for (auto& [inter, values] : rates) {
    std::nth_element(
        values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
    result[inter] = values[values.size() / 2];
  }
  return result;
}

std::string via(const Communicator& communicator, const Row& row) {
  if (row.rail < 0) {
    return communicator.placement().same_host(GlobalRank(row.from), GlobalRank(row.to))
               ? "shared memory"
               : "network inside the group";
  }
  const auto& nics = communicator.placement().nic;
  return fmt::format("rail {}: {} {} -> {} {}",
                     row.rail,
                     nics[row.from].name,
                     nics[row.from].address,
                     nics[row.to].name,
                     nics[row.to].address);
}

struct Diagnosis {
  std::vector<std::string> remarks;  // by row
  std::vector<std::string> lost;     // interfaces
  std::string result;
  bool healthy = true;
};

Diagnosis diagnose(const Communicator& communicator, const std::vector<Row>& rows) {
  Diagnosis diagnosis;
  auto median = medians(rows);
  std::string slow;
  int slow_count = 0;
  for (const Row& row : rows) {
    const double share = row.bytes_per_second / std::max(median[row.rail >= 0], 1.0);
    std::string remark;
    if (row.rail >= 0 && share < kSlowShare) {
      remark = fmt::format("slow: {:.0f} % of the median", share * 100);
      const std::string text = fmt::format("rank {} ({}) to rank {} ({}) by {}",
                                           row.from,
                                           communicator.placement().host_name[row.from],
                                           row.to,
                                           communicator.placement().host_name[row.to],
                                           via(communicator, row));
      slow += (slow_count++ == 0 ? "" : "; ") + text;
    }
    diagnosis.remarks.push_back(std::move(remark));
  }
  diagnosis.lost = communicator.placement().lost_nics;
  diagnosis.healthy = slow_count == 0 && diagnosis.lost.empty();
  if (!diagnosis.lost.empty()) {
    diagnosis.result = fmt::format(
        "the job runs without interfaces that it would use: {}. Bring them up, or leave them out "
        "with HORING_SOCKET_IFNAME",
        fmt::join(diagnosis.lost, "; "));
  }
  if (slow_count > 0) {
    diagnosis.result += fmt::format(
        "{}{} of {} links are slow: {}. Check cabling, switch port and speed of these interfaces",
        diagnosis.lost.empty() ? "" : ". ",
        slow_count,
        rows.size(),
        slow);
  }
  if (!diagnosis.healthy) {
    return diagnosis;
  }
  if (rows.empty()) {
    diagnosis.result = "healthy: one rank, no links";
  } else {
    diagnosis.result = fmt::format(
        "healthy: {} ranks as {}, all {} links reachable; median between groups {:.1f} MB/s, "
        "inside "
        "{:.1f} MB/s",
        communicator.map().world_size(),
        communicator.map().to_string(),
        rows.size(),
        median[true] / 1e6,
        median[false] / 1e6);
  }
  return diagnosis;
}

void print_table(const Communicator& communicator,
                 const std::vector<Row>& rows,
                 const GpuFindings& gpus,
                 const Diagnosis& diagnosis) {
  auto columns = headed("llrrl", {"from", "to", "MB/s", "round trip us", "by"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string& remark = diagnosis.remarks[i];
    add_row(columns,
            {std::to_string(rows[i].from),
             std::to_string(rows[i].to),
             fixed(rows[i].bytes_per_second / 1e6, 1),
             fixed(rows[i].round_trip_ns / 1e3, 1),
             via(communicator, rows[i]) + (remark.empty() ? "" : "  <- " + remark)});
  }
  std::fputs(aligned(columns).c_str(), stdout);
  std::fputs(to_string(gpus).c_str(), stdout);
  std::printf("result: %s\n", message_text(diagnosis.result).c_str());
}

void print_json(const Communicator& communicator,
                const std::vector<Row>& rows,
                const GpuFindings& gpus,
                const Diagnosis& diagnosis) {
  nlohmann::json links = nlohmann::json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    links.push_back({{"from", rows[i].from},
                     {"to", rows[i].to},
                     {"rail", rows[i].rail},
                     {"bytes_per_second", rows[i].bytes_per_second},
                     {"round_trip_ns", rows[i].round_trip_ns},
                     {"by", via(communicator, rows[i])},
                     {"remark", diagnosis.remarks[i]}});
  }
  const nlohmann::json report{{"healthy", diagnosis.healthy},
                              {"result", diagnosis.result},
                              {"lost_interfaces", diagnosis.lost},
                              {"groups", communicator.map().to_string()},
                              {"links", links},
                              {"cuda", to_json(gpus)}};
  // Names are a driver's: anything that is not UTF-8 is replaced, not thrown over.
  std::printf("%s\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

// What `paro plan --cluster` reads.
Status write_levels(const Communicator& communicator,
                    const std::vector<Row>& rows,
                    const std::string& path) {
  const GroupMap& map = communicator.map();
  std::vector<uint32_t> sizes;
  for (uint32_t group = 0; group < map.group_count(); ++group) {
    sizes.push_back(map.group_size(GroupIndex(group)));
  }
  std::vector<MeasuredLink> links;
  for (const Row& row : rows) {
    links.push_back({row.rail >= 0, row.bytes_per_second, row.round_trip_ns});
  }
  auto levels = measured_levels(sizes, map.rail_count(), links);
  if (!levels.ok()) {
    return Status(levels.status().code(), "--write " + path + ": " + levels.status().message());
  }
  const bool written = write_file("horing doctor", "--write", path, cost::levels_text(*levels));
  return written ? Status() : Status(StatusCode::kSystem, "--write " + path + ": not written");
}

Result<bool> examine(bool json, const std::string& levels_path) {
  CommunicatorConfig config;
  HORING_ASSIGN(config.rendezvous, rendezvous_from_environment());
  HORING_ASSIGN(config.key, JobKey::from_environment());
  HORING_ASSIGN(const auto communicator, Communicator::create(config));
  HORING_ASSIGN(const std::vector<LinkRate> rates, measure_links(*communicator));
  HORING_ASSIGN(const std::vector<Row> rows, gather_rows(*communicator, rates));
  Diagnosis diagnosis = diagnose(*communicator, rows);
  HORING_ASSIGN(const GpuFindings gpus, examine_gpus(*communicator));
  if (const std::string failed = failures_of(gpus); !failed.empty()) {
    diagnosis.result = (diagnosis.healthy ? "" : diagnosis.result + ". ") + failed;
    diagnosis.healthy = false;
  }
  if (communicator->rank().value() == 0) {
    (json ? print_json : print_table)(*communicator, rows, gpus, diagnosis);
    if (!levels_path.empty()) {
      HORING_TRY(write_levels(*communicator, rows, levels_path));
    }
  }
  return diagnosis.healthy;
}

}  // namespace

int doctor_command(int argc, const char* const* argv) {
  CLI::App app{
      "Tests every link that this job's collectives will use: reachable, bandwidth, round trip,\n"
      "and measures the copies of the GPUs that its ranks see, where there are any.\n"
      "Start it on every rank, as you start the job: horing run -n 4x4 -- horing doctor, or under\n"
      "torchrun, srun or mpirun. MB/s is payload received, all links of a kind busy at once;\n"
      "inside a group the best of five probes, which on a busy machine still depends on its\n"
      "processors. Exit status 0: healthy, 1: slow links, interfaces that are down, GPUs that\n"
      "fail, or an error; 2: bad arguments.",
      "horing doctor"};
  bool json = false;
  app.add_flag("--json", json, "print JSON");
  std::string levels_path;
  app.add_option("--write",
                 levels_path,
                 "write the cluster that was measured as levels, for paro plan --cluster")
      ->type_name("FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return exit_after(app, error);
  }
  if (first_rank() && !can_write_file("horing doctor", "--write", levels_path)) {
    return kUsageError;
  }
  const Result<bool> healthy = examine(json, levels_path);
  if (!healthy.ok()) {
    std::fprintf(stderr, "result: %s\n", message_text(healthy.status().to_string()).c_str());
    return 1;
  }
  return *healthy ? 0 : 1;
}

}  // namespace ho
