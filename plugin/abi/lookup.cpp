#include "abi/lookup.hpp"

#include <strings.h>

#include <array>
#include <string_view>

namespace nccl_abi {
namespace {

struct KindNames {
  std::string_view symbol;  // then the version
  std::string_view file;
};

// By PluginKind.
constexpr std::array kKindNames{KindNames{"ncclNetPlugin_v", "libnccl-net"},
                                KindNames{"ncclCollNetPlugin_v", "libnccl-net"},
                                KindNames{"ncclTunerPlugin_v", "libnccl-tuner"},
                                KindNames{"ncclEnvPlugin_v", "libnccl-env"}};

const KindNames& names_of(PluginKind kind) {
  return kKindNames.at(static_cast<size_t>(kind));
}

bool is_net(PluginKind kind) {
  return kind == PluginKind::kNet || kind == PluginKind::kCollNet;
}

bool is_library_name(std::string_view name) {
  return name.starts_with("lib") && name.ends_with(".so");
}

FilesTried names_to_try(FileNaming naming, PluginKind kind, const std::string& name) {
  const std::string prefixed = std::string(names_of(kind).file) + "-" + name + ".so";
  switch (naming) {
    case FileNaming::kVerbatim:
      return {name};
    case FileNaming::kPrefixed:
      return {prefixed};
    case FileNaming::kVerbatimThenPrefixed:
      return {name, prefixed};
    case FileNaming::kVerbatimIfLibrary:
      return {is_library_name(name) ? name : prefixed};
    case FileNaming::kPrefixedUnlessFile:
      if (is_library_name(name) || name.find('/') != std::string::npos) {
        return {name};
      }
      return {name, prefixed};
  }
  return {};
}

// The program itself can always be opened, so nothing is tried after it.
void replace_static_plugin(FilesTried& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    if (strncasecmp(files[i].c_str(), "STATIC_PLUGIN", files[i].size()) == 0) {
      files[i] = kMainProgram;
      files.resize(i + 1);
      return;
    }
  }
}

std::vector<std::string> listed(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty() && names.size() < kMaxListedNets) {
    const size_t comma = list.find(',');
    if (comma != 0) {
      names.emplace_back(list.substr(0, comma));
    }
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
  }
  return names;
}

}  // namespace

std::span<const int> versions(const Release& release, PluginKind kind) {
  if (is_net(kind)) {
    return release.net;
  }
  return kind == PluginKind::kTuner ? release.tuner : release.env;
}

std::string symbol(PluginKind kind, int version) {
  return std::string(names_of(kind).symbol) + std::to_string(version);
}

std::vector<std::string> symbols(const Release& release, PluginKind kind) {
  std::vector<std::string> names;
  for (const int version : versions(release, kind)) {
    names.push_back(symbol(kind, version));
  }
  return names;
}

std::vector<FilesTried> files_tried(const Release& release, PluginKind kind, const char* setting) {
  if (versions(release, kind).empty()) {
    return {};
  }
  if (setting != nullptr && release.none && strcasecmp(setting, "none") == 0) {
    return {};
  }
  const FileNaming naming = is_net(kind) ? release.net_naming : release.tuner_naming;
  const bool is_list = is_net(kind) && release.net_list;
  std::vector<std::string> names;
  if (setting != nullptr && is_list) {
    names = listed(setting);  // an empty setting is an empty list
  } else if (setting != nullptr && *setting != '\0') {
    names = {setting};
  } else if (naming == FileNaming::kVerbatim) {
    return {};
  } else {
    return {{std::string(names_of(kind).file) + ".so"}};
  }
  std::vector<FilesTried> plugins;
  for (const std::string& name : names) {
    plugins.push_back(names_to_try(naming, kind, name));
    if (release.static_plugin) {
      replace_static_plugin(plugins.back());
    }
  }
  return plugins;
}

}  // namespace nccl_abi
