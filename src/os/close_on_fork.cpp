#include "os/close_on_fork.hpp"

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

// Process-wide, as descriptors and forks are. Never destroyed: their owners may end later.
Descriptors& descriptors() {
  static Descriptors* const only = [] {
    // The child finds the list whole, as nobody else has the lock.
    ::pthread_atfork([] { descriptors().mutex.lock(); },
                     [] { descriptors().mutex.unlock(); },
                     [] {
                       for (const int fd : descriptors().all) {
                         ::close(fd);
                       }
                       descriptors().all.clear();
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
