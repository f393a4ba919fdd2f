// A mapped anonymous memory file (memfd). It has no name in any file system and ends with its last
// user, however that ends. Its size is sealed, so that no holder can take pages away from another.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "os/fd.hpp"
#include "os/mapping.hpp"

namespace ho {

class SharedMemory {
 public:
  // Zero-filled, read-write, `bytes` > 0. `name` shows in /proc/PID/maps only.
  [[nodiscard]] static Result<SharedMemory> create(const std::string& name, size_t bytes);
  // Maps another process's memory file. It must be exactly `expected_bytes` long and sealed against
  // shrinking, otherwise touching it could kill this process.
  [[nodiscard]] static Result<SharedMemory> attach(Fd fd, size_t expected_bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_of(mapping_); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Closes the descriptor and keeps the mapping.
  void close_fd() { fd_.reset(); }

 private:
  SharedMemory(Fd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  [[nodiscard]] static Result<SharedMemory> map(Fd fd, size_t bytes);

  Fd fd_;
  Mapping mapping_;
};

}  // namespace ho
