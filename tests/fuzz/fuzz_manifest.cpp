// A checkpoint's manifest.
#include "checkpoint/json.hpp"
#include "checkpoint/manifest.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paro::checkpoint;
  // With the checksum that it should have: otherwise that is all that is ever looked at.
  std::string input(fuzz::text(data, size));
  if (auto json = parse_json(input); json.ok() && json->is_object()) {
    json->erase("checksum");
    const std::string rest = to_string(*json);
    (*json)["checksum"] = to_string(checksum_of(rest.data(), rest.size()));
    input = to_string(*json);
  }
  const auto manifest = parse_manifest(input);
  if (!manifest.ok()) {
    const ho::Status status = manifest.status();
    fuzz::require(status.message().size() < 400);
    fuzz::require(status.message().find_first_of(std::string_view("\0\n\x1b", 3)) ==
                  std::string::npos);
    return 0;
  }
  fuzz::require(check(*manifest).ok());
  const std::string text = to_json(*manifest);
  const auto again = parse_manifest(text);
  fuzz::require(again.ok() && to_json(*again) == text);
  return 0;
}
