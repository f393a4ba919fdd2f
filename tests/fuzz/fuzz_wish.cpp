// The file by which somebody outside a job asks for another strategy.
#include "fuzz.hpp"
#include "steering/wish.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paro::steering;
  const auto wish = parse_wish(fuzz::text(data, size));
  if (!wish.ok()) {
    const ho::Status status = wish.status();
    const std::string& message = status.message();
    fuzz::require(message.starts_with("line ") && message.size() < 400);
    fuzz::require(message.find_first_of(std::string_view("\0\n\x1b", 3)) == std::string::npos);
    return 0;
  }
  fuzz::require(wish->strategy || wish->budget_bytes);
  std::string text;
  if (wish->strategy) {
    text += std::string(paro::letters(*wish->strategy)) + "\n";
  }
  if (wish->budget_bytes) {
    text += "budget=" + std::to_string(*wish->budget_bytes) + "\n";
  }
  const auto again = parse_wish(text);
  fuzz::require(again.ok() && again->strategy == wish->strategy &&
                again->budget_bytes == wish->budget_bytes);
  return 0;
}
