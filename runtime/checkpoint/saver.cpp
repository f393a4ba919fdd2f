#include "checkpoint/saver.hpp"

#include <array>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "checkpoint/part_file.hpp"
#include "run/agreement.hpp"

namespace paro::checkpoint {
namespace {

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
  [[nodiscard]] ho::Status publish(const SaveRequest& request, std::vector<PartFile> files) {
    Manifest manifest = request.manifest;
    manifest.files = std::move(files);
    const Path folder = saving_folder(request.folder, manifest.step);
    HORING_ASSIGN(File file, File::create(folder / kManifestName));
    HORING_TRY(file.write(to_json(manifest)));
    HORING_TRY(file.sync());
    HORING_TRY(lock_->publish(request.keep));
    lock_.reset();
    return {};
  }

 private:
  std::optional<StoreLock> lock_;
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
  return comm_ == nullptr ? 0 : static_cast<uint32_t>(ho_comm_rank(comm_.get()));
}

ho::Status Saver::agree(const ho::Status& mine) const {
  return comm_ == nullptr ? mine : everybody_ok(comm_.get(), mine, timeout_ms_);
}

ho::Status Saver::wait() {
  return running_.valid() ? running_.get() : ho::Status();
}

ho::Status Saver::start(ho::Result<SaveRequest> request, uint64_t timeout_ms) {
  HORING_TRY(wait());
  timeout_ms_ = timeout_ms;
  running_ = std::async(std::launch::async, [this, taken = std::move(request)]() mutable {
    // The copy of the states goes when they are saved, not when somebody asks how it went.
    const ho::Result<SaveRequest> mine = std::move(taken);
    try {
      const ho::Status status = save(mine);
      return status.ok() ? status : status.with_context("saving a checkpoint");
    } catch (const std::bad_alloc&) {
      return ho::Status(ho::StatusCode::kOutOfMemory, "saving a checkpoint: out of memory");
    } catch (const std::exception& error) {
      return ho::Status(ho::StatusCode::kInternal, error.what());
    }
  });
  return {};
}

ho::Result<std::vector<PartFile>> Saver::write_parts(const SaveRequest& request) const {
  const Path folder = saving_folder(request.folder, request.manifest.step);
  auto mine = write_part_file(folder / part_file_name(rank()),
                              request.snapshot,
                              request.manifest.states,
                              request.rank_state);
  ho::Status written = mine.status();
  if (written.ok()) {
    written = sync_folder(folder);
  }
  HORING_TRY(agree(explained(written, request)));
  if (comm_ == nullptr) {
    return std::vector<PartFile>{*mine};
  }
  const std::array<uint64_t, 3> card{mine->bytes, mine->header.words[0], mine->header.words[1]};
  HORING_ASSIGN(const auto all, everybodys(comm_.get(), card, timeout_ms_));
  std::vector<PartFile> files;
  for (size_t i = 0; i < all.size(); i += card.size()) {
    files.push_back({all[i], {{all[i + 1], all[i + 2]}}});
  }
  return files;
}

ho::Status Saver::save(const ho::Result<SaveRequest>& given) const {
  HORING_TRY(agree(given.status()));
  const SaveRequest& request = *given;
  Publisher publisher;
  const bool first = rank() == 0;
  HORING_TRY(agree(first ? publisher.take(request) : ho::Status()));
  HORING_ASSIGN(std::vector<PartFile> files, write_parts(request));
  return agree(first ? publisher.publish(request, std::move(files)) : ho::Status());
}

}  // namespace paro::checkpoint
