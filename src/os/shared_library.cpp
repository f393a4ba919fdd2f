#include "os/shared_library.hpp"

#include <dlfcn.h>

#include "os/library_file.hpp"

namespace ho {

Result<void*> load_library(const std::string& file, int flags) {
  // First of all: the loader opens a file even to see whether it is loaded.
  const std::string found = find_library(file);
  HORING_TRY(check_file_kind(found));
  // One that is open already needs no file, whatever has become of it.
  const char* const name = file.empty() ? nullptr : file.c_str();
  if (void* const open = ::dlopen(name, flags | RTLD_NOLOAD); open != nullptr) {
    return open;
  }
  HORING_TRY(check_library_file(found));
  // By the path, so that what was checked is what is loaded.
  void* const library = ::dlopen(found.empty() ? name : found.c_str(), flags);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return Status(StatusCode::kSystem, why == nullptr ? file + " cannot be opened" : why);
  }
  return library;
}

Result<SharedLibrary> SharedLibrary::open(const std::string& file) {
  SharedLibrary library;
  HORING_ASSIGN(void* const handle, load_library(file, RTLD_NOW | RTLD_LOCAL));
  library.handle_.reset(handle);
  return library;
}

void* SharedLibrary::find(const std::string& symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_.get(), symbol.c_str());
}

void SharedLibrary::Close::operator()(void* handle) const {
  ::dlclose(handle);
}

LoadedFrom loaded_from(const void* address) {
  Dl_info where{};
  if (::dladdr(address, &where) == 0 || where.dli_fname == nullptr) {
    return {};
  }
  return {where.dli_fname, where.dli_fbase};
}

}  // namespace ho
