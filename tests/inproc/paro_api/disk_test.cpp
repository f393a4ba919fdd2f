// The order in which a checkpoint reaches the disk: what a power cut must not find otherwise. This
// program's own fsync and rename note what they are called with, then ask the kernel; libparo and
// the standard library call them, as the linker takes a program's functions first.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;
using ho::test::TemporaryFolder;

namespace {

// Notes the calls of the whole process that concern files below a folder, while it lives.
class DiskJournal {
 public:
  explicit DiskJournal(std::filesystem::path root) : root_(std::move(root)) {
    const std::scoped_lock lock(guard());
    current() = this;
  }
  DiskJournal(const DiskJournal&) = delete;
  DiskJournal& operator=(const DiskJournal&) = delete;
  ~DiskJournal() {
    const std::scoped_lock lock(guard());
    current() = nullptr;
  }

  static void note_sync(int fd) {
    std::error_code error;
    const auto path =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string();
    note({"sync", path, ""});
  }
  static void note_rename(const std::string& verb, const char* from, const char* to) {
    note({verb, from, to});
  }
  // What was noted since the last time.
  std::vector<std::string> take() {
    const std::scoped_lock lock(guard());
    return std::exchange(lines_, {});
  }

 private:
  struct Call {
    std::string verb;
    std::string path;
    std::string to;  // of a rename
  };
  static std::mutex& guard() {
    static std::mutex mutex;
    return mutex;
  }
  static DiskJournal*& current() {
    static DiskJournal* journal = nullptr;
    return journal;
  }
  static void note(const Call& call) {
    const std::scoped_lock lock(guard());
    DiskJournal* const journal = current();
    if (journal != nullptr && call.path.starts_with(journal->root_.string())) {
      const std::string to = call.to.empty() ? "" : " " + journal->named(call.to);
      journal->lines_.push_back(call.verb + " " + journal->named(call.path) + to);
    }
  }
  [[nodiscard]] std::string named(const std::string& path) const {
    return std::filesystem::path(path).lexically_relative(root_).string();
  }

  const std::filesystem::path root_;
  std::vector<std::string> lines_;
};

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int fsync(int fd) {
  DiskJournal::note_sync(fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

[[gnu::visibility("default")]] int rename(const char* from, const char* to) noexcept {
  DiskJournal::note_rename("rename", from, to);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

[[gnu::visibility("default")]] int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  DiskJournal::note_rename((flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", from, to);
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

}  // extern "C"

TEST_CASE(
    "what a checkpoint consists of is on the disk before its name, and its name before more") {
  const TemporaryFolder folder;
  // As the kernel names it.
  const std::filesystem::path root = std::filesystem::canonical(folder.root());
  const std::vector<std::string> written{"sync .saving-step-1/rank-00000.safetensors",
                                         "sync .saving-step-1",
                                         "sync .saving-step-1/manifest.json",
                                         "sync .saving-step-1"};
  // `latest` is written under the free name of the folder.
  const std::vector<std::string> named{
      "sync .", "sync .saving-step-1", "rename .saving-step-1 latest", "sync ."};
  const auto joined = [&](const std::vector<std::string>& between) {
    std::vector<std::string> all = written;
    all.insert(all.end(), between.begin(), between.end());
    all.insert(all.end(), named.begin(), named.end());
    return all;
  };
  std::vector<std::string> first;
  std::vector<std::string> again;
  require_job({"1x1"}, [&](ho_comm* comm) {
    toy::Training training = hard_training(parse_strategy("NNN").value(), 1);
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    DiskJournal journal(root);
    must(paro_runner_save(trainer.runner(), root.c_str(), nullptr));
    first = journal.take();
    must(paro_runner_save(trainer.runner(), root.c_str(), nullptr));
    again = journal.take();
  });
  CHECK(first == joined({"rename .saving-step-1 step-1"}));
  // The one that was there goes once the exchange is on the disk.
  CHECK(again == joined({"exchange .saving-step-1 step-1", "sync ."}));
}
