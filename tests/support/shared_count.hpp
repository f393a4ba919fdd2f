// A number that processes forked after it was made share, for the order of what they do where no
// communicator may say it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace ho::test {

class SharedCount {
 public:
  SharedCount() {
    void* const memory =
        ::mmap(nullptr, sizeof *count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw std::bad_alloc();
    }
    count_ = new (memory) std::atomic<uint64_t>(0);
  }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  ~SharedCount() { ::munmap(static_cast<void*>(count_), sizeof *count_); }

  [[nodiscard]] uint64_t value() const { return count_->load(); }
  void set(uint64_t value) const { count_->store(value); }
  void add() const { count_->fetch_add(1); }
  // Whether it came to `count` within two minutes.
  [[nodiscard]] bool wait_for(uint64_t count) const {
    for (int ms = 0; value() < count && ms < 120'000; ++ms) {
      ::usleep(1000);
    }
    return value() >= count;
  }

 private:
  std::atomic<uint64_t>* count_ = nullptr;
};

}  // namespace ho::test
