// Which versions of each interface each NCCL release looks up, and how it finds the file of a
// plugin, so that a test host or a check can behave like a chosen release.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nccl_abi {

struct Version {
  int major = 0;
  int minor = 0;
  int patch = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

// "2.28.9", with or without what packages append to it: "2.28.9-1", "2.28.9+cuda13.0".
[[nodiscard]] std::optional<Version> parse_version(std::string_view text);

// Which files a release tries for the name NAME in NCCL_<KIND>_PLUGIN. Without a name it tries
// libnccl-KIND.so, but for kVerbatim.
enum class FileNaming {
  kVerbatim,              // NAME; nothing without a name
  kPrefixed,              // libnccl-KIND-NAME.so: no path can be given
  kVerbatimThenPrefixed,  // NAME, then libnccl-KIND-NAME.so
  kVerbatimIfLibrary,     // NAME if it is lib*.so, else libnccl-KIND-NAME.so: no path either
  kPrefixedUnlessFile,    // NAME, then libnccl-KIND-NAME.so unless NAME is a path or lib*.so
};

// Where a tuner is searched for when no file of its own can be opened, whether named or not.
enum class TunerFallback {
  kNone,
  kNetNames,    // the files that would be tried for the net, in that order
  kNetLibrary,  // the net's library
};

struct Release {
  Version first;  // of the releases that this row holds for
  Version last;
  // Versions looked up, newest first; the first that the library has is used. Net and collnet have
  // the same list but are looked up on their own, collnet only in a library that has a net.
  std::span<const int> net;
  std::span<const int> tuner;
  std::span<const int> env;  // empty: has no such plugins
  FileNaming net_naming;
  FileNaming tuner_naming;  // of env plugins too, where there are any
  TunerFallback tuner_fallback;
  bool static_plugin;  // a name that begins "STATIC_PLUGIN", even "s", means the program itself
  bool net_list;       // NCCL_NET_PLUGIN may name several, separated by commas
  bool none;           // "none" loads nothing, not even the tuner of the net's library
  int algorithms;      // in a tuner's table
  int data_types;      // that reduceSupport is called with
};

namespace detail {
inline constexpr std::array kNet7{7, 6, 5};
inline constexpr std::array kNet8{8, 7, 6, 5};
inline constexpr std::array kNet9{9, 8, 7, 6, 5};
inline constexpr std::array kNet10{10, 9, 8, 7, 6};
inline constexpr std::array kNet11{11, 10, 9, 8, 7, 6};
inline constexpr std::array kNet12{12, 11, 10, 9, 8, 7, 6};
inline constexpr std::array kTuner1{1};
inline constexpr std::array kTuner2{2};
inline constexpr std::array kTuner3{3, 2};
inline constexpr std::array kTuner4{4, 3, 2};
inline constexpr std::array kTuner5{5, 4, 3, 2};
inline constexpr std::array kTuner6{6, 5, 4, 3, 2};
inline constexpr std::array<int, 0> kNoEnv{};
inline constexpr std::array kEnv1{1};
inline constexpr std::array kEnv2{2, 1};

using enum FileNaming;
using enum TunerFallback;
}  // namespace detail

// Oldest first. Releases between two rows behave, as far as is known, like the older one.
// clang-format off
inline constexpr std::array kReleases = [] {
  using namespace detail;
  return std::array{
    //      first        last         net     tuner    env     files of net and env or tuner                   fallback     static list   none   alg  types
    Release{{2, 19, 0},  {2, 19, 4},  kNet7,  kTuner1, kNoEnv, kPrefixed,             kVerbatim,             kNone,       false, false, false, 6, 10},
    Release{{2, 20, 0},  {2, 20, 5},  kNet8,  kTuner1, kNoEnv, kPrefixed,             kVerbatim,             kNone,       false, false, false, 6, 10},
    Release{{2, 21, 5},  {2, 21, 5},  kNet8,  kTuner2, kNoEnv, kVerbatimThenPrefixed, kVerbatimThenPrefixed, kNetNames,   false, false, false, 6, 10},
    Release{{2, 22, 3},  {2, 22, 3},  kNet8,  kTuner3, kNoEnv, kVerbatimThenPrefixed, kVerbatimThenPrefixed, kNetNames,   true,  false, false, 6, 10},
    Release{{2, 23, 4},  {2, 23, 4},  kNet8,  kTuner3, kNoEnv, kVerbatimThenPrefixed, kVerbatimThenPrefixed, kNetNames,   true,  false, false, 7, 10},
    Release{{2, 24, 3},  {2, 25, 1},  kNet9,  kTuner4, kNoEnv, kVerbatimThenPrefixed, kVerbatimThenPrefixed, kNetNames,   true,  false, false, 7, 12},
    Release{{2, 26, 0},  {2, 26, 6},  kNet10, kTuner4, kNoEnv, kVerbatimThenPrefixed, kVerbatimThenPrefixed, kNetLibrary, true,  false, false, 7, 12},
    Release{{2, 27, 0},  {2, 27, 3},  kNet10, kTuner4, kNoEnv, kVerbatimIfLibrary,    kVerbatimIfLibrary,    kNetLibrary, true,  true,  false, 7, 12},
    Release{{2, 27, 5},  {2, 27, 7},  kNet10, kTuner4, kNoEnv, kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  false, 7, 12},
    Release{{2, 28, 3},  {2, 28, 3},  kNet11, kTuner5, kNoEnv, kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  true,  7, 12},
    Release{{2, 28, 7},  {2, 28, 9},  kNet11, kTuner5, kEnv1,  kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  true,  7, 12},
    Release{{2, 29, 0},  {2, 29, 7},  kNet11, kTuner5, kEnv1,  kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  true,  7, 12},
    Release{{2, 30, 3},  {2, 30, 4},  kNet12, kTuner6, kEnv1,  kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  true,  7, 12},
    Release{{2, 30, 7},  {2, 32, 3},  kNet12, kTuner6, kEnv2,  kPrefixedUnlessFile,   kPrefixedUnlessFile,   kNetLibrary, true,  true,  true,  7, 12},
  };
}();
// clang-format on

// The oldest net tables that the plugin has, forwards to and is driven by. What looks up older ones
// only loads nothing of it.
inline constexpr int kOldestNet = 8;

struct FoundRelease {
  const Release* release;
  bool newer_than_known;  // not examined yet: it may look up more than the row says
};
// Nothing for versions below 2.19, and for texts that are no version of three numbers.
[[nodiscard]] std::optional<FoundRelease> find_release(Version version);
[[nodiscard]] std::optional<FoundRelease> find_release(std::string_view version);

// For messages: "2.28.7 to 2.28.9", and the rows that look up a net of that version or a later one,
// "2.20.0 to 2.20.5, 2.21.5, ...".
[[nodiscard]] std::string release_text(const Release& release);
[[nodiscard]] std::string releases_text(int least_net);

}  // namespace nccl_abi
