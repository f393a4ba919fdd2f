#include "cli/plugin/plugin_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/subcommands/table.hpp"

namespace ho {
namespace {

using Json = nlohmann::ordered_json;

std::string version_text(const FoundPlugin& plugin) {
  return plugin.ours() ? fmt::format("v{}", plugin.version) : "-";
}

FoundPlugin net_of(const Findings& findings) {
  return findings.net() == nullptr ? FoundPlugin() : *findings.net();
}

std::string releases_text(const PluginReport& report) {
  auto columns = headed("lrrrrl", {"what NCCL finds", "network", "CollNet", "tuner", "env", ""});
  for (const Findings& findings : report.releases) {
    add_row(columns,
            {release_text(*findings.release),
             version_text(net_of(findings)),
             version_text(findings.coll_net),
             version_text(findings.tuner),
             version_text(findings.env),
             plugin_shortfall(findings)});
  }
  return aligned(columns);
}

std::string devices_text(const PluginReport& report) {
  std::string text = "network devices\n";
  if (report.probed.devices.empty()) {
    text += "  none\n";
  }
  for (const ProbedDevice& device : report.probed.devices) {
    text += fmt::format("  {:<12} {} Mbit/s, {}{}\n",
                        device.name,
                        device.speed_mbps,
                        device.pci_path.empty() ? "no PCI device" : device.pci_path,
                        device.coll_net ? ", with CollNet" : "");
  }
  return text;
}

Json plugin_json(const FoundPlugin& plugin) {
  if (!plugin.usable()) {
    return nullptr;
  }
  return {{"version", plugin.version},
          {"name", plugin.name},
          {"file", plugin.file->path},
          {"ours", plugin.ours()}};
}

Json findings_json(const Findings& findings) {
  return {{"releases", release_text(*findings.release)},
          {"network", plugin_json(net_of(findings))},
          {"collnet", plugin_json(findings.coll_net)},
          {"tuner", plugin_json(findings.tuner)},
          {"env", plugin_json(findings.env)},
          {"shortfall", plugin_shortfall(findings)}};
}

}  // namespace

std::vector<PluginProblem> problems_of_probe(const Findings& findings, const ProbedPlugin& probed) {
  std::vector<PluginProblem> problems;
  for (const std::string& warning : probed.warnings) {
    problems.push_back({warning, "follow this message on every node to which it applies"});
  }
  if (!probed.warnings.empty()) {
    return problems;
  }
  const std::string file = findings.net()->file->path;
  if (!probed.started || probed.devices.empty()) {
    problems.push_back({"the network of " + file + " has no devices",
                        "see its log: NCCL_DEBUG=INFO, or HORING_LOG_LEVEL=debug here"});
  } else if (std::ranges::none_of(probed.devices, &ProbedDevice::coll_net)) {
    problems.push_back(
        {"CollNet of " + file + " offers no devices" +
             (probed.coll_net_said.empty() ? "" : ": " + probed.coll_net_said),
         "set HORING_COLLNET_HOST=1 if CollNet is worth more than the reason given"});
  }
  return problems;
}

std::string to_string(const PluginReport& report) {
  std::string text = report.judged + "\n\n" + releases_text(report) + "\n";
  if (report.findings.net() != nullptr && report.findings.net()->ours()) {
    text += "loaded " + report.findings.net()->file->path + "\n" + devices_text(report);
    for (const std::string& line : report.probed.log) {
      text += "  log: " + line + "\n";
    }
    text += "\n";
  }
  for (const std::string& remark : report.remarks) {
    text += "note: " + remark + "\n";
  }
  for (const PluginProblem& problem : report.problems) {
    text += "problem: " + problem.what + "\n     do: " + problem.todo + "\n";
  }
  return text + (report.problems.empty() ? "fine: NCCL finds the plugin and uses it\n"
                                         : fmt::format("{} problem{}\n",
                                                       report.problems.size(),
                                                       report.problems.size() == 1 ? "" : "s"));
}

std::string to_json(const PluginReport& report) {
  Json json{{"judged", report.judged}, {"fine", report.problems.empty()}};
  json["found"] = findings_json(report.findings);
  for (const char* const list : {"releases", "devices", "problems"}) {
    json[list] = Json::array();
  }
  for (const Findings& findings : report.releases) {
    json["releases"].push_back(findings_json(findings));
  }
  for (const ProbedDevice& device : report.probed.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"speed_mbps", device.speed_mbps},
                               {"pci_path", device.pci_path},
                               {"collnet", device.coll_net}});
  }
  for (const PluginProblem& problem : report.problems) {
    json["problems"].push_back({{"what", problem.what}, {"do", problem.todo}});
  }
  json["log"] = report.probed.log;
  json["notes"] = report.remarks;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ho
