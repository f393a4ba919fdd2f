#include "checkpoint/store.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.hpp"

namespace paro::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kSaving = ".saving-";
constexpr const char* kLock = ".lock";

ho::Status failed(const char* what, const Path& path, const std::error_code& error) {
  return {ho::StatusCode::kSystem,
          std::string(what) + " " + path.string() + ": " + error.message()};
}

bool parse_step(std::string_view name, uint64_t& step) {
  if (!name.starts_with(kStep)) {
    return false;
  }
  name.remove_prefix(kStep.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size();
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
    uint64_t step = 0;
    std::error_code error;
    if (parse_step(name, step) && step_folder(folder, step).filename() == name &&
        std::filesystem::is_regular_file(folder / name / kManifestName, error)) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

ho::Result<Path> find_checkpoint(const Path& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path / kManifestName, error)) {
    return path;
  }
  HORING_ASSIGN(const std::vector<uint64_t> steps, steps_in(path));
  if (steps.empty()) {
    return ho::Status(
        ho::StatusCode::kInvalidArgument,
        path.string() + " has no checkpoint (no step-N with a " + kManifestName + ")");
  }
  return step_folder(path, steps.back());
}

ho::Result<StoreLock> StoreLock::take(const Path& folder, uint64_t step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return failed("making", folder, error);
  }
  constexpr mode_t kMode = 0644;
  const Path path = folder / kLock;
  ho::Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!lock.valid()) {
    return ho::system_error("open(" + path.string() + ")", errno);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? ho::Status(ho::StatusCode::kInvalidArgument,
                            "another job is saving to " + folder.string() + "; give each its own")
               : ho::system_error("flock(" + path.string() + ")", errno);
  }
  HORING_ASSIGN(const std::vector<std::string> names, names_in(folder));
  for (const std::string& name : names) {
    if (name.starts_with(kSaving)) {
      HORING_TRY(remove_tree(folder / name));
    }
  }
  const Path saving = saving_folder(folder, step);
  if (!std::filesystem::create_directory(saving, error) || error) {
    return failed("making", saving, error);
  }
  return StoreLock(folder, step, std::move(lock));
}

ho::Status StoreLock::publish(uint32_t keep) {
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
  return prune(keep);
}

void StoreLock::give_up() {
  // What cannot be removed now is when somebody saves here again.
  static_cast<void>(remove_tree(saving_folder(folder_, step_)).ok());
}

// The one just published stays even if others have higher numbers.
ho::Status StoreLock::prune(uint32_t keep) const {
  if (keep == 0) {
    return {};
  }
  HORING_ASSIGN(std::vector<uint64_t> steps, steps_in(folder_));
  std::erase(steps, step_);
  for (size_t i = 0; i + (keep - 1) < steps.size(); ++i) {
    // First its name, so that nobody takes half of it for a checkpoint.
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
