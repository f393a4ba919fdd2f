#include "core/driver/handle_secret.hpp"

#include <span>
#include <string>

#include "os/random_bytes.hpp"

namespace ho::plugin {

Result<HandleSecret> make_handle_secret() {
  HandleSecret secret{};
  HORING_TRY(fill_random(secret));
  return secret;
}

Result<std::shared_ptr<const JobKey>> connection_key(const HandleSecret& secret,
                                                     const JobKey& job_key) {
  const std::span<const std::byte> part(secret);
  const auto hash = job_key.authenticate("plugin connection", {&part, 1});
  std::string text;
  text.reserve(2 * hash.size());
  constexpr const char* kDigits = "0123456789abcdef";
  for (const std::byte byte : hash) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  }
  return JobKey::from_text(text);
}

}  // namespace ho::plugin
