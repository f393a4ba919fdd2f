#include "cli/plugin/plugin_check_command.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "base/env.hpp"
#include "base/escaped.hpp"
#include "cli/plugin/plugin_report.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "cli/subcommands/own_plugin.hpp"
#include "os/shared_library.hpp"

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

// Of the NCCL that the loader finds: "2.28.9". "" where there is none.
Result<std::string> installed_nccl() {
  const Result<void*> nccl = load_library("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!nccl.ok()) {
    const bool kills = nccl.status().code() == StatusCode::kInvalidArgument;
    return kills ? Result<std::string>(nccl.status()) : Result<std::string>("");
  }
  auto* const get_version = reinterpret_cast<int (*)(int*)>(::dlsym(*nccl, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0 || version < 20000) {
    return std::string();  // before 2.9 the number meant something else
  }
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<Judged> judge(const std::string& wanted) {
  const bool installed = wanted.empty();
  HORING_ASSIGN(const std::string version,
                installed ? installed_nccl() : Result<std::string>(wanted));
  if (version.empty()) {
    const nccl_abi::Release& newest = nccl_abi::kReleases.back();
    return Judged{&newest,
                  "judged for NCCL " + release_text(newest) +
                      ": the loader finds no libnccl.so.2; --nccl names another"};
  }
  const auto found = nccl_abi::find_release(version);
  if (!found) {
    return invalid("NCCL " + version + ": takes a version like 2.28.9, from 2.19.0 on");
  }
  return Judged{
      found->release,
      "judged for NCCL " + version + (installed ? " (libnccl.so.2, as the loader finds it)" : "") +
          (found->newer_than_known ? ", which is newer than any that is known here" : "")};
}

// With --library that file stands wherever a setting names a plugin to NCCL.
NcclVariables with_library(const std::string& library, const NcclVariables& usual) {
  return [library, usual](const std::string& name) {
    const bool names = name == "NCCL_NET_PLUGIN" || name == "NCCL_TUNER_PLUGIN";
    return !library.empty() && names ? std::optional<std::string>(library) : usual(name);
  };
}

// --library may be a file that nothing can load.
std::string file_to_advise(const std::string& library, const OpenPlugin& open) {
  return !library.empty() && open(library).ok() ? library : own_plugin(HORING_LIBDIR);
}

PluginReport make_report(const PluginCheckOptions& options, const Judged& judged) {
  const NcclEnvironment environment = nccl_environment();
  const NcclVariables variables = with_library(options.library, environment.variables);
  const OpenPlugin open = system_loader();
  PluginReport report;
  report.judged = judged.text;
  for (const std::string& file : environment.unread_files) {
    report.problems.push_back({"NCCL takes no settings from " + file,
                               "make it a text file of NAME=VALUE lines, or make sure that "
                               "NCCL_CONF_FILE does not name it"});
  }
  for (const nccl_abi::Release& release : nccl_abi::kReleases) {
    report.releases.push_back(find_plugins(release, variables, open));
  }
  report.findings = find_plugins(*judged.release, variables, open);
  report.findings.nvswitch = has_nvswitch("/sys");
  const Findings& findings = report.findings;
  const std::string own = file_to_advise(options.library, open);
  for (PluginProblem& problem : plugin_problems(findings, own)) {
    report.problems.push_back(std::move(problem));
  }
  report.remarks = plugin_remarks(findings);
  if (own.empty() && findings.net() == nullptr) {
    report.remarks.emplace_back(
        "there is no libnccl-net-horing.so beside this program; `ninja -C build "
        "plugin/libnccl-net-horing.so` builds it");
  }
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
  if (app.count("--library") > 0 && options.library.empty()) {
    std::fprintf(stderr, "horing plugin-check: --library '': takes the path of a file\n");
    return kUsageError;
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
    std::fprintf(
        stderr, "horing plugin-check: %s\n", message_text(judged.status().message()).c_str());
    return kUsageError;
  }
  // What the plugin logs is in the report, so its own lines on stderr would repeat it.
  ::setenv(std::string(env::kLogLevel.name).c_str(), "off", 0);
  const PluginReport report = make_report(options, *judged);
  std::fputs((options.json ? to_json(report) + "\n" : to_string(report)).c_str(), stdout);
  return report.problems.empty() ? 0 : kProblems;
}

}  // namespace ho
