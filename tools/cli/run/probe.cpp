#include "cli/run/probe.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/run/namespaces.hpp"
#include "cli/run/process.hpp"

namespace ho {
namespace {

constexpr std::string_view kNoTools = "links cannot be made. Install the package iproute2";
constexpr std::string_view kNoLinks =
    "nodes cannot be connected. The kernel needs the modules bridge and veth";
constexpr std::string_view kNoShaping =
    "rails cannot be limited by the kernel. It needs the modules sch_htb and sch_fifo";

Probe outcome(std::string part, const Status& status, std::string_view meaning) {
  return {std::move(part), status.ok(), status.message(), std::string(meaning)};
}

Status try_script(const char* program, const std::string& script) {
  return run_program({program, "-batch", "-"}, script);
}

// Inside outer namespaces of its own, so that nothing it makes remains.
std::vector<Probe> probe_inside() {
  std::vector<Probe> probes;
  const Result<pid_t> node = start_node("probe");
  probes.push_back(
      outcome("nodes (net, uts, ipc, mount and pid namespaces)", node.status(), kNoNamespaces));
  for (const char* program : {"ip", "tc"}) {
    probes.push_back(outcome(program, run_program({program, "-Version"}, ""), kNoTools));
  }
  if (!all_available(probes)) {
    return probes;
  }
  probes.push_back(
      outcome("bridge", try_script("ip", "link add name probebr type bridge\n"), kNoLinks));
  probes.push_back(outcome(
      "veth", try_script("ip", "link add name probe0 type veth peer name probe1\n"), kNoLinks));
  // The loopback device is always there, and takes a queueing discipline like any other.
  probes.push_back(outcome("HTB",
                           try_script("tc",
                                      "qdisc add dev lo root handle 1: htb default 1\n"
                                      "class add dev lo parent 1: classid 1:1 htb rate 1mbit\n"
                                      "qdisc add dev lo parent 1:1 handle 10: bfifo limit 512kb\n"),
                           kNoShaping));
  return probes;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Probe, part, available, reason, meaning)

Result<std::vector<Probe>> probe_machine() {
  HORING_ASSIGN(Pipe answer, make_pipe());
  const Result<int> outer = run_in_outer_namespaces(false, [&] {
    answer.read.reset();
    const std::string report = nlohmann::json(probe_inside())
                                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return write_all(answer.write.get(), report) ? 0 : 1;
  });
  const std::string kind = needs_user_namespace() ? "user, net, mount and pid namespaces"
                                                  : "net, mount and pid namespaces";
  std::vector<Probe> probes{outcome(kind, outer.status(), kNoNamespaces)};
  if (!outer.ok()) {
    return probes;
  }
  if (outer.value() != 0) {
    return Status(StatusCode::kAborted, "interrupted");
  }
  answer.write.reset();
  HORING_ASSIGN(const std::string text, read_all(answer.read.get(), std::chrono::seconds(30)));
  const nlohmann::json inside = nlohmann::json::parse(text, nullptr, false);
  if (inside.is_discarded()) {
    return Status(StatusCode::kSystem, "the probe ended before it could report");
  }
  for (const nlohmann::json& probe : inside) {
    probes.push_back(probe.get<Probe>());
  }
  return probes;
}

bool all_available(const std::vector<Probe>& probes) {
  return std::ranges::all_of(probes, &Probe::available);
}

std::string to_string(const std::vector<Probe>& probes, bool missing_only) {
  std::string text;
  for (const Probe& probe : probes) {
    if (!probe.available) {
      text += "missing: " + probe.part + " (" + probe.reason + "): " + probe.meaning + "\n";
    } else if (!missing_only) {
      text += "found:   " + probe.part + "\n";
    }
  }
  return text;
}

}  // namespace ho
