// A descriptor that children of this process do not get when it forks without exec, as PyTorch's
// data loaders do. A socket that a child holds too does not end with its process: the peer would
// hear of that death only when the last child ends. Any thread.
#pragma once

namespace ho {

// Does not own it. Where its owner is a class, it stands behind the owned descriptor there, so that
// it ends first.
class CloseOnFork {
 public:
  CloseOnFork() = default;
  explicit CloseOnFork(int fd) { set(fd); }
  CloseOnFork(const CloseOnFork&) = delete;
  CloseOnFork& operator=(const CloseOnFork&) = delete;
  ~CloseOnFork() { set(kNone); }

  static constexpr int kNone = -1;
  // It is about this one from now on. kNone before that one is closed: its number is somebody
  // else's then.
  void set(int fd);

 private:
  int fd_ = kNone;
};

}  // namespace ho
