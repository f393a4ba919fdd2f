// A link for device memory around a link for host memory.
//
// A message from device memory is copied to pinned memory first, and goes out when that copy has
// completed; meanwhile others are copied. A message that arrives lies in pinned memory until its
// view is released, and several may lie there at once. So the bus and the network are busy at the
// same time. Messages from and into host memory pass through, in their order.
//
//   device memory --copy--> slot --try_send--> network --try_recv--> slot --the caller's copy-->
//
// Inside a node the slots of sends are device memory that the peer reads (SharedSlots), where it
// can: then its view is that slot, and only its number goes through the link. The first message
// waits until the peer has answered the offer of that memory. A message that is larger than those
// slots goes through pinned memory all the same.
//
//   device memory --copy--> shared slot --the receiver's copy or sum-->
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
#include "transport/device_link.hpp"
#include "transport/staged/shared_slots.hpp"
#include "transport/transport.hpp"

namespace ho {

class StagedLink final : public Link, public DeviceLink {
 public:
  static constexpr size_t kSlots = 4;  // of each direction

  // What a link inside a node has of the memory that its ranks share.
  struct Shared {
    SharedSlots* slots = nullptr;  // of this rank; null: it shares none
    GlobalRank peer{};
  };
  // Work and slots outlive the link. The inner one is not used by its end.
  StagedLink(Link& inner, device::Work& work, const Shared& shared);
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
  // Of views that are not released yet there may be kSlots, and as many of the peer's slots.
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  [[nodiscard]] Result<ConstBytes> try_view_for_device(const Frame& expected) override;
  [[nodiscard]] DeviceLink* for_device() override { return this; }
  void release_view() override;
  [[nodiscard]] size_t most_views() const override { return kSlots; }
  [[nodiscard]] Status went_wrong() const override {
    return failed_ ? *failed_ : inner_.went_wrong();
  }
  [[nodiscard]] bool over_network() const override { return inner_.over_network(); }
  [[nodiscard]] std::string to_string() const override {
    return inner_.to_string() +
           (offering_ != Offering::kNever ? ", shared device memory" : ", staged");
  }
  [[nodiscard]] std::string trouble() const override { return inner_.trouble(); }

 private:
  struct Slot {
    std::optional<device::PinnedMemory> memory;
    bool used = false;
  };
  using Slots = std::array<Slot, kSlots>;
  // What a message that was sent has until it is released.
  struct SendSlot {
    enum class Kind : uint8_t { kNone, kPinned, kShared };
    Kind kind = Kind::kNone;
    size_t number = 0;
  };
  // Accepted, and not yet given to the inner link.
  struct Staged {
    Frame frame;
    SendSlot slot;
    device::Ticket ticket;
  };
  // On its way from the peer's device memory into a slot of pinned memory.
  struct Pulled {
    size_t slot;
    device::Ticket ticket;
  };

  // How far this rank's offer of slots to the peer has got.
  enum class Offering : uint8_t { kNotBegun, kMade, kSent, kTaken, kNever };

  [[nodiscard]] Status grow(Slots& slots, size_t bytes);
  // A free slot with room, or nothing.
  [[nodiscard]] Result<std::optional<size_t>> take(Slots& slots, size_t bytes);
  // Nothing: not now, but a slot will be free later.
  [[nodiscard]] Result<std::optional<SendSlot>> take_send_slot(size_t bytes);
  [[nodiscard]] std::optional<SendSlot> take_shared_slot();
  // Moves the offer along, up to the peer's answer. False: that is not here yet.
  [[nodiscard]] Result<bool> offer_answered();
  void make_slots();
  [[nodiscard]] std::byte* memory(const SendSlot& slot) const;
  void free(const SendSlot& slot);
  // Gives the inner link what it takes of what was copied.
  [[nodiscard]] Status pass_on();
  [[nodiscard]] Result<bool> pass_on(const Staged& next);
  void free_released();
  // The next message, if it lies in a slot of the peer's.
  struct SharedView {
    bool other = false;  // it does not
    ConstBytes bytes{};  // null: not here yet
  };
  [[nodiscard]] Result<SharedView> view_shared(const Frame& expected);
  [[nodiscard]] Bytes view(size_t slot, const Frame& message) const;
  // The next message through the inner link, in pinned memory.
  [[nodiscard]] Result<ConstBytes> view_arrived(const Frame& expected);
  // A message in the peer's slot, in host memory.
  struct Pull {
    bool other = false;            // it is none of these
    std::optional<size_t> slot{};  // of view_slots_, which has it; nothing: not now
  };
  [[nodiscard]] Result<Pull> pull(const Frame& expected);
  [[nodiscard]] Status begin_pull();

  Link& inner_;
  OffsetMessages* const offsets_;  // the inner link's; null: nothing is shared
  device::Work& work_;
  const Shared shared_;
  Offering offering_;
  std::shared_ptr<PeerSlots> slots_;  // null: not made, or given up
  // Always one is this link's; it has up to kSlots in use.
  std::optional<size_t> own_slot_;
  bool own_slot_used_ = false;
  size_t shared_in_use_ = 0;
  std::span<const std::byte> of_peer_;  // the peer's slots; empty: this link names none
  Slots send_slots_;
  Slots view_slots_;
  std::deque<Staged> staged_;
  std::deque<SendSlot> sent_;  // by message that the inner link has accepted and not released
  uint64_t released_;
  std::optional<size_t> receiving_;  // the slot of the message in progress
  ConstBytes to_pull_;               // here, and no slot yet; null: none
  std::optional<Pulled> pulled_;
  std::deque<std::optional<size_t>> views_;  // nothing: of a slot of the peer's
  std::optional<Status> failed_;
};

}  // namespace ho
