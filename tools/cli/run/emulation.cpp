#include "cli/run/emulation.hpp"

#include <cstdio>

#include "base/escaped.hpp"
#include "cli/run/cluster.hpp"
#include "cli/run/namespaces.hpp"
#include "cli/run/probe.hpp"

namespace ho {
namespace {

void say(std::string_view who, const std::string& text) {
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(who.size()), who.data(), text.c_str());
}

std::string emulation_text(Emulation emulation, const ClusterOptions& options) {
  const ClusterShape shape = shape_of(options);
  std::string text = options.sizes->to_string() + " ranks";
  if (shape.rails > 0) {
    text += ", " + std::to_string(shape.rails) + (shape.rails == 1 ? " rail" : " rails");
  }
  if (const uint32_t used = options.sizes->rail_count(); shape.rails > used) {
    text += " (" + std::to_string(used) + " used: each takes a rank of its own on every node)";
  }
  switch (emulation) {
    case Emulation::kNamespaces:
      text += shape.rails == 0 ? "" : " at " + rate_text(shape.rail_rate_mbit);
      return text + "; nodes are namespaces" +
             (shape.rails > 0 && shape.rail_rate_mbit > 0 ? ", rails are shaped by HTB" : "");
    case Emulation::kPaced:
      text += shape.rails == 0 ? "" : " at " + rate_text(shape.rail_rate_mbit);
      return text + "; nodes are plain processes, rails are loopback, paced by the sender";
    case Emulation::kNone:
      break;
  }
  return text + "; nodes are plain processes, rails are loopback, not limited";
}

// What was requested, or the best that this machine permits.
Result<Emulation> choose(const ClusterOptions& options, std::string_view who) {
  if (options.emulation.has_value()) {
    return *options.emulation;
  }
  HORING_ASSIGN(const std::vector<Probe> probes, probe_machine());
  if (all_available(probes)) {
    return Emulation::kNamespaces;
  }
  say(who,
      to_string(probes, true) +
          "Nodes are not isolated, and the senders pace the rails themselves: the figures "
          "are close to those of limited links, not the same.");
  return Emulation::kPaced;
}

}  // namespace

int print_error(std::string_view who, const Status& status) {
  say(who, message_text(status.message()));
  return 1;
}

int print_probe() {
  const Result<std::vector<Probe>> probes = probe_machine();
  if (!probes.ok()) {
    return print_error("horing", probes.status());
  }
  std::fputs(to_string(probes.value(), false).c_str(), stdout);
  return all_available(probes.value()) ? 0 : 1;
}

Result<int> run_on_cluster(const ClusterOptions& options,
                           bool keeps_terminal,
                           std::string_view who,
                           const std::function<Result<int>(const Cluster&)>& body) {
  HORING_ASSIGN(const Emulation emulation, choose(options, who));
  if (!options.quiet) {
    say(who, emulation_text(emulation, options));
  }
  const ClusterShape shape = shape_of(options);
  if (emulation != Emulation::kNamespaces) {
    return body(plain_cluster(emulation, shape));
  }
  const Result<int> outer = run_in_outer_namespaces(keeps_terminal, [&] {
    const Result<Cluster> cluster = bring_up(shape);
    if (!cluster.ok()) {
      return print_error(who, cluster.status().with_context("bringing the cluster up"));
    }
    const Result<int> status = body(cluster.value());
    return status.ok() ? status.value() : print_error(who, status.status());
  });
  if (!outer.ok()) {
    return Status(outer.status().code(),
                  "--emulate namespaces: " + outer.status().message() + "; " +
                      std::string(kNoNamespaces) + "; --emulate paced needs none");
  }
  return outer;
}

}  // namespace ho
