#include "checkpoint/store.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

#include "base/escaped.hpp"
#include "base/log.hpp"
#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/manifest.hpp"

namespace paro::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kSaving = ".saving-";
constexpr const char* kLock = ".lock";
constexpr const char* kJob = ".job";
constexpr const char* kLatest = "latest";
constexpr const char* kTorchMetadata = ".metadata";

ho::Status failed(const char* what, const Path& path, const std::error_code& error) {
  return {ho::StatusCode::kSystem,
          std::string(what) + " " + path.string() + ": " + error.message()};
}

std::optional<uint64_t> step_of(std::string_view name) {
  return name.starts_with(kStep) ? ho::whole_number<uint64_t>(name.substr(kStep.size()))
                                 : std::nullopt;
}

ho::Result<std::vector<std::string>> names_in(const Path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    return failed("reading", folder, error);
  }
  return names;
}

ho::Status remove_tree(const Path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? failed("removing", path, error) : ho::Status();
}

// A file of the folder, locked by this process: children that it forks do not inherit that, and it
// ends with the process, or when any file of that name is closed in it.
ho::Result<ho::Fd> locked(const Path& folder, const char* name) {
  constexpr mode_t kMode = 0644;
  const Path path = folder / name;
  ho::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!file.valid()) {
    return ho::system_error("open(" + path.string() + ")", errno);
  }
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  if (::fcntl(file.get(), F_SETLK, &wanted) == 0) {
    return file;
  }
  return errno == EACCES || errno == EAGAIN
             ? ho::invalid("another job is saving to " + folder.string() + "; give each its own")
             : ho::system_error("locking " + path.string(), errno);
}

bool is_checkpoint(const Path& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder / kManifestName, error);
}

ho::Status bad_latest(const Path& folder,
                      const std::string& what,
                      const std::vector<uint64_t>& steps) {
  constexpr size_t kMaxNamed = 8;
  std::string there;
  for (size_t i = steps.size() - std::min(steps.size(), kMaxNamed); i < steps.size(); ++i) {
    there += (there.empty() ? "" : ", ") + step_folder("", steps[i]).string();
  }
  return malformed(
      (folder / kLatest).string() + " " + what +
      ": it has to name the checkpoint that was saved last, and a higher step may be of "
      "a run that was given up. There are " +
      there + ": load one of them by its folder, as " + step_folder(folder, steps.back()).string() +
      ", or remove " + (folder / kLatest).string() + " to go on from the highest step");
}

// The step that `latest` names, one of `steps`; nothing where there is no such file.
ho::Result<std::optional<uint64_t>> latest_step(const Path& folder,
                                                const std::vector<uint64_t>& steps) {
  constexpr size_t kMaxBytes = 1024;
  const Path path = folder / kLatest;
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  if (type == std::filesystem::file_type::not_found) {
    return std::optional<uint64_t>();
  }
  if (type != std::filesystem::file_type::regular) {
    return bad_latest(folder, "is no regular file", steps);
  }
  const auto text = ho::read_text_file(path.string(), kMaxBytes);
  if (!text.ok()) {
    return bad_latest(folder, "cannot be read (" + text.status().message() + ")", steps);
  }
  const std::string name = text->substr(0, text->find('\n'));
  const auto step = step_of(name);
  if (!step || name.size() + 1 < text->size() || step_folder("", *step) != name) {
    return bad_latest(
        folder, text->empty() ? "is empty" : "holds '" + ho::escaped(*text) + "'", steps);
  }
  if (!std::binary_search(steps.begin(), steps.end(), *step)) {
    const bool is_there =
        std::filesystem::exists(std::filesystem::symlink_status(folder / name, error));
    return bad_latest(folder,
                      "names " + name + ", which " +
                          (is_there ? std::string("has no ") + kManifestName : "is not there"),
                      steps);
  }
  return step;
}

// What earlier saves have left, and nothing with a similar name.
ho::Status remove_leftovers(const Path& folder) {
  HORING_ASSIGN(const std::vector<std::string> names, names_in(folder));
  for (const std::string& name : names) {
    if (name.starts_with(kSaving) && step_of(std::string_view(name).substr(kSaving.size()))) {
      HORING_TRY(remove_tree(folder / name));
    }
  }
  return {};
}

// In one step, both being there.
ho::Status exchange(const Path& a, const Path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0
             ? ho::Status()
             : ho::system_error("replacing the checkpoint " + b.string() +
                                    " (remove it, or save to another folder)",
                                errno);
}

}  // namespace

Path step_folder(const Path& folder, uint64_t step) {
  return folder / (std::string(kStep) + std::to_string(step));
}

Path saving_folder(const Path& folder, uint64_t step) {
  return folder / (std::string(kSaving) + std::string(kStep) + std::to_string(step));
}

