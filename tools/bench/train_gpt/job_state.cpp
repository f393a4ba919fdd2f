#include "bench/train_gpt/job_state.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace paro::gpt {
namespace {

using Json = nlohmann::json;

struct Number {
  const char* name;  // of the option, without dashes
  uint32_t Shape::*field;
};
constexpr std::array kNumbers{Number{"layers", &Shape::layers},
                              Number{"width", &Shape::width},
                              Number{"heads", &Shape::heads},
                              Number{"context", &Shape::context},
                              Number{"lora-rank", &Shape::lora_rank}};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ",") + word;
  }
  return text;
}

}  // namespace

std::string to_json(const JobState& state) {
  Json json{{"program", "train_gpt"},
            {"seed", state.shape.seed},
            {"freeze", state.shape.freeze},
            {"text_hash", state.text_hash},
            {"windows", state.samples}};
  for (const Number& number : kNumbers) {
    json[number.name] = state.shape.*number.field;
  }
  return json.dump();
}

ho::Result<JobState> parse_job_state(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    JobState state;
    if (json.at("program") != "train_gpt") {
      throw std::invalid_argument("another program's");
    }
    json.at("seed").get_to(state.shape.seed);
    json.at("freeze").get_to(state.shape.freeze);
    json.at("text_hash").get_to(state.text_hash);
    json.at("windows").get_to(state.samples);
    for (const Number& number : kNumbers) {
      json.at(number.name).get_to(state.shape.*number.field);
    }
    return state;
  } catch (const std::exception&) {
    return ho::Status(ho::StatusCode::kMismatch,
                      "--resume: the checkpoint was not saved by train_gpt");
  }
}

Settings settings_of(const Shape& shape) {
  Settings settings;
  for (const Number& number : kNumbers) {
    settings.push_back({number.name, std::to_string(shape.*number.field)});
  }
  settings.push_back({"freeze", joined(shape.freeze)});
  settings.push_back({"seed", std::to_string(shape.seed)});
  return settings;
}

ho::Status check_same_model(const Shape& saved, const Shape& now) {
  const Settings was = settings_of(saved);
  const Settings is = settings_of(now);
  for (size_t i = 0; i < is.size(); ++i) {
    if (was[i].value != is[i].value) {
      return {ho::StatusCode::kMismatch,
              "--resume: the checkpoint is of a model with --" + is[i].name + " '" + was[i].value +
                  "', this one has '" + is[i].value + "': give the same"};
    }
  }
  return {};
}

}  // namespace paro::gpt
