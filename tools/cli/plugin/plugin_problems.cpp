#include "cli/plugin/plugin_problems.hpp"

#include <strings.h>

#include <algorithm>
#include <cstdlib>

#include "base/escaped.hpp"
#include "cli/plugin/nccl_filter.hpp"

namespace ho {
namespace {

using nccl_abi::PluginKind;
using nccl_abi::Release;

constexpr int64_t kUsualNodeThreshold = 2;

std::string list_text(std::span<const int> versions) {
  std::string text;
  for (const int version : versions) {
    text += (text.empty() ? "v" : ", v") + std::to_string(version);
  }
  return text;
}

std::string failures_text(const FoundPlugin& plugin) {
  std::string text;
  for (const FailedFile& failed : plugin.failed) {
    text += (text.empty() ? "" : "; ") + failed.reason;
  }
  return text;
}

std::string setting_text(const NcclVariables& variables, const std::string& name) {
  const auto value = variables(name);
  return value ? name + "=" + *value : name + " is not set";
}

// The one of ours that was found already; else own_file, else what stands for it.
std::string file_to_name(const Findings& findings, const std::string& own_file) {
  std::vector<const FoundPlugin*> found{&findings.env, &findings.tuner};
  for (const FoundPlugin& net : findings.nets) {
    found.push_back(&net);
  }
  for (const FoundPlugin* const plugin : found) {
    if (plugin->in_our_library && plugin->file->path.find('/') != std::string::npos) {
      return plugin->file->path;
    }
  }
  return own_file.empty() ? "/PATH/TO/libnccl-net-horing.so" : own_file;
}

class Problems {
 public:
  Problems(const Findings& findings, const std::string& own_file)
      : findings_(findings),
        release_(*findings.release),
        variables_(findings.variables),
        file_(file_to_name(findings, own_file)) {}

  std::vector<PluginProblem> all() && {
    if (release_.net.front() < nccl_abi::kOldestNet) {
      add("NCCL " + release_text(release_) + " looks up network " + list_text(release_.net) +
              ", and the plugin has v" + std::to_string(nccl_abi::kOldestNet) +
              " and newer: this release is not supported",
          "use NCCL 2.20 or newer");
      return std::move(found_);
    }
    check_env();
    check_net();
    check_coll_net();
    check_algorithms();
    if (findings_.net() != nullptr && findings_.net()->ours()) {
      check_kept();
    }
    check_tuner();
    return std::move(found_);
  }

 private:
  void add(const std::string& what, const std::string& todo) {
    found_.push_back({message_text(what), message_text(todo)});
  }

  // How a network is named to this release: some take no path.
  [[nodiscard]] std::string name_the_net() const {
    const bool by_name = release_.net_naming == nccl_abi::FileNaming::kPrefixed ||
                         release_.net_naming == nccl_abi::FileNaming::kVerbatimIfLibrary;
    const std::string folder = file_.substr(0, file_.rfind('/'));
    if (by_name) {
      return "set NCCL_NET_PLUGIN=horing, with " + folder +
             " in LD_LIBRARY_PATH (this release takes no path)";
    }
    const std::string set = "set NCCL_NET_PLUGIN=" + file_;
    const bool alone =
        !release_.env.empty() && !variables_("NCCL_ENV_PLUGIN") && !variables_("NCCL_NET_PLUGIN");
    return alone ? set + ", or nothing but NCCL_ENV_PLUGIN=" + file_ + ", which sets all of it"
                 : set;
  }

  // "s" too is a beginning of STATIC_PLUGIN.
  bool check_main_program(const FoundPlugin& plugin, const std::string& variable) {
    const bool is_program = plugin.file && plugin.opened_as == nccl_abi::kMainProgram;
    if (is_program && !plugin.ours()) {
      add(setting_text(variables_, variable) +
              " is a beginning of STATIC_PLUGIN: NCCL searches the program itself for the plugin",
          "set " + variable + "=" + file_);
    }
    return is_program;
  }

  void check_env() {
    const auto named = variables_("NCCL_ENV_PLUGIN");
    if (!named || named->empty() || strcasecmp(named->c_str(), "none") == 0) {
      return;
    }
    if (release_.env.empty()) {
      add("NCCL_ENV_PLUGIN=" + *named + ", but NCCL " + release_text(release_) +
              " has no env plugins",
          name_the_net() + ", NCCL_TUNER_PLUGIN=" + file_ + " and NCCL_COLLNET_ENABLE=1");
    } else if (!findings_.env.file) {
      add("NCCL_ENV_PLUGIN=" + *named + " cannot be loaded: " + failures_text(findings_.env),
          "set NCCL_ENV_PLUGIN=" + file_);
    } else if (!check_main_program(findings_.env, "NCCL_ENV_PLUGIN") && !findings_.env.usable()) {
      add(findings_.env.file->path + " has no " + symbol(PluginKind::kEnv, release_.env.front()) +
              ", so NCCL_ENV_PLUGIN=" + *named + " does nothing",
          "set NCCL_ENV_PLUGIN=" + file_);
    }
  }

