// `horing env`: the table of environment variables, with the values in effect here; with --markdown
// the page docs/reference/environment.md.
#include "cli/host/env_command.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <regex>
#include <string>
#include <string_view>

#include "base/env.hpp"
#include "base/escaped.hpp"

namespace ho {
namespace {

std::string value_text(const env::Variable& variable) {
  const std::optional<std::string> value = env::text_if_set(variable);
  if (!value.has_value()) {
    return variable.default_value.empty() ? "(unset)" : std::string(variable.default_value);
  }
  // The job's secret stays one.
  return variable.name == env::kJobKey.name ? "(set)" : escaped(*value);
}

void print_markdown() {
  std::puts("# Environment variables\n");
  std::puts(
      "Written by `horing env --markdown` from the one table that the library reads\n"
      "(src/base/env.hpp); a test keeps this page equal to it. `horing env` prints the values in\n"
      "effect. \"All ranks\" means that a job refuses to start when ranks have different "
      "values.\nA number outside what its variable takes is an error when a communicator is "
      "made.\nA variable that is set to nothing counts as not set, but for HORING_JOB_KEY, where "
      "it is an "
      "error.\n\n"
      "The NCCL plugin's builtin network also honours a communicator's trafficClass "
      "(ncclConfig_t,\nNCCL 2.26 and later; 0 to 255): it becomes IP's TOS byte, or IPv6's traffic "
      "class, of that\ncommunicator's connections.\n\n"
      "The Python packages take their libraries from where they are installed, or from files that "
      "two more\nvariables name, as a build folder has them: HORING_LIBRARY a libhoring.so.0, and "
      "PARO_LIBRARY the\nlibparo.so.0 of the same build. A file that is missing or of another "
      "version is an ImportError.\n");
  std::puts("| variable | default | takes | all ranks | meaning |\n|---|---|---|---|---|");
  const std::regex bar("\\|");
  for (const env::Variable& variable : env::all()) {
    const std::string default_value =
        variable.default_value.empty() ? "" : "`" + std::string(variable.default_value) + "`";
    std::printf("| `%s` | %s | %s | %s | %s |\n",
                std::string(variable.name).c_str(),
                default_value.c_str(),
                env::takes(variable).c_str(),
                variable.must_match ? "yes" : "",
                std::regex_replace(std::string(variable.meaning), bar, "\\|").c_str());
  }
}

void print_table() {
  for (const env::Variable& variable : env::all()) {
    const std::string_view default_value =
        variable.default_value.empty() ? "unset" : variable.default_value;
    const std::string takes = env::takes(variable);
    std::printf("%s = %s\n    default %s%s%s\n    %s\n",
                std::string(variable.name).c_str(),
                value_text(variable).c_str(),
                std::string(default_value).c_str(),
                takes.empty() ? "" : ("; takes " + takes).c_str(),
                variable.must_match ? "; the same on all ranks" : "",
                std::string(variable.meaning).c_str());
    const Status status = env::check_value(variable);
    if (!status.ok()) {
      std::printf("    BAD VALUE: %s\n", message_text(status.message()).c_str());
    }
  }
}

// A misspelt name does nothing, and nothing else reports it.
void print_unknown(std::string_view prefix, std::string_view what) {
  constexpr std::array kOfPython{"HORING_LIBRARY", "PARO_LIBRARY"};
  for (const std::string& name : env::unknown_names(prefix)) {
    if (std::ranges::count(kOfPython, name) == 0) {
      std::printf("%s is set%s\n", escaped(name).c_str(), std::string(what).c_str());
    }
  }
}

}  // namespace

int env_command(int argc, const char* const* argv) {
  const std::string_view option = argc == 2 ? argv[1] : "";
  if (option == "--markdown") {
    print_markdown();
    return 0;
  }
  if (argc == 1) {
    print_table();
    print_unknown("HORING_", " and is no variable of libhoring: misspelt?");
    print_unknown("PARO_", "; libparo reads no variables");
    return 0;
  }
  const bool help = option == "--help" || option == "-h";
  std::fputs("usage: horing env [--markdown]\n", help ? stdout : stderr);
  return help ? 0 : 2;
}

}  // namespace ho
