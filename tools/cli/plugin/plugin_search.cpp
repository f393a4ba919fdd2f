#include "cli/plugin/plugin_search.hpp"

#include <dlfcn.h>
#include <link.h>
#include <strings.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "abi/env_v1.hpp"
#include "abi/env_v2.hpp"
#include "base/text_file.hpp"
#include "os/shared_library.hpp"

namespace ho {
namespace {

using nccl_abi::PluginKind;
using nccl_abi::Release;

// Of an environment and its files together.
std::optional<std::string> environment_value(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

using Settings = std::map<std::string, std::string>;

// Values from files read before stay.
void read_settings(const std::string& path, Settings& values, std::vector<std::string>& unread) {
  constexpr size_t kMaxBytes = size_t{1} << 20U;
  const auto text = read_text_file(path, kMaxBytes);
  if (text.ok()) {
    values.merge(parse_nccl_conf(*text));
  } else {
    unread.push_back(path + ": " + text.status().message());
  }
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

// Every version's table begins with its name.
std::string name_in(const void* table) {
  const char* const name = *static_cast<const char* const*>(table);
  return name == nullptr ? "" : name;
}

bool is_our_library(const PluginFile& file) {
  const void* const env = file.symbol(nccl_abi::symbol(PluginKind::kEnv, 1));
  return env != nullptr && name_in(env) == kOurPluginName;
}

void look_up(const Release& release, PluginKind kind, FoundPlugin& found) {
  found.in_our_library = is_our_library(*found.file);
  for (const int version : nccl_abi::versions(release, kind)) {
    const void* const table = found.file->symbol(nccl_abi::symbol(kind, version));
    if (table != nullptr) {
      found.version = version;
      found.table = table;
      found.name = name_in(table);
      return;
    }
  }
}

FoundPlugin find_one(const Release& release,
                     PluginKind kind,
                     const nccl_abi::FilesTried& files,
                     const OpenPlugin& open) {
  FoundPlugin found;
  for (const std::string& file : files) {
    auto opened = open(file);
    if (opened.ok()) {
      found.file = *std::move(opened);
      found.opened_as = file;
      look_up(release, kind, found);
      break;
    }
    found.failed.push_back({file, opened.status().message()});
    if (opened.status().code() == StatusCode::kInvalidArgument) {
      found.kills = true;
      break;
    }
  }
  return found;
}

std::vector<nccl_abi::FilesTried> tried(const Release& release,
                                        PluginKind kind,
                                        const char* variable,
                                        const NcclVariables& variables) {
  const auto setting = variables(variable);
  return files_tried(release, kind, setting ? setting->c_str() : nullptr);
}

// Once there is an env plugin, NCCL uses no other source. Another one than ours is not called here.
NcclVariables variables_of(const FoundPlugin& env, const NcclVariables& variables) {
  if (!env.ours()) {
    return variables;
  }
  const auto ask = env.version == 1 ? static_cast<const nccl_abi::v1::Env*>(env.table)->getEnv
                                    : static_cast<const nccl_abi::v2::Env*>(env.table)->getEnv;
  return [ask, variables](const std::string& name) {
    // NCCL has put its files into the environment before.
    const auto set = variables(name);
    const char* const answer = set ? set->c_str() : ask(name.c_str());
    return answer == nullptr ? std::nullopt : std::optional<std::string>(answer);
  };
}

void find_nets(const NcclVariables& variables, const OpenPlugin& open, Findings& findings) {
  const auto wanted = variables("NCCL_NET");
  for (const auto& files :
       tried(*findings.release, PluginKind::kNet, "NCCL_NET_PLUGIN", variables)) {
    findings.nets.push_back(find_one(*findings.release, PluginKind::kNet, files, open));
    const FoundPlugin& net = findings.nets.back();
    if (net.kills) {
      break;
    }
    const bool named = !wanted || strcasecmp(wanted->c_str(), net.name.c_str()) == 0;
    if (!findings.taken && net.usable() && named) {
      findings.taken = findings.nets.size() - 1;
    }
  }
}

bool is_none(const Release& release, const std::optional<std::string>& setting) {
  return release.none && setting && strcasecmp(setting->c_str(), "none") == 0;
}

void find_tuner(const NcclVariables& variables, const OpenPlugin& open, Findings& findings) {
  const Release& release = *findings.release;
  for (const auto& files : tried(release, PluginKind::kTuner, "NCCL_TUNER_PLUGIN", variables)) {
    findings.tuner = find_one(release, PluginKind::kTuner, files, open);
  }
  if (findings.tuner.file || findings.tuner.kills ||
      is_none(release, variables("NCCL_TUNER_PLUGIN"))) {
    return;
  }
  if (release.tuner_fallback == nccl_abi::TunerFallback::kNetNames) {
    for (const auto& files : tried(release, PluginKind::kNet, "NCCL_NET_PLUGIN", variables)) {
      FoundPlugin found = find_one(release, PluginKind::kTuner, files, open);
      findings.tuner_of_net = found.file.has_value();
      findings.tuner = findings.tuner_of_net ? std::move(found) : std::move(findings.tuner);
    }
  } else if (release.tuner_fallback == nccl_abi::TunerFallback::kNetLibrary && findings.net()) {
    findings.tuner_of_net = true;
    findings.tuner.file = findings.net()->file;
    findings.tuner.opened_as = findings.net()->opened_as;
    look_up(release, PluginKind::kTuner, findings.tuner);
  }
}

}  // namespace

std::map<std::string, std::string> parse_nccl_conf(std::string_view text) {
  std::map<std::string, std::string> values;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string_view::npos) {
      values.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return values;
}

NcclEnvironment nccl_environment() {
  const std::string named = environment_value("NCCL_CONF_FILE").value_or("");
  const std::string own = environment_value("HOME").value_or("") + "/.nccl.conf";
  NcclEnvironment environment;
  Settings values;
  if (!named.empty()) {
    read_settings(named, values, environment.unread_files);
  } else if (exists(own)) {
    read_settings(own, values, environment.unread_files);
  }
  if (const char* const of_host = "/etc/nccl.conf"; exists(of_host)) {
    read_settings(of_host, values, environment.unread_files);
  }
  environment.variables = [values](const std::string& name) -> std::optional<std::string> {
    if (auto set = environment_value(name)) {
      return set;
    }
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  return environment;
}

OpenPlugin system_loader() {
  return [](const std::string& file) -> Result<PluginFile> {
    HORING_ASSIGN(void* const library, load_library(file, RTLD_NOW | RTLD_LOCAL));
    PluginFile opened;
    link_map* map = nullptr;
    opened.path = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : file;
    // It stays loaded, as NCCL would keep it.
    opened.symbol = [library](const std::string& name) -> const void* {
      return ::dlsym(library, name.c_str());
    };
    return opened;
  };
}

bool has_nvswitch(const std::string& sysfs) {
  constexpr size_t kMaxBytes = 64;
  std::error_code error;
  for (const auto& device :
       std::filesystem::directory_iterator(sysfs + "/bus/pci/devices", error)) {
    const auto vendor = read_text_file(device.path().string() + "/vendor", kMaxBytes);
    const auto kind = read_text_file(device.path().string() + "/class", kMaxBytes);
    // A bridge of NVIDIA's that is of no other kind.
    if (vendor.ok() && kind.ok() && vendor->starts_with("0x10de") && kind->starts_with("0x0680")) {
      return true;
    }
  }
  return false;
}

Findings find_plugins(const Release& release,
                      const NcclVariables& variables,
                      const OpenPlugin& open) {
  Findings findings;
  findings.release = &release;
  for (const auto& files : tried(release, PluginKind::kEnv, "NCCL_ENV_PLUGIN", variables)) {
    findings.env = find_one(release, PluginKind::kEnv, files, open);
  }
  findings.variables = variables_of(findings.env, variables);
  find_nets(findings.variables, open, findings);
  if (const FoundPlugin* const net = findings.net()) {
    findings.coll_net.file = net->file;
    findings.coll_net.opened_as = net->opened_as;
    look_up(release, PluginKind::kCollNet, findings.coll_net);
  }
  find_tuner(findings.variables, open, findings);
  return findings;
}

}  // namespace ho
