// A library that is opened while the program runs.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"

namespace ho {

// dlopen with these flags, for a library that stays; "" is the program itself. Never one whose file
// is cut off, which would kill the process, or is a named pipe, at which it would wait.
// kInvalidArgument: that, and which file. kSystem: it is a folder or a device, or the loader's
// text.
[[nodiscard]] Result<void*> load_library(const std::string& file, int flags);

// Closed with the object: what was found in it must not be used any more then.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  // A file's name without a slash is looked for where the loader looks for libraries. Everything
  // that it needs is resolved at once, and its symbols serve no other library. Errors are those of
  // load_library().
  [[nodiscard]] static Result<SharedLibrary> open(const std::string& file);
  // Null where it has no such symbol.
  [[nodiscard]] void* find(const std::string& symbol) const;

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Close> handle_;
};

// What the loader knows about the library or program that the address lies in.
struct LoadedFrom {
  std::string file;            // "" where it does not know
  const void* base = nullptr;  // the same for all that lies in it
};
[[nodiscard]] LoadedFrom loaded_from(const void* address);

}  // namespace ho
