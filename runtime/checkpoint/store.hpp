// A folder of checkpoints: what they are called, how a new one becomes visible all at once, and
// which go again.
//
//   FOLDER/step-120/            a checkpoint: manifest.json and a file for each rank
//   FOLDER/.saving-step-130/    one that is being written; a leftover if no process holds the lock
//   FOLDER/latest               the name of the one saved last: after a job has gone back to step
//                               5, step 6 is newer than the step-10 that it left behind
//   FOLDER/.lock                held by the process that is saving (of the job's rank 0)
//   FOLDER/.job                 held by that of a job which claimed the folder, while it trains
//
// A checkpoint is there when its folder has its name, which a rename gives it after everything in
// it has reached the disk. Killed at any moment, a job leaves every checkpoint that was there.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/file.hpp"
#include "os/fd.hpp"

namespace paro::checkpoint {

[[nodiscard]] Path step_folder(const Path& folder, uint64_t step);
[[nodiscard]] Path saving_folder(const Path& folder, uint64_t step);
// Ascending. An error where the folder cannot be read.
[[nodiscard]] ho::Result<std::vector<uint64_t>> steps_in(const Path& folder);
// `path` itself if it holds a manifest, else the checkpoint in it that was saved last: the one that
// `latest` names, or the highest step where there is no such file. A `latest` that names no
// checkpoint is an error that says what there is.
[[nodiscard]] ho::Result<Path> find_checkpoint(const Path& path);

// Before a job trains for hours: an error where it cannot save to the folder, which is made where
// there is none, up to `last_step`. A job that does not go on from what is there (`resumes`) is
// refused a folder with checkpoints: they would go one by one as it saves its own. Other jobs are
// refused the folder as long as what is returned lives; it ends with the process.
[[nodiscard]] ho::Result<ho::Fd> claim_folder(const Path& folder, uint64_t last_step, bool resumes);

// One rank of a job, while it saves.
class StoreLock {
 public:
  // Makes the folder if there is none, removes what earlier saves have left unfinished, and makes
  // an empty saving_folder(). Fails where another process is saving here, or something that is no
  // checkpoint has the name that this one will have.
  [[nodiscard]] static ho::Result<StoreLock> take(const Path& folder, uint64_t step);
  // The saving folder, whose files are on the disk, becomes step_folder(); one of that name that is
  // there already is replaced.
  [[nodiscard]] ho::Status publish();
  // All but the `keep` checkpoints saved last go (0: none does); one that cannot be removed is a
  // warning in the log.
  void prune(uint32_t keep) const;
  // Removes the saving folder.
  void give_up();

 private:
  StoreLock(Path folder, uint64_t step, ho::Fd lock)
      : folder_(std::move(folder)), step_(step), lock_(std::move(lock)) {}
  [[nodiscard]] ho::Status name_latest() const;
  [[nodiscard]] ho::Status remove_older(uint32_t keep) const;

  Path folder_;
  uint64_t step_;
  ho::Fd lock_;
};

}  // namespace paro::checkpoint
