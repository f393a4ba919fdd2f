#include "planner/text/model_spec.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/near_names.hpp"
#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "model/config.hpp"
#include "model/known_models.hpp"
#include "planner/request.hpp"

namespace paro {
namespace {

// As many parameters as they are called after, not as they have.
struct RoundModel {
  std::string_view name;
  double parameters;
  uint32_t sequence;
};
constexpr std::array kRound{
    RoundModel{"llama-7b", 7e9, 2048},
    RoundModel{"llama-65b", 65e9, 2048},
};

ho::Status refused(const ModelSpec& spec, std::string_view problem) {
  return ho::invalid(fmt::format(
      "{} {}: {}; takes a name (paro plan --names), a Hugging Face config.json, or a list as "
      "params=7e9,trainable=4e8,adapters=4e7,layers=32,sequence=2048,shared=1e8,sharing=1",
      spec.named("model"),
      spec.text,
      problem));
}

void set_shape(ModelSpec& spec, const Transformer& model) {
  spec.size = {parameters_of(model).total, 0};
  spec.layers = static_cast<uint32_t>(model.layers.size());
  spec.size.shared = model.tied ? model.vocabulary * model.hidden : 0;
  spec.shape = model;
}

// Of an organisation's model on the Hugging Face hub, known ones that its name is near to.
std::string near_models(std::string_view path) {
  const auto near = ho::near_names(path.substr(path.rfind('/') + 1), known_models());
  return near.empty() ? std::string() : fmt::format("; near it: {}", fmt::join(near, ", "));
}

ho::Status read_config(ModelSpec& spec, const std::string& path) {
  constexpr size_t kMaxConfigBytes = size_t{1} << 20U;
  const auto text = ho::read_text_file(path, kMaxConfigBytes);
  if (!text.ok()) {
    const bool in_folder = path.size() > spec.text.size();
    return refused(spec,
                   fmt::format("{}cannot be read ({}){}",
                               in_folder ? "its config.json " : "",
                               text.status().message(),
                               in_folder ? "" : near_models(path)));
  }
  HORING_ASSIGN(const Transformer model, parse_config(*text, path, spec.named));
  set_shape(spec, model);
  return {};
}

ho::Status set(ModelSpec& spec, std::string_view key, std::string_view value) {
  const std::string what = spec.named("model") + " " + std::string(key);
  const bool of_shapes = key == "params" || key == "layers" || key == "shared" || key == "sharing";
  if (of_shapes && spec.shape && !spec.is_round) {
    return refused(spec,
                   fmt::format("'{}' beside a model whose shapes say it: leave it out, or give all "
                               "numbers without the model",
                               key));
  }
  if (key == "params") {
    HORING_ASSIGN(spec.size.parameters, ho::parse_count(what, value));
    spec.shape.reset();
  } else if (key == "trainable") {
    HORING_ASSIGN(spec.size.trainable, ho::parse_count(what, value));
  } else if (key == "adapters") {
    HORING_ASSIGN(spec.adapters, ho::parse_count(what, value));
  } else if (key == "layers") {
    HORING_ASSIGN(spec.layers, ho::parse_whole(what, value, 1));
    spec.shape.reset();
  } else if (key == "shared") {
    HORING_ASSIGN(spec.size.shared, ho::parse_count(what, value));
  } else if (key == "sharing") {
    HORING_ASSIGN(spec.sharing_units, ho::parse_whole(what, value, 1));
  } else if (key == "sequence") {
    HORING_ASSIGN(spec.sequence, ho::parse_whole(what, value, 1));
  } else {
    return refused(spec, fmt::format("'{}' is not known", key));
  }
  return {};
}

bool is_folder(std::string_view path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// One piece between commas.
ho::Status take(ModelSpec& spec, std::string_view piece, std::set<std::string_view>& seen) {
  const bool is_file = piece.ends_with(".json");
  const bool is_path = is_file || piece.find('/') != std::string_view::npos;
  const size_t equals = piece.find('=');
  if (!is_path && equals != std::string_view::npos) {
    const std::string_view key = piece.substr(0, equals);
    if (!seen.insert(key).second) {
      return refused(spec, fmt::format("'{}' is given twice", key));
    }
    return set(spec, key, piece.substr(equals + 1));
  }
  if (!seen.empty()) {
    return refused(spec, fmt::format("'{}' is not known here", piece));
  }
  seen.insert(piece);
  const auto shape = known_model(piece);
  // A name that is known goes before a folder of that name.
  if (is_path || (!shape.ok() && is_folder(piece))) {
    return read_config(spec, std::string(piece) + (is_folder(piece) ? "/config.json" : ""));
  }
  if (!shape.ok()) {
    return refused(spec, shape.status().message());
  }
  set_shape(spec, *shape);
  const auto* const round = std::find_if(
      kRound.begin(), kRound.end(), [&](const RoundModel& model) { return model.name == piece; });
  if (round != kRound.end()) {
    spec.size = {round->parameters, 0};
    spec.sequence = round->sequence;
    spec.is_round = true;
  }
  return {};
}

// Of one unit, as it was given, it becomes that of all units that share it. Trained like the rest.
ho::Status complete_shared(ModelSpec& spec) {
  ModelSize& size = spec.size;
  if (size.shared == 0) {
    return spec.sharing_units == 0 ? ho::Status()
                                   : refused(spec, "sharing takes shared= beside it");
  }
  if (size.shared > size.parameters) {
    return refused(spec, "more parameters are shared than there are");
  }
  spec.sharing_units = std::max(spec.sharing_units, 1U);
  size.shared *= spec.sharing_units;
  size.shared_trainable = size.shared * (size.trainable / size.parameters);
  return {};
}

// The request has them too, but not the option.
ho::Status check_limits(const ModelSpec& spec) {
  const auto refused_as = [&](const std::string& problem) {
    return ho::invalid(fmt::format("{} {}: {}", spec.named("model"), spec.text, problem));
  };
  const ModelSize& size = spec.size;
  if (size.parameters < 1 || size.parameters > kMaxParameters) {
    return refused_as(fmt::format("takes 1 to {} parameters", kMaxParameters));
  }
  if (spec.layers > kMaxLayers || spec.sharing_units > kMaxLayers) {
    return refused_as(fmt::format("takes 1 to {} layers, and units that share", kMaxLayers));
  }
  if (size.trainable > size.parameters) {
    return refused_as(fmt::format("trainable is more than the {} parameters", size.parameters));
  }
  return size.trainable < 1 ? refused_as("trainable takes a number from 1 on") : ho::Status();
}

}  // namespace

ho::Result<ModelSpec> parse_model(std::string_view text, const ho::OptionNames& named) {
  ModelSpec spec;
  spec.text = text;
  spec.named = named;
  std::set<std::string_view> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    HORING_TRY(take(spec, text.substr(begin, end - begin), seen));
    begin = end + 1;
  }
  if (spec.size.parameters == 0) {
    return refused(spec, "params is missing");
  }
  if (spec.layers == 0) {
    return refused(spec, "layers is missing");
  }
  if (spec.adapters > 0) {
    if (spec.size.trainable > 0) {
      return refused(spec, "adapters beside trainable, which they are");
    }
    spec.size.trainable = spec.adapters;
    spec.size.parameters += spec.adapters;
  }
  if (spec.size.trainable == 0) {
    spec.size.trainable = spec.size.parameters;
  }
  HORING_TRY(check_limits(spec));
  HORING_TRY(complete_shared(spec));
  return spec;
}

}  // namespace paro
