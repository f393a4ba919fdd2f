#include "transport/transport.hpp"

namespace ho {

Result<bool> Link::try_send_from_device(const Frame& /*frame*/,
                                        std::span<const ConstBytes> /*payload*/) {
  return Status(StatusCode::kInternal, describe() + ": a link for host memory only");
}

Result<bool> Link::try_send_shared(const Frame& /*frame*/, uint64_t /*offset*/) {
  return Status(StatusCode::kInternal, describe() + ": a link without shared device memory");
}

Result<Link::SharedMessage> Link::try_recv_shared(const Frame& /*expected*/) {
  return SharedMessage{true};
}

Result<bool> Link::try_offer(ConstBytes /*offer*/) {
  return Status(StatusCode::kInternal, describe() + ": a link without shared device memory");
}

}  // namespace ho
