// The authenticated TCP connection on which the two ends of a comm over another carrier found each
// other: a comm of the builtin network, closed with its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/builtin/builtin_net.hpp"

namespace ho::plugin {

class SideConnection {
 public:
  enum class Side : uint8_t { kSends, kReceives };

  SideConnection() = default;
  SideConnection(BuiltinNet& net, void* comm, Side side)
      : net_(&net), comm_(comm), side_(side), peer_(BuiltinNet::peer_of(comm)) {}
  SideConnection(SideConnection&& other) noexcept { *this = std::move(other); }
  SideConnection& operator=(SideConnection&& other) noexcept;
  SideConnection(const SideConnection&) = delete;
  SideConnection& operator=(const SideConnection&) = delete;
  ~SideConnection() { close(); }

  // Side::kSends: true once all of it has left. `data` stays where it is until then.
  [[nodiscard]] Result<bool> send(std::span<const std::byte> data);
  // Side::kReceives: what arrived, at most as much as there is room; nothing yet: 0.
  [[nodiscard]] Result<size_t> receive(std::span<std::byte> into);
  // false: the peer has closed, or it cannot be reached any more. Not while one of the above is
  // under way.
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] const std::string& peer() const { return peer_; }
  void set_peer(std::string peer) { peer_ = std::move(peer); }

 private:
  void close();
  [[nodiscard]] Result<bool> tested(int32_t* size);

  BuiltinNet* net_ = nullptr;
  void* comm_ = nullptr;
  Side side_ = Side::kSends;
  void* request_ = nullptr;
  std::string peer_;
};

}  // namespace ho::plugin
