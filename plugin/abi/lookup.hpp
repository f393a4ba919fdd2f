// The files and symbols that a release searches for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "abi/releases.hpp"

namespace nccl_abi {

enum class PluginKind { kNet, kCollNet, kTuner, kEnv };

[[nodiscard]] std::span<const int> versions(const Release& release, PluginKind kind);
[[nodiscard]] std::string symbol(PluginKind kind, int version);  // "ncclNetPlugin_v8"
// The symbols that the release looks up, in its order.
[[nodiscard]] std::vector<std::string> symbols(const Release& release, PluginKind kind);

inline constexpr const char* kMainProgram = "";  // in place of a file: dlopen(nullptr)
inline constexpr size_t kMaxListedNets = 14;

// The files of one plugin, in the order in which they are tried; the first that opens is taken.
using FilesTried = std::vector<std::string>;
// What is tried where NCCL_<KIND>_PLUGIN has this value (null: it is not set), one entry for each
// plugin requested: several where a net list names several, none where nothing is loaded. A file
// without a slash is searched for where the loader searches for libraries. A collnet is in the
// net's file. What follows for a tuner when none of its files opens is Release::tuner_fallback.
[[nodiscard]] std::vector<FilesTried> files_tried(const Release& release,
                                                  PluginKind kind,
                                                  const char* setting);

}  // namespace nccl_abi
