// The network of a rank whose plugin cannot work: it has the host's devices, and whoever is to be
// connected with it is told why it cannot be. Without it NCCL would take another network on this
// rank alone, and the peers, which cannot reach that, would wait or see a handle of an unknown
// kind.
#pragma once

#include <memory>

#include "core/builtin/builtin_net.hpp"
#include "core/driver/turned_off.hpp"

namespace ho::plugin {

class OffNet final : public BuiltinNet {
 public:
  // config: its devices and key. An error where there are none: then nobody can be told.
  [[nodiscard]] static Result<std::unique_ptr<NetDriver>> create(BuiltinConfig config,
                                                                 const TurnedOff& off);

  [[nodiscard]] std::string origin() const override { return "turned off"; }
  // A handle that says why.
  [[nodiscard]] Reply listen(void* context, int32_t device, void* handle, void** listener) override;
  [[nodiscard]] Reply accept(void* listener, void** comm, void** device_handle) override;
  [[nodiscard]] Reply close_listen(void* listener) override;

 private:
  explicit OffNet(BuiltinConfig config, TurnedOff off)
      : BuiltinNet(std::move(config)), off_(std::move(off)) {}

  TurnedOff off_;
};

}  // namespace ho::plugin
