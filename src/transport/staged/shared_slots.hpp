// Device memory of a rank that the other ranks of its host read in place: a message inside the node
// is copied into a slot of it, and the receiver's device reads it there, by a copy or in a sum. No
// memory of the caller's is ever exported: its lifetime is not ours.
//
// Each rank offers its memory to the others, opens theirs, and says whose it could open; ranks that
// cannot (another container, a device that the process does not see) get their messages through
// pinned memory.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "device/sharing.hpp"

namespace ho {

class SharedSlots {
 public:
  static constexpr size_t kSlotBytes = size_t{4} << 20;  // the largest piece of device memory

  static constexpr size_t kLinksPerPeer = 3;  // channels of collectives
  static constexpr size_t kSlotsPerPeer =
      2 * kLinksPerPeer;  // one reserved for each, as many shared

  // For `peers` other ranks. Without memory where the device has none left or cannot share it;
  // why_not() says so then.
  // `others_ended`, `membership`: see ShmTransport. Where this ends before the other ranks, its
  // memory stays until they have ended too.
  SharedSlots(std::shared_ptr<const device::Device> device,
              size_t peers,
              std::shared_ptr<const void> membership,
              std::function<bool()> others_ended);
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;
  ~SharedSlots();  // no work reads or writes any slot

  // Frees what ended slots of this process have left that no other rank may have open any more, as
  // making and ending slots do, and says of how many there still is some.
  static size_t free_retired();

  // What open() takes on another rank.
  [[nodiscard]] std::vector<std::byte> offer() const;
  // kProtocol: the offer is malformed. Any other error: this rank cannot read that memory, or its
  // driver shows it otherwise.
  [[nodiscard]] Status open(GlobalRank peer, std::span<const std::byte> offer);
  void set_reader(GlobalRank peer) { readers_.insert(peer); }
  [[nodiscard]] bool read_by(GlobalRank peer) const { return readers_.count(peer) != 0; }

  // Those of a peer, as this rank's device reads them; empty: it cannot.
  [[nodiscard]] std::span<const std::byte> of_peer(GlobalRank peer) const;
  // A slot that the caller keeps: one for each link, so that links cannot hold each other up.
  // Nothing: more than kLinksPerPeer for each other rank.
  [[nodiscard]] std::optional<size_t> reserve();
  // Of those that all links share.
  [[nodiscard]] std::optional<size_t> take();
  void give_back(size_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::byte* slot(size_t number) const {
    return static_cast<std::byte*>(memory_.pointer()) + offset(number);
  }
  [[nodiscard]] static uint64_t offset(size_t number) { return number * kSlotBytes; }
  [[nodiscard]] uint64_t memory_bytes() const { return memory_.size(); }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  struct Peer {
    std::optional<device::OpenedMemory> opened;  // nothing: of this process
    std::span<const std::byte> bytes;
  };
  [[nodiscard]] Status allocate(size_t peers);
  // Another device of this process.
  [[nodiscard]] Status reach(int ordinal) const;

  const std::shared_ptr<const device::Device> device_;
  // The last to end: then the others may free what was open here.
  std::shared_ptr<const void> membership_;
  const std::function<bool()> others_ended_;
  device::DeviceMemory memory_;
  device::IpcMemory exported_{};
  std::string why_not_;
  std::vector<size_t> free_;
  std::vector<size_t> unreserved_;
  std::map<GlobalRank, Peer> peers_;
  std::set<GlobalRank> readers_;
};

}  // namespace ho
