#include "horing/plugin_check_command.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/env.hpp"
#include "horing/plugin_report.hpp"
#include "subcommands/exit_status.hpp"

namespace ho {
namespace {

constexpr int kProblems = 1;

struct PluginCheckOptions {
  std::string library;
  std::string nccl;
  bool json = false;
};

struct Judged {
  const nccl_abi::Release* release = nullptr;
  std::string text;
};

// The library beside this program, where it was built or installed; "" where there is none.
std::string own_library() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* const folder : {"../plugin", "../" HORING_LIBDIR}) {
    const auto file = std::filesystem::weakly_canonical(
        program.parent_path() / folder / "libnccl-net-horing.so", error);
    if (!error && std::filesystem::exists(file, error)) {
      return file.string();
    }
  }
  return "";
}

// Of the NCCL that the loader finds: "2.28.9".
std::optional<std::string> installed_nccl() {
  void* const nccl = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  auto* const get_version =
      nccl == nullptr ? nullptr : reinterpret_cast<int (*)(int*)>(::dlsym(nccl, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0 || version < 20000) {
    return std::nullopt;  // before 2.9 the number meant something else
  }
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<Judged> judge(const std::string& wanted) {
  const auto installed = wanted.empty() ? installed_nccl() : std::nullopt;
  const std::string version = wanted.empty() ? installed.value_or("") : wanted;
  if (version.empty()) {
    const nccl_abi::Release& newest = nccl_abi::kReleases.back();
    return Judged{&newest,
                  "judged for NCCL " + release_text(newest) +
                      ": the loader finds no libnccl.so.2; --nccl names another"};
  }
  const auto found = nccl_abi::find_release(version);
  if (!found) {
    return Status(StatusCode::kInvalidArgument,
                  "NCCL " + version + ": takes a version like 2.28.9, from 2.19.0 on");
  }
  return Judged{
      found->release,
      "judged for NCCL " + version + (installed ? " (libnccl.so.2, as the loader finds it)" : "") +
          (found->newer_than_known ? ", which is newer than any that is known here" : "")};
}

// With --library that file is named wherever NCCL is told of a plugin.
NcclVariables with_library(const std::string& library) {
  return [library, usual = nccl_variables()](const std::string& name) {
    const bool names = name == "NCCL_NET_PLUGIN" || name == "NCCL_TUNER_PLUGIN";
    return !library.empty() && names ? std::optional<std::string>(library) : usual(name);
  };
}

PluginReport make_report(const PluginCheckOptions& options, const Judged& judged) {
  const NcclVariables variables = with_library(options.library);
  const OpenPlugin open = system_loader();
  PluginReport report;
  report.judged = judged.text;
  for (const nccl_abi::Release& release : nccl_abi::kReleases) {
    report.releases.push_back(find_plugins(release, variables, open));
  }
  report.findings = find_plugins(*judged.release, variables, open);
  const Findings& findings = report.findings;
  report.problems =
      plugin_problems(findings, options.library.empty() ? own_library() : options.library);
  report.remarks = plugin_remarks(findings);
  if (findings.net() != nullptr && findings.net()->ours()) {
    report.probed = probe_plugin(findings);
    for (PluginProblem& problem : problems_of_probe(findings, report.probed)) {
      report.problems.push_back(std::move(problem));
    }
  }
  return report;
}

// The exit status where the command line ends the program.
std::optional<int> parse(int argc, const char* const* argv, PluginCheckOptions& options) {
  CLI::App app(
      "Loads the NCCL plugin as NCCL would in this environment, prints what each release of NCCL "
      "finds, which network devices the plugin has and why, and what is wrong.",
      "horing plugin-check");
  app.add_option("--library",
                 options.library,
                 "this file, as if NCCL_NET_PLUGIN and NCCL_TUNER_PLUGIN named it");
  app.add_option("--nccl",
                 options.nccl,
                 "the release to judge for, such as 2.28.9 (default: the installed libnccl.so.2)");
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return std::nullopt;
}

}  // namespace

int plugin_check_command(int argc, const char* const* argv) {
  PluginCheckOptions options;
  if (const auto status = parse(argc, argv, options)) {
    return *status;
  }
  const auto judged = judge(options.nccl);
  if (!judged.ok()) {
    std::fprintf(stderr, "horing plugin-check: %s\n", judged.status().message().c_str());
    return kUsageError;
  }
  // What the plugin logs is in the report, so its own lines on stderr would say it twice.
  ::setenv(std::string(env::kLogLevel.name).c_str(), "off", 0);
  const PluginReport report = make_report(options, *judged);
  std::fputs((options.json ? to_json(report) + "\n" : to_text(report)).c_str(), stdout);
  return report.problems.empty() ? 0 : kProblems;
}

}  // namespace ho
