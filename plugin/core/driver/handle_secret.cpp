#include "core/driver/handle_secret.hpp"

#include <span>

#include "base/bytes.hpp"
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
  return JobKey::from_text(hex_text(hash));
}

}  // namespace ho::plugin
