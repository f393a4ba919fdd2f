#include "os/shared_library.hpp"

#include <dlfcn.h>

namespace ho {

Result<SharedLibrary> SharedLibrary::open(const std::string& file) {
  SharedLibrary library;
  library.handle_.reset(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library.handle_ == nullptr) {
    const char* const why = ::dlerror();
    return Status(StatusCode::kSystem, why == nullptr ? file + " cannot be opened" : why);
  }
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
