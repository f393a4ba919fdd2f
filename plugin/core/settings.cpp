#include "core/settings.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "os/shared_library.hpp"

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

std::string tuner_taken(const TunerSearch& search, const OpenTuner& open, const std::string& own) {
  std::optional<std::string> found;
  for (auto file = search.files.begin(); !found && file != search.files.end(); ++file) {
    found = open(*file, search.symbols);
  }
  if (!found && search.then_network) {
    found = open(own, search.symbols);
  }
  if (!found || found->empty()) {
    return "none";
  }
  std::error_code error;
  return std::filesystem::equivalent(*found, own, error)
             ? "ours"
             : "another (" + std::filesystem::path(*found).filename().string() + ")";
}

std::optional<std::string> open_tuner(const std::string& file,
                                      const std::vector<std::string>& symbols) {
  // Stays open, as NCCL keeps it.
  const Result<void*> library = load_library(file, RTLD_NOW | RTLD_LOCAL);
  if (!library.ok()) {
    return std::nullopt;
  }
  for (const std::string& symbol : symbols) {
    Dl_info where{};
    const void* const tuner = ::dlsym(*library, symbol.c_str());
    if (tuner != nullptr && ::dladdr(tuner, &where) != 0) {
      return absolute_file(where.dli_fname);
    }
  }
  return "";
}

std::string own_library_path() {
  Dl_info where{};
  const auto* const here = reinterpret_cast<const void*>(&own_library_path);
  return absolute_file(::dladdr(here, &where) != 0 ? where.dli_fname : nullptr);
}

}  // namespace ho::plugin
