// Saves a job's states: all ranks write at once, each its own file, and the checkpoint appears when
// all of them are on the disk, or not at all.
//
//   rank 0 locks the store and makes a folder for it      -> all know that it is there
//   every rank writes and syncs its file                  -> all know all lengths and checksums
//   rank 0 writes the manifest, syncs and renames         -> all know that it is saved
//   rank 0 removes old checkpoints, in a thread: on some file systems that takes as long as writing
//
// Between these the ranks exchange their outcomes, on a communicator that nothing else uses, so
// that it may all happen in a thread of its own while training goes on.
#pragma once

#include <cstddef>
#include <future>
#include <memory>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/store.hpp"
#include "collectives/communicator.hpp"
#include "state/snapshot.hpp"

namespace paro::checkpoint {

// Moves, but is not copied: the parts may lie in its own snapshot.
struct SaveRequest {
  SaveRequest() = default;
  SaveRequest(SaveRequest&&) = default;
  SaveRequest& operator=(SaveRequest&&) = default;
  SaveRequest(const SaveRequest&) = delete;
  SaveRequest& operator=(const SaveRequest&) = delete;
  ~SaveRequest() = default;

  Path folder;                   // on a file system that all ranks share
  uint32_t keep = 2;             // checkpoints, this one included; 0: all
  std::vector<StatePart> parts;  // where they lie until the save has ended
  Snapshot copies;               // which is here where it goes on in the background
  Manifest manifest;             // without the files; rank 0's is written
  std::vector<std::byte> rank_state;
};

class Saver {
 public:
  // `comm`: of all ranks, this object's alone.
  explicit Saver(OwnedComm comm) : comm_(std::move(comm)) {}
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // Waits for what is under way, the removing of old checkpoints too; its error is lost.
  ~Saver();

  // Collective. Waits for the save before; if that failed, returns its error, and this one does not
  // begin. Nor does it begin if a rank has an error instead of a request: all ranks get that. In
  // the background it goes on in a thread; otherwise this is its outcome. All ranks get the same.
  // `timeout_ms`: how long ranks wait for the slowest one's disk.
  struct How {
    uint64_t timeout_ms = 0;
    bool in_background = false;
  };
  [[nodiscard]] ho::Status start(ho::Result<SaveRequest> request, How how);
  // Collective in effect: the outcome of what goes on in the background, the same on all ranks.
  // Returned once.
  [[nodiscard]] ho::Status wait();
  // After wait(): until this rank has removed old checkpoints, too. start() does so itself.
  void settle();

 private:
  [[nodiscard]] uint32_t rank() const;
  [[nodiscard]] ho::Status agree(const ho::Status& mine) const;
  [[nodiscard]] ho::Status save(const SaveRequest& request);
  void prune(StoreLock lock, uint32_t keep);
  [[nodiscard]] ho::Result<std::vector<PartFile>> write_parts(const SaveRequest& request) const;

  OwnedComm comm_;
  uint64_t timeout_ms_ = 0;
  std::future<ho::Status> running_;
  std::future<void> pruning_;  // holds the store's lock
};

}  // namespace paro::checkpoint
