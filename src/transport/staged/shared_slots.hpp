// Device memory of a rank that the other ranks of its host read in place: a message inside the node
// is copied into a slot of it, and the receiver's device reads it there, by a copy or in a sum. No
// memory of the caller's is ever exported: its lifetime is not ours.
//
// Each other rank has slots of its own, made when a link first sends device memory to it, and
// offered to it then on each such link (see OffsetMessages::try_offer). A rank that cannot open
// them (in another container, or without that device) refuses, and messages to it go through pinned
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "device/sharing.hpp"

namespace ho {

// The slots that one other rank reads, for all links to it.
class PeerSlots {
 public:
  static constexpr size_t kSlotBytes = size_t{8} << 20;  // the largest piece of device memory
  static constexpr size_t kLinks = 3;                    // channels of collectives
  static constexpr size_t kCount = 2 * kLinks;           // one reserved for each, as many shared
  static constexpr size_t kBytes = kCount * kSlotBytes;

  // An error where the device has no memory left, or cannot share it. `others_ended`: see
  // ShmTransport.
  [[nodiscard]] static Result<std::shared_ptr<PeerSlots>> create(
      std::shared_ptr<const device::Device> device, std::function<bool()> others_ended);
  PeerSlots(std::shared_ptr<const device::Device> device,
            device::DeviceMemory memory,
            const device::IpcMemory& exported,
            std::function<bool()> others_ended);
  PeerSlots(const PeerSlots&) = delete;
  PeerSlots& operator=(const PeerSlots&) = delete;
  // No work reads or writes any slot. Memory that the peer may have open stays until all others
  // have ended.
  ~PeerSlots();

  // What SharedSlots::open() takes on the other rank.
  [[nodiscard]] std::vector<std::byte> offer() const;
  // A link has sent the offer, and the peer has refused it there.
  void note_offered() { ++offers_; }
  void note_refused() { --offers_; }

  // A slot that the caller keeps: one for each link, so that links cannot hold each other up.
  // Nothing: more than kLinks.
  [[nodiscard]] std::optional<size_t> reserve();
  // Of those that all links to this rank share.
  [[nodiscard]] std::optional<size_t> take();
  void give_back(size_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::byte* slot(size_t number) const {
    return static_cast<std::byte*>(memory_.pointer()) + offset(number);
  }
  [[nodiscard]] static uint64_t offset(size_t number) { return number * kSlotBytes; }

 private:
  const std::shared_ptr<const device::Device> device_;
  device::DeviceMemory memory_;
  const device::IpcMemory exported_;
  const std::function<bool()> others_ended_;
  size_t offers_ = 0;  // that were sent and not refused
  std::vector<size_t> free_;
  std::vector<size_t> unreserved_;
};

// What a rank has for all other ranks of its host, and what it reads of theirs. Driven by one
// thread at a time, as the links.
class SharedSlots {
 public:
  // `others_ended`, `membership`: see ShmTransport. Where this ends before the other ranks, memory
  // that they may have open stays until they have ended too.
  SharedSlots(GlobalRank self,
              std::shared_ptr<const device::Device> device,
              std::shared_ptr<const void> membership,
              std::function<bool()> others_ended);
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;
  ~SharedSlots();  // no work reads or writes any slot

  // Frees what ended slots of this process have left that no other rank may have open any more, as
  // making and ending slots do, and says of how many there still is some.
  static size_t free_retired();

  // For messages to the peer. Made by the first call for it, which may wait for the device. Null:
  // there are none for this peer, and never will be.
  [[nodiscard]] std::shared_ptr<PeerSlots> for_peer(GlobalRank peer);
  // The peer does not read them: they end with the last link that has them.
  void give_up(GlobalRank peer) { own_[peer].reset(); }

  // Opens what the peer offers, with the first of its links that does so. False: this rank cannot
  // read that memory, or its driver shows it otherwise. kProtocol: the offer is malformed, or not
  // the one that another link had.
  [[nodiscard]] Result<bool> open(GlobalRank peer, std::span<const std::byte> offer);
  // The peer's slots as this rank's device reads them; empty: it does not.
  [[nodiscard]] std::span<const std::byte> of_peer(GlobalRank peer) const;

 private:
  struct Peer {
    std::vector<std::byte> offer;
    std::optional<device::OpenedMemory> opened{};  // nothing: of this process
    std::span<const std::byte> bytes{};            // empty: it could not be opened
  };
  [[nodiscard]] Status open_memory(std::span<const std::byte> offer, Peer& peer) const;
  // Another device of this process.
  [[nodiscard]] Status reach(int ordinal) const;

  const GlobalRank self_;
  const std::shared_ptr<const device::Device> device_;
  // The last to end: then the others may free what was open here.
  std::shared_ptr<const void> membership_;
  const std::function<bool()> others_ended_;
  std::map<GlobalRank, std::shared_ptr<PeerSlots>> own_;  // null: given up
  bool none_left_ = false;                                // slots could not be made once
  std::map<GlobalRank, Peer> peers_;
};

}  // namespace ho
