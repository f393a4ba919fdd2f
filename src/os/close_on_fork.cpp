#include "os/close_on_fork.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace ho {
namespace {

struct Descriptors {
  std::mutex mutex;
  std::vector<int> all;
};

// In the child. Their owners are there too, and may close those numbers: no other descriptor of the
// child's may have them by then.
void close_all(std::vector<int>& all) {
  const int nothing = all.empty() ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : all) {
    if (nothing < 0 || ::dup3(nothing, fd, O_CLOEXEC) < 0) {
      ::close(fd);
    }
  }
  if (nothing >= 0) {
    ::close(nothing);
  }
  all.clear();
}

// Process-wide, as descriptors and forks are. Never destroyed: their owners may end later.
Descriptors& descriptors() {
  static Descriptors* const only = [] {
    // The child finds the list whole, as nobody else has the lock.
    ::pthread_atfork([] { descriptors().mutex.lock(); },
                     [] { descriptors().mutex.unlock(); },
                     [] {
                       close_all(descriptors().all);
                       descriptors().mutex.unlock();
                     });
    return new Descriptors;  // NOLINT(cppcoreguidelines-owning-memory)
  }();
  return *only;
}

}  // namespace

void CloseOnFork::set(int fd) {
  if (fd == fd_) {
    return;
  }
  Descriptors& list = descriptors();
  const std::scoped_lock lock(list.mutex);
  std::erase(list.all, fd_);
  if (fd != kNone) {
    list.all.push_back(fd);
  }
  fd_ = fd;
}

}  // namespace ho
