// Who may connect to a listener: whoever has its handle, which NCCL carries over its own bootstrap,
// and where a job key is set also knows that.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "auth/job_key.hpp"
#include "base/status.hpp"

namespace ho::plugin {

using HandleSecret = std::array<std::byte, 32>;

// Fresh and random.
[[nodiscard]] Result<HandleSecret> make_handle_secret();
// What both ends of a connection prove that they know: the secret under the job's key, or alone
// where the job has none. NCCL's own bootstrap carries the secret and is not authenticated, so
// without a job key it protects no better than that.
[[nodiscard]] Result<std::shared_ptr<const JobKey>> connection_key(const HandleSecret& secret,
                                                                   const JobKey& job_key);

}  // namespace ho::plugin
