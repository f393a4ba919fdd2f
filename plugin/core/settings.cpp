#include "core/settings.hpp"

#include <dlfcn.h>
#include <link.h>
#include <strings.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace ho::plugin {

const char* NcclSettings::value_of(const char* name) const {
  if (const char* const set = std::getenv(name)) {
    return set;
  }
  const std::string_view wanted(name);
  if (!library_.empty() && (wanted == "NCCL_NET_PLUGIN" || wanted == "NCCL_TUNER_PLUGIN")) {
    return library_.c_str();
  }
  // NCCL 2.28 and 2.29 forget a plugin's name when its last communicator goes, and would go on
  // without it: so it is never given back.
  if (wanted == "NCCL_COLLNET_ENABLE" || wanted == "NCCL_NET_PLUGIN_REF_COUNT") {
    return "1";
  }
  return nullptr;
}

std::string absolute_file(const char* loaded_as) {
  std::string file = loaded_as == nullptr ? "" : loaded_as;
  if (file.empty()) {
    return file;
  }
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(file, error);
  return error ? file : full.lexically_normal().string();
}

std::string tuner_taken(const std::optional<std::string>& setting,
                        const std::function<std::string(const std::string&)>& file_of,
                        const std::string& own) {
  const std::string name = setting.value_or("");
  if (strcasecmp(name.c_str(), "none") == 0) {
    return "none";
  }
  std::vector<std::string> tried{name.empty() ? "libnccl-tuner.so" : name};
  if (!name.empty()) {
    tried.push_back("libnccl-tuner-" + name + ".so");
  }
  for (const std::string& each : tried) {
    const std::string file = file_of(each);
    std::error_code error;
    if (!file.empty() && !std::filesystem::equivalent(file, own, error)) {
      return "another (" + std::filesystem::path(file).filename().string() + ")";
    }
    if (!file.empty()) {
      break;
    }
  }
  return "ours";
}

std::string file_opened_by(const std::string& name) {
  // Stays open, as NCCL keeps it.
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  link_map* map = nullptr;
  if (library == nullptr || ::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) {
    return "";
  }
  return map->l_name;
}

std::string own_library_path() {
  Dl_info where{};
  const auto* const here = reinterpret_cast<const void*>(&own_library_path);
  return absolute_file(::dladdr(here, &where) != 0 ? where.dli_fname : nullptr);
}

}  // namespace ho::plugin
