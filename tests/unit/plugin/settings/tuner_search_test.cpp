// Which tuner NCCL takes, by its release, NCCL_TUNER_PLUGIN and what the loader finds.
#include "adapter/tuner_search.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"

using ho::plugin::open_tuner;
using ho::plugin::own_library_path;
using ho::plugin::release_of;
using ho::plugin::tuner_search;
using ho::plugin::tuner_taken;

namespace {

// This program stands for the plugin, any other file for another plugin.
constexpr const char* kOther = "/etc/hostname";
constexpr const char* kNoTuner = "";

// What the loader finds, beside our own file.
using Files = std::map<std::string, std::string>;

std::string taken(const std::string& release,
                  const std::optional<std::string>& setting,
                  const Files& files = {}) {
  const std::string own = own_library_path();
  const auto open = [&](const std::string& file,
                        const std::vector<std::string>& symbols) -> std::optional<std::string> {
    if (file == own) {
      return symbols.back() == "ncclTunerPlugin_v1" ? "" : own;
    }
    const auto found = files.find(file);
    return found == files.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  const auto row = nccl_abi::find_release(release);
  REQUIRE(row);
  return tuner_taken(tuner_search(*row->release, setting), open, own);
}

}  // namespace

TEST_CASE("the tuner that NCCL takes is found where nothing or a file is named") {
  const Files usual{{"libnccl-tuner.so", kOther}};
  const Files horing{{"libnccl-tuner-horing.so", own_library_path()}};
  for (const char* release : {"2.21.5", "2.22.3", "2.26.2", "2.27.7", "2.28.9", "2.30.7"}) {
    INFO(release);
    CHECK(taken(release, std::nullopt) == "ours");  // of the network's library
    CHECK(taken(release, std::nullopt, usual) == "another (hostname)");
    CHECK(taken(release, "", usual) == "another (hostname)");
    CHECK(taken(release, "horing", horing) == "ours");
    CHECK(taken(release, "horing", {{"libnccl-tuner-horing.so", kOther}}) == "another (hostname)");
    CHECK(taken(release, "libnowhere.so") == "ours");
    CHECK(taken(release, own_library_path()) == "ours");
    // A library without a tuner ends the search.
    CHECK(taken(release, "libother.so", {{"libother.so", kNoTuner}}) == "none");
  }
}

TEST_CASE("none is a name like any other before NCCL 2.28.3") {
  CHECK(taken("2.27.7", "none") == "ours");
  CHECK(taken("2.27.7", "none", {{"libnccl-tuner-none.so", kOther}}) == "another (hostname)");
  CHECK(taken("2.28.3", "none") == "none");
  CHECK(taken("2.30.7", "None") == "none");
}

TEST_CASE("a name that begins STATIC_PLUGIN means the program itself from NCCL 2.22 on") {
  for (const char* setting : {"s", "STATIC", "static_plugin"}) {
    INFO(setting);
    CHECK(taken("2.21.5", setting) == "ours");
    for (const char* release : {"2.22.3", "2.26.2", "2.27.7", "2.28.9", "2.30.7"}) {
      INFO(release);
      CHECK(taken(release, setting, {{"", kNoTuner}}) == "none");
      CHECK(taken(release, setting, {{"", kOther}}) == "another (hostname)");
      // Loaded before the program, say.
      CHECK(taken(release, setting, {{"", own_library_path()}}) == "ours");
    }
    CHECK(taken("2.27.3", setting, {{"", kNoTuner}}) == "ours");  // libnccl-tuner-s.so there
  }
  CHECK(taken("2.30.7", "strange", {{"", kNoTuner}}) == "ours");  // no beginning of it
}

TEST_CASE("NCCL 2.20 knows no tuner of ours") {
  CHECK(taken("2.20.5", std::nullopt) == "none");
  CHECK(taken("2.20.5", own_library_path()) == "none");
}

TEST_CASE("the loader tells who has a tuner") {
  CHECK_FALSE(open_tuner("libsurely-nothing.so", {"ncclTunerPlugin_v5"}));
  CHECK(open_tuner("", {"ncclTunerPlugin_v5"}) == "");
  const auto found = open_tuner("libc.so.6", {"ncclTunerPlugin_v5", "malloc"});
  REQUIRE(found);
  CHECK(found->find("libc") != std::string::npos);
}

TEST_CASE("without NCCL's own word its release is the newest that takes the interface") {
  const auto row = [](const char* interface) { return release_of(nullptr, interface).last; };
  CHECK(row("net v8") == nccl_abi::Version{2, 23, 4});
  CHECK(row("collnet v10") == nccl_abi::Version{2, 27, 7});
  CHECK(row("net v11") == nccl_abi::Version{2, 29, 7});
  CHECK(row("net v12") == nccl_abi::Version{2, 32, 3});
  CHECK(row("net") == nccl_abi::Version{2, 32, 3});
  // A program does not say either.
  const auto* const code = reinterpret_cast<const void*>(&own_library_path);
  CHECK(release_of(code, "net v9").last == nccl_abi::Version{2, 25, 1});
}
