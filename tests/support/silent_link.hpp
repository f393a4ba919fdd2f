// A link that takes nothing and on which nothing ever arrives.
#pragma once

#include <string>

#include "transport/transport.hpp"

namespace ho::test {

class SilentLink : public Link {
 public:
  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    return false;
  }
  uint64_t released() override { return 0; }
  Result<bool> try_recv(const Frame& /*expected*/, std::span<const Bytes> /*parts*/) override {
    return false;
  }
  Result<std::optional<Frame>> try_peek(bool /*awaited*/) override {
    return std::optional<Frame>();
  }
  Result<ConstBytes> try_view(const Frame& /*expected*/) override { return ConstBytes(); }
  void release_view() override {}
  [[nodiscard]] bool over_network() const override { return false; }
  [[nodiscard]] std::string to_string() const override { return "silent"; }
};

}  // namespace ho::test
