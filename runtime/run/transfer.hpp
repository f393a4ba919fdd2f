// Collectives on the elements of a buffer, or of a bucket's, started together and ended together:
// one per route.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "run/routes.hpp"
#include "state/storage.hpp"

namespace paro {

// A flat buffer by its elements: all of it in one piece, or what a rank holds of it.
class ElementView {
 public:
  ElementView(std::byte* whole, ho::DType dtype) : whole_(whole), dtype_(dtype) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a storage is a place
  ElementView(const Storage& storage) : storage_(&storage), dtype_(storage.dtype()) {}
  [[nodiscard]] std::byte* at(uint64_t element) const {
    return storage_ != nullptr ? storage_->at(element) : whole_ + element * ho::size_bytes(dtype_);
  }
  [[nodiscard]] ho::DType dtype() const { return dtype_; }

 private:
  const Storage* storage_ = nullptr;
  std::byte* whole_ = nullptr;
  ho::DType dtype_;
};

// Payload that this rank sent, by where to.
struct SentBytes {
  uint64_t intra = 0;
  uint64_t inter = 0;
};

class Transfer {
 public:
  // Everything that is passed in outlives the transfer. All of it is done on the track's stream,
  // where there are streams, and by the track's collectives. `pack`: room for the messages of
  // merged routes.
  Transfer(Ledger& ledger,
           const CollectiveOptions& options,
           Track track = Track::kCompute,
           std::byte* pack = nullptr)
      : ledger_(ledger),
        operations_(ledger.operations(static_cast<size_t>(track))),
        options_(options),
        track_(static_cast<size_t>(track)),
        pack_(pack) {
    options_.stream = operations_.stream();
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  // Waits, within the collectives' deadlines, for what was started.
  ~Transfer();

  // Everybody's parts from `from` (of which this rank's own are read) into `to`. May be one place.
  [[nodiscard]] ho::Status gather(const std::vector<Route>& routes,
                                  const ElementView& from,
                                  const ElementView& to);
  // Sums in place: this rank's own parts are the sums afterwards, the rest is undefined.
  [[nodiscard]] ho::Status reduce_scatter(const std::vector<Route>& routes,
                                          std::span<const ElementView> buffers_of_units);
  // Sums of all elements, in place.
  [[nodiscard]] ho::Status all_reduce(const std::vector<Route>& routes,
                                      std::span<const ElementView> buffers_of_units);
  // Sums of a few numbers, in place. nullptr: this rank is alone.
  [[nodiscard]] ho::Status all_reduce(Collectives* over, double* values, size_t count);

  // On a device: what the stream is given from now on sees the results. Does not wait; finish() is
  // still to come.
  void follow();
  // True when it is over, well or not.
  [[nodiscard]] bool over();
  // Blocks, at most so long: whether it is over.
  [[nodiscard]] bool over_within(uint64_t timeout_ms);
  // Blocks; the first error.
  [[nodiscard]] ho::Status finish();
  // After finish().
  [[nodiscard]] const SentBytes& sent() const { return sent_; }
  // After finish(): how long its collectives took, one after the other.
  [[nodiscard]] uint64_t took_ns() const { return took_ns_; }

 private:
  struct Leg {
    const Route* route = nullptr;
    Collectives* over = nullptr;  // nullptr: it needs none
    Pending pending;
    ho::Status outcome;           // once it is not under way any more
    Buffer reordered;             // what `packed` is in, if it is not in pack_
    std::byte* packed = nullptr;  // the message; nullptr: it is the target itself, or unpacked
    std::vector<ElementView> targets;
    bool whole = false;  // unpack all parts, not only this rank's own
  };
  [[nodiscard]] Leg& new_leg(const Route& route, std::span<const ElementView> targets, bool whole);
  // Where a leg's packed message is put together.
  [[nodiscard]] ho::Result<std::byte*> memory_for(Leg& leg, uint64_t bytes);
  // The bytes of a set in the order of its ranks: in the buffer itself, or packed.
  [[nodiscard]] ho::Result<std::byte*> in_order(Leg& leg,
                                                std::span<const ElementView> sources,
                                                bool all_parts);
  // Once.
  void unpack(Leg& leg);
  // Blocks, at most so long (0: until its deadline): whether it is over.
  [[nodiscard]] bool end_within(Leg& leg, uint64_t timeout_ms);

  Ledger& ledger_;
  const Operations& operations_;
  CollectiveOptions options_;
  size_t track_;
  std::byte* pack_;  // what is left of it
  std::vector<std::unique_ptr<Leg>> legs_;
  SentBytes sent_;
  uint64_t took_ns_ = 0;
};

}  // namespace paro
