#include "cli/plugin/tune_command.hpp"

#include <cstdio>

#include "base/escaped.hpp"
#include "cli/plugin/tune_options.hpp"
#include "cli/plugin/tune_report.hpp"
#include "core/tuner/tuning_file.hpp"

namespace ho {
namespace {

int fail(const Status& status) {
  std::fprintf(stderr, "horing tune: %s\n", message_text(status.message()).c_str());
  return status.code() == StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace

int tune_command(int argc, const char* const* argv) {
  const auto parsed = parse_tune_options(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  const TuneOptions& options = parsed.options;
  const auto file = options.file.empty() ? Result<plugin::TuningFile>(plugin::TuningFile())
                                         : plugin::TuningFile::load(options.file);
  if (!file.ok()) {
    return fail(file.status());
  }
  const auto report = tune_report(options, *file);
  if (!report.ok()) {
    return fail(report.status());
  }
  std::fputs((options.json ? to_json(*report) + "\n" : to_string(*report)).c_str(), stdout);
  return 0;
}

}  // namespace ho
