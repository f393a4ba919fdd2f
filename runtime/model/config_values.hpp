// The values of a config.json, which may hold anything. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"

namespace paro {

// Reads on after an error, so that all that is missing is named at once: a value that is not there
// or cannot be is 1 until status() is asked.
class ConfigValues {
 public:
  ConfigValues(nlohmann::json object, std::string name, const ho::OptionNames& named)
      : object_(std::move(object)), name_(std::move(name)), named_(named) {}

  // A whole number from 1 to `most`, by its name or where that is not there by its other one.
  [[nodiscard]] double size(std::string_view key, double most, std::string_view other = {});
  // The same where null, 0 and nothing stand for `otherwise`.
  [[nodiscard]] double size_or(std::string_view key, double otherwise, double most);
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise);
  // A number from 0 to 1 that is above 0.
  [[nodiscard]] bool rate_above_zero_or(std::string_view key, bool otherwise);
  [[nodiscard]] std::string text_or(std::string_view key, std::string otherwise);
  // Whole numbers from 0 on; nothing where the list is.
  [[nodiscard]] std::vector<double> sizes_or_none(std::string_view key);
  [[nodiscard]] std::vector<std::string> texts_or_none(std::string_view key);

  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(std::string(key)); }
  [[nodiscard]] bool has_text(std::string_view key) const {
    return has(key) && object_[std::string(key)].is_string();
  }
  // What stands for a value that is not there, where the file's owner should know.
  void assume(std::string what) { assumed_.push_back(std::move(what)); }
  [[nodiscard]] const std::vector<std::string>& assumed() const { return assumed_; }

  void must(bool holds, const std::string& problem);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const ho::OptionNames& named() const { return named_; }
  // Ok, or the first value that cannot be, or all that are missing.
  [[nodiscard]] ho::Status status() const;

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] double whole(std::string_view key, const nlohmann::json& value, double most);
  double bad(std::string_view key, const nlohmann::json& value, std::string_view takes);

  nlohmann::json object_;
  std::string name_;
  ho::OptionNames named_;
  std::vector<std::string> missing_;
  std::vector<std::string> assumed_;
  std::string problem_;
};

// One JSON object in which no key is given twice, or why the text is none.
[[nodiscard]] ho::Result<nlohmann::json> parse_config_object(std::string_view text,
                                                             std::string_view name);

}  // namespace paro
