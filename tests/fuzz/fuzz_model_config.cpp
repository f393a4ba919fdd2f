// A model's config.json, from whoever published the model.
#include "fuzz.hpp"
#include "model/config.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = paro::parse_config(fuzz::text(data, size), "config.json");
  if (!model.ok()) {
    const ho::Status status = model.status();
    const std::string& message = status.message();
    fuzz::require(message.starts_with("config.json: ") && message.size() < 1000);
    fuzz::require(message.find_first_of(std::string_view("\0\n\x1b", 3)) == std::string::npos);
    return 0;
  }
  const paro::ModelParameters parameters = paro::parameters_of(*model);
  fuzz::require(parameters.total >= 1 && parameters.total <= paro::kMaxModelParameters);
  fuzz::require(parameters.active >= 0 && parameters.active <= parameters.total);
  fuzz::require(!model->layers.empty());
  return 0;
}
