// A link for device memory around a link for host memory.
//
// A message from device memory is copied to pinned memory first, and goes out when that copy has
// completed; meanwhile others are copied. A message that arrives lies in pinned memory until its
// view is released, and several may lie there at once. So the bus and the network are busy at the
// same time. Messages from and into host memory pass through, in their order.
//
//   device memory --copy--> slot --try_send--> network --try_recv--> slot --the caller's copy-->
//
// A slot of a send is free when the inner link has released its message, one of a receive when its
// view was released. Slots grow to the largest message, and are reused then: nothing is allocated
// once all sizes were met.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/work/work.hpp"
#include "transport/transport.hpp"

namespace ho {

class StagedLink final : public Link {
 public:
  static constexpr size_t kSlots = 4;  // of each direction

  // Both outlive the link.
  StagedLink(Link& inner, device::Work& work)
      : inner_(inner), work_(work), released_(inner.released()) {}
  StagedLink(const StagedLink&) = delete;
  StagedLink& operator=(const StagedLink&) = delete;
  ~StagedLink() override;

  [[nodiscard]] Result<bool> try_send(const Frame& frame,
                                      std::span<const ConstBytes> payload) override;
  // The same from device memory, in any number of parts: accepted when their copies were started.
  [[nodiscard]] Result<bool> try_send_from_device(const Frame& frame,
                                                  std::span<const ConstBytes> payload) override;
  [[nodiscard]] uint64_t released() override;
  [[nodiscard]] Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override;
  [[nodiscard]] Result<std::optional<Frame>> try_peek(bool awaited) override {
    return inner_.try_peek(awaited);
  }
  // Of views that are not released yet there may be kSlots.
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  void release_view() override;
  [[nodiscard]] size_t most_views() const override { return kSlots; }
  [[nodiscard]] Status went_wrong() const override { return failed_.value_or(Status()); }
  [[nodiscard]] bool over_network() const override { return inner_.over_network(); }
  [[nodiscard]] std::string describe() const override { return inner_.describe() + ", staged"; }
  [[nodiscard]] std::string trouble() const override { return inner_.trouble(); }

 private:
  struct Slot {
    std::optional<device::PinnedMemory> memory;
    bool used = false;
  };
  using Slots = std::array<Slot, kSlots>;
  // Accepted, and not yet given to the inner link.
  struct Staged {
    Frame frame;
    size_t slot;
    size_t bytes;
    device::Ticket ticket;
  };

  [[nodiscard]] Status grow(Slots& slots, size_t bytes);
  // A free slot with room, or nothing.
  [[nodiscard]] Result<std::optional<size_t>> take(Slots& slots, size_t bytes);
  // Gives the inner link what it takes of what was copied.
  [[nodiscard]] Status pass_on();
  void free_released();

  Link& inner_;
  device::Work& work_;
  Slots send_slots_;
  Slots view_slots_;
  std::deque<Staged> staged_;
  // By message that the inner link has accepted and not released: its slot; nothing for one of host
  // memory.
  std::deque<std::optional<size_t>> sent_;
  uint64_t released_;
  std::optional<size_t> receiving_;  // the slot of the message in progress
  std::deque<size_t> views_;
  std::optional<Status> failed_;
};

}  // namespace ho