ho::Result<std::vector<uint64_t>> steps_in(const Path& folder) {
  HORING_ASSIGN(const std::vector<std::string> names, names_in(folder));
  std::vector<uint64_t> steps;
  for (const std::string& name : names) {
    std::error_code error;
    const auto step = step_of(name);
    if (step && step_folder(folder, *step).filename() == name &&
        std::filesystem::is_regular_file(folder / name / kManifestName, error)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

ho::Result<Path> find_checkpoint(const Path& path) {
  if (is_checkpoint(path)) {
    return path;
  }
  HORING_ASSIGN(const std::vector<uint64_t> steps, steps_in(path));
  if (steps.empty()) {
    std::error_code error;
    if (std::filesystem::is_regular_file(path / kTorchMetadata, error)) {
      return ho::Status(ho::StatusCode::kUnsupported,
                        path.string() +
                            " was saved by torch.distributed.checkpoint, whose files libparo does "
                            "not read: load it in Python with torch.distributed.checkpoint.load");
    }
    return ho::invalid(path.string() + " has no checkpoint (no step-N with a " + kManifestName +
                       ")");
  }
  HORING_ASSIGN(const auto latest, latest_step(path, steps));
  return step_folder(path, latest.value_or(steps.back()));
}

ho::Result<ho::Fd> claim_folder(const Path& folder, uint64_t last_step, bool resumes) {
  HORING_ASSIGN(StoreLock lock, StoreLock::take(folder, last_step));
  lock.give_up();
  HORING_ASSIGN(ho::Fd claim, locked(folder, kJob));
  HORING_ASSIGN(const auto steps, steps_in(folder));
  if (!steps.empty() && !resumes) {
    return ho::invalid(folder.string() + " has checkpoints, up to step " +
                       std::to_string(steps.back()) +
                       ": add --resume to go on, or name another folder");
  }
  return claim;
}

ho::Result<StoreLock> StoreLock::take(const Path& folder, uint64_t step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return failed("making", folder, error);
  }
  HORING_ASSIGN(ho::Fd lock, locked(folder, kLock));
  HORING_TRY(remove_leftovers(folder));
  const Path named = step_folder(folder, step);
  if (std::filesystem::exists(std::filesystem::symlink_status(named, error)) &&
      !is_checkpoint(named)) {
    return ho::invalid(named.string() +
                       " is there and is no checkpoint: move it away, or save to "
                       "another folder");
  }
  const Path saving = saving_folder(folder, step);
  if (!std::filesystem::create_directory(saving, error) || error) {
    return failed("making", saving, error);
  }
  return StoreLock(folder, step, std::move(lock));
}

ho::Status StoreLock::publish() {
  const Path saving = saving_folder(folder_, step_);
  const Path named = step_folder(folder_, step_);
  HORING_TRY(sync_folder(saving));
  std::error_code error;
  if (std::filesystem::exists(named, error)) {
    HORING_TRY(exchange(saving, named));
    HORING_TRY(sync_folder(folder_));
    HORING_TRY(remove_tree(saving));
  } else if (std::filesystem::rename(saving, named, error); error) {
    return failed("renaming to", named, error);
  }
  HORING_TRY(sync_folder(folder_));
  return name_latest();
}

void StoreLock::prune(uint32_t keep) const {
  if (const ho::Status status = remove_older(keep); !status.ok()) {
    ho::log_warn("{} is saved, but an older checkpoint stays: {}",
                 step_folder(folder_, step_).string(),
                 status.message());
  }
}

ho::Status StoreLock::name_latest() const {
  const Path saving = saving_folder(folder_, step_);  // its name is free again
  std::error_code error;
  HORING_ASSIGN(File file, File::create(saving));
  HORING_TRY(file.write(step_folder("", step_).string() + "\n"));
  HORING_TRY(file.sync());
  std::filesystem::rename(saving, folder_ / kLatest, error);
  if (error) {
    return failed("naming", folder_ / kLatest, error);
  }
  return sync_folder(folder_);
}

void StoreLock::give_up() {
  // What cannot be removed now is removed by the next save here.
  static_cast<void>(remove_tree(saving_folder(folder_, step_)).ok());
}

// By when they were saved, not by their steps: a job may have gone back.
ho::Status StoreLock::remove_older(uint32_t keep) const {
  if (keep == 0) {
    return {};
  }
  HORING_ASSIGN(std::vector<uint64_t> steps, steps_in(folder_));
  std::erase(steps, step_);
  const auto saved_at = [&](uint64_t step) {
    std::error_code error;
    return std::filesystem::last_write_time(step_folder(folder_, step) / kManifestName, error);
  };
  std::sort(steps.begin(), steps.end(), [&](uint64_t a, uint64_t b) {
    const auto first = saved_at(a);
    const auto second = saved_at(b);
    return first != second ? first < second : a < b;
  });
  for (size_t i = 0; i + (keep - 1) < steps.size(); ++i) {
    // First its name, so that no reader takes half of it for a checkpoint.
    const Path old = step_folder(folder_, steps[i]);
    const Path going = saving_folder(folder_, steps[i]);
    std::error_code error;
    std::filesystem::rename(old, going, error);
    if (error) {
      return failed("removing", old, error);
    }
    HORING_TRY(remove_tree(going));
  }
  return {};
}

}  // namespace paro::checkpoint