  void check_net() {
    if (findings_.nets.empty()) {
      add(setting_text(variables_, "NCCL_NET_PLUGIN") + ": NCCL loads no network plugin",
          name_the_net());
      check_net_name();
      return;
    }
    const FoundPlugin* const net = findings_.net();
    if (net != nullptr && net->ours()) {
      return;
    }
    if (net != nullptr) {
      const bool listed = findings_.nets.size() > 1;
      add("NCCL takes the network " + net->name + " of " + net->file->path +
              (listed ? ", the first of the list " : " (") +
              setting_text(variables_, "NCCL_NET_PLUGIN") + (listed ? "" : ")"),
          listed ? "put " + file_ + " first in NCCL_NET_PLUGIN: NCCL uses one plugin per process"
                 : name_the_net());
      return;
    }
    for (const FoundPlugin& one : findings_.nets) {
      check_unusable(one);
    }
    if (std::ranges::none_of(findings_.nets, &FoundPlugin::usable)) {
      check_net_name();
    }
  }

  // Once the plugin is found the next trap would be this one.
  void check_net_name() {
    const auto wanted = variables_("NCCL_NET");
    if (wanted && strcasecmp(wanted->c_str(), kOurPluginName) != 0) {
      add("NCCL_NET=" + *wanted + ": NCCL would pass over the plugin if it found it",
          std::string("unset NCCL_NET, or set NCCL_NET=") + kOurPluginName);
    }
  }

  void check_unusable(const FoundPlugin& net) {
    if (net.file && check_main_program(net, "NCCL_NET_PLUGIN")) {
      return;
    }
    if (!net.file) {
      add(setting_text(variables_, "NCCL_NET_PLUGIN") +
              " and no such file can be loaded: " + failures_text(net),
          name_the_net());
    } else if (net.usable()) {
      add("NCCL_NET=" + variables_("NCCL_NET").value_or("") + ", so NCCL passes over " + net.name +
              " of " + net.file->path,
          "unset NCCL_NET, or set NCCL_NET=" + net.name);
    } else {
      add("NCCL " + release_text(release_) + " looks up network " + list_text(release_.net) +
              ", and " + net.file->path + " has none of these",
          name_the_net());
    }
  }

  void check_coll_net() {
    const auto enabled = variables_("NCCL_COLLNET_ENABLE");
    if (!enabled || std::strtoll(enabled->c_str(), nullptr, 0) != 1) {
      add(setting_text(variables_, "NCCL_COLLNET_ENABLE") + ": NCCL does not use CollNet",
          "set NCCL_COLLNET_ENABLE=1");
    }
  }

  void check_algorithms() {
    const NcclFilter filter = nccl_filter(release_, variables_);
    if (!filter.unknown.empty()) {
      add(filter.text + ": NCCL has no " + filter.unknown,
          "write tree, ring, collnetdirect, collnetchain, nvls, nvlstree or pat in NCCL_ALGO, and "
          "ll, ll128 or simple in NCCL_PROTO");
    }
    if (filter.with_coll_net.empty()) {
      add(filter.text + ": NCCL takes CollNet for no collective",
          "unset " + filter.names +
              ", or leave collnetdirect, collnetchain or nvls in NCCL_ALGO and simple in "
              "NCCL_PROTO");
    }
    if (!filter.need_nvswitch.empty() && !findings_.nvswitch) {
      add(filter.text + ": leaves nothing for " + filter.need_nvswitch +
              " that NCCL takes on nodes without an NVSwitch, and none is seen here",
          "unset NCCL_ALGO, so that the tuner may allow COLLNET_DIRECT with one rank per node; or "
          "add ring");
    }
  }

  void check_kept() {
    // These forget the name of a plugin when the last communicator goes.
    const bool forgets = !(release_.first < nccl_abi::Version{2, 28, 0}) &&
                         release_.last < nccl_abi::Version{2, 30, 0};
    const auto count = variables_("NCCL_NET_PLUGIN_REF_COUNT");
    const bool kept = count && std::strtoll(count->c_str(), nullptr, 0) >= 1;
    if (forgets && !kept && findings_.net()->opened_as != "libnccl-net.so") {
      add("NCCL " + release_text(release_) +
              " loses a named plugin when the last communicator of the process is destroyed, and "
              "communicators made later do without; " +
              setting_text(variables_, "NCCL_NET_PLUGIN_REF_COUNT"),
          "set NCCL_NET_PLUGIN_REF_COUNT=1");
    }
  }

