// What a release of NCCL finds in an environment: the files that it tries for each kind of plugin,
// which of them opens, and the newest version of the interface that both know.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/lookup.hpp"
#include "abi/releases.hpp"
#include "base/status.hpp"

namespace ho {

// The name of our tuner and env plugin, and of our network where it forwards to no other.
inline constexpr const char* kOurPluginName = "HO-Ring";

// A variable as NCCL reads it; nothing where it is not set.
using NcclVariables = std::function<std::optional<std::string>(const std::string& name)>;
struct NcclEnvironment {
  NcclVariables variables;
  std::vector<std::string> unread_files;  // of settings: "FILE: why"
};
// The process's environment, then NCCL's files: NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf. A
// file that is not there is unread only where NCCL_CONF_FILE names it.
[[nodiscard]] NcclEnvironment nccl_environment();
// NAME=VALUE a line, as NCCL reads such a file: no blanks are cut, # at the start is a comment.
[[nodiscard]] std::map<std::string, std::string> parse_nccl_conf(std::string_view text);

struct PluginFile {
  std::string path;                                            // as the loader found it
  std::function<const void*(const std::string& name)> symbol;  // or nullptr
};
// As dlopen, which searches for names without a slash itself. kInvalidArgument: loading it would
// kill the process, or never end; others are the loader's text.
using OpenPlugin = std::function<Result<PluginFile>(const std::string& file)>;
[[nodiscard]] OpenPlugin system_loader();

struct FailedFile {
  std::string file;
  std::string reason;
};

struct FoundPlugin {
  std::vector<FailedFile> failed;  // files that were tried before
  std::optional<PluginFile> file;  // the first that opened
  std::string opened_as;           // the name under which it did
  bool kills = false;              // the last of `failed` would kill or stop who loads it
  int version = 0;                 // 0: the file has none that the release looks up
  const void* table = nullptr;
  std::string name;             // in the table
  bool in_our_library = false;  // recognized by its env plugin's name, which is always there

  [[nodiscard]] bool usable() const { return version != 0; }
  [[nodiscard]] bool ours() const { return usable() && in_our_library; }
};

struct Findings {
  const nccl_abi::Release* release = nullptr;
  FoundPlugin env;
  std::vector<FoundPlugin> nets;  // in the order in which NCCL tries them
  std::optional<size_t> taken;    // the first of them that can be, for all that can be known
  FoundPlugin coll_net;
  FoundPlugin tuner;
  bool tuner_of_net = false;  // no tuner of its own was found, so the net's library was searched
  bool nvswitch = false;      // this machine has one
  // What NCCL reads once its env plugin is there.
  NcclVariables variables;

  [[nodiscard]] const FoundPlugin* net() const { return taken ? &nets[*taken] : nullptr; }
};
// Whether a PCI device of this machine is an NVSwitch. sysfs: "/sys".
[[nodiscard]] bool has_nvswitch(const std::string& sysfs);
[[nodiscard]] Findings find_plugins(const nccl_abi::Release& release,
                                    const NcclVariables& variables,
                                    const OpenPlugin& open);

}  // namespace ho
