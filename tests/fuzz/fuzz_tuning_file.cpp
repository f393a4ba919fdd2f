// The contents of a tuning file.
#include "core/tuner/tuning_file.hpp"
#include "fuzz.hpp"

namespace {

// A rule as a file would have it.
std::string line_of(const ho::plugin::TuningRule& rule) {
  const auto count = [](const std::optional<uint32_t>& value) {
    return value ? std::to_string(*value) : "*";
  };
  return std::string(rule.collective ? to_string(*rule.collective) : "*") + "," +
         std::to_string(rule.min_bytes) + "," + std::to_string(rule.max_bytes) + "," +
         count(rule.nodes) + "," + count(rule.ranks_per_node) + "," +
         std::string(to_string(rule.choice)) + "\n";
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ho::plugin;
  const auto file = TuningFile::parse(fuzz::text(data, size), "file");
  if (!file.ok()) {
    const ho::Status status = file.status();
    const std::string& message = status.message();
    fuzz::require(message.starts_with("file:") && message.size() < 400);
    fuzz::require(message.find_first_of(std::string_view("\0\n\x1b", 3)) == std::string::npos);
    return 0;
  }
  std::string text;
  for (const TuningRule& rule : file->rules()) {
    fuzz::require(rule.min_bytes <= rule.max_bytes);
    text += line_of(rule);
  }
  const auto again = TuningFile::parse(text, "file");
  fuzz::require(again.ok() && again->digest() == file->digest());
  return 0;
}