  void check_tuner() {
    const FoundPlugin& tuner = findings_.tuner;
    if (tuner.ours() || release_.tuner.front() < 2) {
      return;
    }
    const std::string todo = "set NCCL_TUNER_PLUGIN=" + file_;
    if (tuner.file && check_main_program(tuner, "NCCL_TUNER_PLUGIN")) {
      return;
    }
    if (tuner.usable()) {
      add("NCCL takes the tuner " + tuner.name + " of " + tuner.file->path + " (" +
              setting_text(variables_, "NCCL_TUNER_PLUGIN") + ")",
          todo);
    } else if (tuner.file) {
      add("NCCL searches for a tuner in " + tuner.file->path + ", which has no " +
              list_text(release_.tuner) + " (" + setting_text(variables_, "NCCL_TUNER_PLUGIN") +
              ")",
          todo);
    } else {
      add(setting_text(variables_, "NCCL_TUNER_PLUGIN") + ": NCCL finds no tuner" +
              (tuner.failed.empty() ? "" : ": " + failures_text(tuner)),
          todo);
    }
  }

  const Findings& findings_;
  const Release& release_;
  const NcclVariables& variables_;
  std::string file_;
  std::vector<PluginProblem> found_;
};

}  // namespace

std::vector<PluginProblem> plugin_problems(const Findings& findings, const std::string& own_file) {
  return Problems(findings, own_file).all();
}

std::vector<std::string> plugin_remarks(const Findings& findings) {
  std::vector<std::string> remarks;
  if (findings.release->tuner.front() < 2) {
    remarks.push_back("NCCL " + release_text(*findings.release) +
                      " has only tuners v1, which the plugin does not have: NCCL chooses alone");
  }
  if (findings.env.usable() && !findings.env.ours()) {
    remarks.push_back("NCCL takes its settings from the env plugin " + findings.env.name + " of " +
                      findings.env.file->path +
                      ", which is not called here: what it sets is not seen");
  }
  const NcclFilter filter = nccl_filter(*findings.release, findings.variables);
  if (!filter.names.empty()) {
    remarks.push_back(filter.text + ": CollNet is left for " +
                      (filter.with_coll_net.empty() ? "no collective" : filter.with_coll_net) +
                      "; and the tuner no longer allows COLLNET_DIRECT where NCCL rules it out "
                      "because there is no NVSwitch");
  }
  const auto threshold = findings.variables("NCCL_COLLNET_NODE_THRESHOLD");
  const int64_t least_nodes =
      threshold ? std::strtoll(threshold->c_str(), nullptr, 0) : kUsualNodeThreshold;
  if (least_nodes > kUsualNodeThreshold) {
    remarks.push_back("NCCL_COLLNET_NODE_THRESHOLD=" + *threshold +
                      ": communicators of fewer nodes go without CollNet");
  }
  const auto sharing = findings.variables("NCCL_COMM_SPLIT_SHARE_RESOURCES");
  const bool shares = sharing && std::strtoll(sharing->c_str(), nullptr, 0) == 1;
  if (findings.net() != nullptr && findings.net()->ours() && !shares) {
    remarks.push_back(
        "communicators that ncclCommSplit makes over the same nodes have no CollNet " +
        (sharing ? "with NCCL_COMM_SPLIT_SHARE_RESOURCES=" + *sharing +
                       ", whatever config.splitShare is: 1 keeps it"
                 : "unless the parent was made with config.splitShare = 1; "
                   "NCCL_COMM_SPLIT_SHARE_RESOURCES=1 stands for that in all"));
  }
  return remarks;
}

std::string plugin_shortfall(const Findings& findings) {
  const FoundPlugin* const net = findings.net();
  if (findings.nets.empty()) {
    return "loads no network plugin";
  }
  if (net == nullptr) {
    const FoundPlugin& first = findings.nets.front();
    if (first.usable()) {
      return "NCCL_NET passes over " + first.name;
    }
    if (first.file) {
      return "looks up network " + list_text(findings.release->net);
    }
    return (first.kills ? "ends at " : "opens no ") + first.failed.back().file;
  }
  if (!net->ours()) {
    return "takes " + net->name + " of " + net->file->path;
  }
  if (findings.tuner.ours() || findings.release->tuner.front() < 2) {
    return "";
  }
  return findings.tuner.usable() ? "takes tuner " + findings.tuner.name : "finds no tuner";
}

}  // namespace ho
