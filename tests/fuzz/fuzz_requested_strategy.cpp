// The file by which somebody outside a job asks for another strategy.
#include "fuzz.hpp"
#include "steering/requested_strategy.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paro::steering;
  const auto request = parse_requested_strategy(fuzz::text(data, size));
  if (!request.ok()) {
    const ho::Status status = request.status();
    const std::string& message = status.message();
    fuzz::require(message.starts_with("line ") && message.size() < 400);
    fuzz::require(message.find_first_of(std::string_view("\0\n\x1b", 3)) == std::string::npos);
    return 0;
  }
  fuzz::require(request->strategy || request->budget_bytes);
  std::string text;
  if (request->strategy) {
    text += std::string(paro::letters(*request->strategy)) + "\n";
  }
  if (request->budget_bytes) {
    text += "budget=" + std::to_string(*request->budget_bytes) + "\n";
  }
  const auto again = parse_requested_strategy(text);
  fuzz::require(again.ok() && again->strategy == request->strategy &&
                again->budget_bytes == request->budget_bytes);
  return 0;
}
