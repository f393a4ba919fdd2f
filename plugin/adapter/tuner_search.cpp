#include "adapter/tuner_search.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "abi/lookup.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::FoundRelease;
using nccl_abi::kReleases;
using nccl_abi::PluginKind;
using nccl_abi::Release;

// "net v11": 11.
int version_of(const std::string& interface) {
  const size_t at = interface.find_last_not_of("0123456789");
  return std::atoi(interface.c_str() + (at == std::string::npos ? 0 : at + 1));
}

// A library's own answer; nothing for a program, which cannot be opened by its name.
std::optional<FoundRelease> release_of_library(const void* code) {
  constexpr int kMin = 20000;  // before 2.9 the number meant something else
  Dl_info where{};
  if (code == nullptr || ::dladdr(code, &where) == 0 || where.dli_fname == nullptr) {
    return std::nullopt;
  }
  void* const library = ::dlopen(where.dli_fname, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    return std::nullopt;
  }
  auto* const get_version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  int version = 0;
  const bool known = get_version != nullptr && get_version(&version) == 0 && version >= kMin;
  ::dlclose(library);
  return known ? nccl_abi::find_release(
                     nccl_abi::Version{version / 10000, version / 100 % 100, version % 100})
               : std::nullopt;
}

}  // namespace

TunerSearch tuner_search(const Release& release, const std::optional<std::string>& setting) {
  const auto plugins =
      nccl_abi::files_tried(release, PluginKind::kTuner, setting ? setting->c_str() : nullptr);
  TunerSearch search;
  if (!plugins.empty()) {
    search.files = plugins.front();
    search.symbols = nccl_abi::symbols(release, PluginKind::kTuner);
    search.then_network = release.tuner_fallback != nccl_abi::TunerFallback::kNone;
  }
  return search;
}

const Release& release_of(const void* code, const std::string& interface) {
  if (const auto known = release_of_library(code)) {
    return *known->release;
  }
  const int version = version_of(interface);
  const auto newest =
      std::find_if(kReleases.rbegin(), kReleases.rend(), [version](const auto& row) {
        return row.net.front() <= version;
      });
  return newest == kReleases.rend() ? kReleases.back() : *newest;
}

}  // namespace ho::plugin
