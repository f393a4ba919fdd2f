#include "transport/transport.hpp"

namespace ho {

Result<bool> Link::try_send_from_device(const Frame& /*frame*/,
                                        std::span<const ConstBytes> /*payload*/) {
  return Status(StatusCode::kInternal, describe() + ": a link for host memory only");
}

}  // namespace ho
