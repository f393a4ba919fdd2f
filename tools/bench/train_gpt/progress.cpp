#include "bench/train_gpt/progress.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/escaped.hpp"
#include "cli/subcommands/output_file.hpp"

namespace paro::gpt {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kNextLine{3};

std::string json_of(const StepLine& line) {
  return nlohmann::ordered_json{{"step", line.step},
                                {"loss", line.loss},
                                {"norm", line.norm},
                                {"applied", line.applied},
                                {"strategy", line.strategy},
                                {"step_s", line.seconds},
                                {"compute_s", line.compute_s},
                                {"exposed_s", line.exposed_s},
                                {"tokens", line.tokens},
                                {"tokens_per_s", line.tokens_per_s()}}
      .dump();
}

// Of a line of ours its step.
std::optional<uint64_t> step_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool ours = json.is_object() && json.contains("loss") && json.contains("tokens_per_s") &&
                    json.contains("step") && json["step"].is_number_unsigned();
  return ours ? std::optional(json["step"].get<uint64_t>()) : std::nullopt;
}

// Where it is not open errno has the reason.
std::ofstream opened(const std::string& name, std::ios::openmode mode) {
  if (!ho::written_in_place(name)) {
    // Opened without following a link; the stream opens what that is.
    const auto file = ho::open_log_file(name);
    return file.ok() ? std::ofstream("/proc/self/fd/" + std::to_string(file->get()), mode)
                     : std::ofstream();
  }
  const ho::OpenBeside beside(name);
  errno = beside.nobody_reads() ? ENXIO : 0;
  return beside.nobody_reads() ? std::ofstream() : std::ofstream(name, mode);
}

std::string unwritable(const std::string& name) {
  const std::string why = !ho::written_in_place(name) ? ho::check_replaceable(name).message()
                          : errno == ENXIO            ? "no process reads from it"
                                                      : std::strerror(errno);
  return "--json " + ho::escaped(name) + ": cannot be written (" + why + ")";
}

}  // namespace

Progress::Progress(std::string json, uint64_t last_step, std::optional<uint64_t> resumed_after)
    : json_name_(std::move(json)), last_step_(last_step), terminal_(::isatty(STDERR_FILENO) == 1) {
  if (!json_name_.empty()) {
    if (resumed_after) {
      keep_up_to(*resumed_after);
    }
    json_ = opened(json_name_, resumed_after ? std::ios::app : std::ios::trunc);
    error_ = json_.is_open() ? "" : unwritable(json_name_);
  }
}

// Of a training that went further than its last checkpoint the rest is done again. Lines that are
// not ours stay. The file is replaced at once: a kill loses none of it.
void Progress::keep_up_to(uint64_t step) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(json_name_, ignored)) {
    return;
  }
  std::string kept;
  bool changed = false;
  std::ifstream file(json_name_);
  for (std::string text; std::getline(file, text);) {
    changed = changed || file.eof();  // a last line that was cut gets its end
    if (step_of(text).value_or(0) > step) {
      changed = true;
      continue;
    }
    kept += text + "\n";
  }
  if (changed) {
    // What cannot be replaced stays, and the new lines follow it.
    static_cast<void>(ho::replace_file(json_name_, kept).ok());
  }
}

void Progress::add(const StepLine& line) {
  if (json_.is_open()) {
    json_ << json_of(line) << std::endl;  // to be followed while it trains
  }
  show(line, line.step == last_step_);
}

// One line that changes on a terminal; elsewhere a line now and then.
void Progress::show(const StepLine& line, bool last) {
  const auto now = Clock::now();
  if (!last && drawn_ != Clock::time_point() &&
      now - drawn_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kNextLine))) {
    return;
  }
  drawn_ = now;
  const char* const end = terminal_ && !last ? "" : "\n";
  std::fprintf(
      stderr,
      "%sstep %llu/%llu  loss %.4f  %.0f tokens/s  exposed communication %.1f ms (%.0f %%)%s%s",
      terminal_ ? "\r\x1b[K" : "",
      static_cast<unsigned long long>(line.step),
      static_cast<unsigned long long>(last_step_),
      line.loss,
      line.tokens_per_s(),
      line.exposed_s * 1e3,
      line.seconds > 0 ? line.exposed_s / line.seconds * 100 : 0.0,
      line.applied ? "" : "  left out: a gradient is not finite",
      end);
}

std::string Progress::finish() {
  errno = 0;
  if (json_.is_open()) {
    json_.close();
    if (!json_) {
      return unwritable(json_name_);
    }
  }
  return {};
}

}  // namespace paro::gpt
