#include "checkpoint/saver.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "checkpoint/part_file.hpp"
#include "run/agreement.hpp"

namespace paro::checkpoint {
namespace {

// A rank's own failure must not keep it from reporting to the others.
template <typename Work>
ho::Status attempt(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {ho::StatusCode::kOutOfMemory, "out of memory"};
  } catch (const std::exception& error) {
    return {ho::StatusCode::kInternal, error.what()};
  }
}

// The training goes first where there are not enough cores for both. Of the calling thread, which
// ends with its task; where it is not permitted nothing is lost.
void yield_to_training() {
  constexpr int kNice = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice));
}

// Leaves no saving folder behind where it is not published.
class Publisher {
 public:
  Publisher() = default;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  ~Publisher() {
    if (lock_.has_value()) {
      lock_->give_up();
    }
  }
  [[nodiscard]] ho::Status take(const SaveRequest& request) {
    HORING_ASSIGN(lock_, StoreLock::take(request.folder, request.manifest.step));
    return {};
  }
  [[nodiscard]] ho::Status publish(const SaveRequest& request, const std::vector<PartFile>& files) {
    Manifest manifest = request.manifest;
    manifest.files = files;
    const Path folder = saving_folder(request.folder, manifest.step);
    HORING_ASSIGN(File file, File::create(folder / kManifestName));
    HORING_TRY(file.write(to_json(manifest)));
    HORING_TRY(file.sync());
    HORING_TRY(lock_->publish());
    published_ = std::move(lock_);
    lock_.reset();
    return {};
  }
  // The lock, of what is published.
  [[nodiscard]] std::optional<StoreLock> released() {
    return std::exchange(published_, std::nullopt);
  }

 private:
  std::optional<StoreLock> lock_;
  std::optional<StoreLock> published_;
};

// A rank whose disk is not rank 0's does not see the folder.
ho::Status explained(const ho::Status& status, const SaveRequest& request) {
  std::error_code error;
  const bool there =
      std::filesystem::exists(saving_folder(request.folder, request.manifest.step), error);
  return status.ok() || there ? status
                              : ho::Status(status.code(),
                                           status.message() + "; " + request.folder.string() +
                                               " must be on a file system that all ranks share");
}

}  // namespace

Saver::~Saver() {
  if (running_.valid()) {
    running_.wait();
  }
}

uint32_t Saver::rank() const {
  return static_cast<uint32_t>(ho_comm_rank(comm_.get()));
}

ho::Status Saver::agree(const ho::Status& mine) const {
  return all_ok(comm_.get(), mine, timeout_ms_);
}

ho::Status Saver::wait() {
  return running_.valid() ? running_.get() : ho::Status();
}

void Saver::prune(StoreLock lock, uint32_t keep) {
  auto work = [held = std::make_shared<StoreLock>(std::move(lock)), keep] {
    const ho::Status status = attempt([&] {
      held->prune(keep);
      return ho::Status();
    });
    if (!status.ok()) {
      ho::log_warn("an older checkpoint stays: {}", status.message());
    }
  };
  try {
    pruning_ = std::async(std::launch::async, [work] {
      yield_to_training();
      work();
    });
  } catch (const std::system_error&) {  // no thread can be started
    work();
  }
}

void Saver::settle() {
  if (pruning_.valid()) {
    pruning_.get();
  }
}

ho::Status Saver::start(ho::Result<SaveRequest> request, How how) {
  HORING_TRY(wait());
  settle();
  timeout_ms_ = how.timeout_ms;
  HORING_TRY(agree(request.status()));
  HORING_TRY(
      same_loads(comm_.get(), request->copies.loads, request->manifest.units, "save", timeout_ms_));
  // The copy of the states goes when they are saved, not when the outcome is queried.
  auto taken = std::make_shared<SaveRequest>(std::move(request).value());
  if (!how.in_background) {
    return save(*taken);
  }
  auto task = [this, taken = std::move(taken)]() mutable {
    const std::shared_ptr<SaveRequest> mine = std::move(taken);
    return save(*mine);
  };
  try {
    running_ = std::async(std::launch::async, [task]() mutable {
      yield_to_training();
      return task();
    });
  } catch (const std::system_error&) {
    // No thread can be started. The other ranks are saving: this rank saves in the calling thread.
    std::promise<ho::Status> outcome;
    outcome.set_value(task());
    running_ = outcome.get_future();
  }
  return {};
}

ho::Result<std::vector<PartFile>> Saver::write_parts(const SaveRequest& request) const {
  const Path folder = saving_folder(request.folder, request.manifest.step);
  PartFile mine;
  const ho::Status written = attempt([&]() -> ho::Status {
    HORING_ASSIGN(mine,
                  write_part_file(folder / part_file_name(rank()),
                                  request.parts,
                                  request.manifest.states,
                                  request.rank_state));
    return sync_folder(folder);
  });
  HORING_TRY(agree(explained(written, request)));
  const std::array<uint64_t, 3> info{mine.bytes, mine.header.words[0], mine.header.words[1]};
  HORING_ASSIGN(const auto all, all_gather_values(comm_.get(), info, timeout_ms_));
  std::vector<PartFile> files;
  for (size_t i = 0; i < all.size(); i += info.size()) {
    files.push_back({all[i], {{all[i + 1], all[i + 2]}}});
  }
  return files;
}

ho::Status Saver::save(const SaveRequest& request) {
  const auto saved = [&]() -> ho::Status {
    Publisher publisher;
    const bool first = rank() == 0;
    const auto by_first = [&](const auto& work) {
      return agree(first ? attempt(work) : ho::Status());
    };
    HORING_TRY(by_first([&] { return publisher.take(request); }));
    HORING_ASSIGN(const std::vector<PartFile> files, write_parts(request));
    HORING_TRY(by_first([&] { return publisher.publish(request, files); }));
    if (auto lock = publisher.released(); lock.has_value()) {
      prune(std::move(*lock), request.keep);
    }
    return {};
  };
  const ho::Status status = attempt(saved);
  if (status.ok()) {
    return {};
  }
  const std::string what = "saving a checkpoint to " + request.folder.string();
  return status.with_context(status.code() == ho::StatusCode::kTimeout
                                 ? what + ": a rank's disk took more than timeout_ms, " +
                                       std::to_string(timeout_ms_)
                                 : what);
}

}  // namespace paro::checkpoint
