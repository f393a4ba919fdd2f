#include "os/library_file.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "os/fd.hpp"
#include "os/shared_library.hpp"

namespace ho {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

constexpr const char* kCacheFile = "/etc/ld.so.cache";
constexpr size_t kMaxCacheBytes = size_t{64} << 20U;
// A number of 16 bits is all that a header has for its segments.
constexpr size_t kMaxSegments = 65535;

// Of this program or library: what it can load is of the same kind.
const Header* own_header() {
  static const char here = 0;
  return static_cast<const Header*>(loaded_from(&here).base);
}

struct OpenFile {
  Fd fd;
  mode_t kind = 0;
  uint64_t bytes = 0;
};

// Waits for nobody, as for a writer of a named pipe.
std::optional<OpenFile> open_file(const std::string& path) {
  OpenFile file{Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))};
  struct stat about {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &about) != 0) {
    return std::nullopt;
  }
  file.kind = about.st_mode & S_IFMT;
  file.bytes = static_cast<uint64_t>(about.st_size);
  return file;
}

bool read_at(const OpenFile& file, uint64_t at, void* to, size_t bytes) {
  return at <= file.bytes &&
         ::pread(file.fd.get(), to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

std::optional<Header> header_of(const OpenFile& file) {
  Header header{};
  const bool is_elf = file.kind == S_IFREG && read_at(file, 0, &header, sizeof header) &&
                      std::memcmp(&header.e_ident, ELFMAG, SELFMAG) == 0;
  return is_elf ? std::optional(header) : std::nullopt;
}

// The loader passes over libraries for other machines, and stops at everything else that it can
// open.
bool is_taken(const std::string& path) {
  const auto file = open_file(path);
  if (!file) {
    return false;
  }
  const auto header = header_of(*file);
  const Header* const own = own_header();
  return !header || own == nullptr ||
         (header->e_ident[EI_CLASS] == own->e_ident[EI_CLASS] &&
          header->e_machine == own->e_machine);
}

// The loader's cache: a header, entries of flags, name and path, and their texts behind them. Both
// numbers of an entry count from the header's begin.
struct CacheHeader {
  std::array<char, 20> magic;
  uint32_t entry_count;
  uint32_t text_bytes;
  std::array<uint32_t, 5> others;
};
struct CacheEntry {
  int32_t flags;
  uint32_t name_at;
  uint32_t path_at;
  uint32_t os_version;
  uint64_t hardware;
};
constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
static_assert(sizeof(CacheHeader) == 48 && sizeof(CacheEntry) == 24);

std::string_view text_at(std::string_view cache, size_t at) {
  const std::string_view rest = cache.substr(std::min(at, cache.size()));
  return rest.substr(0, rest.find('\0'));
}

// Paths under that name. Those for newer processors only, which stand in folders of their own, are
// left out: the loader knows which it may take, and the plain one is always there beside them.
std::vector<std::string> in_cache(const std::string& name) {
  const auto text = read_text_file(kCacheFile, kMaxCacheBytes);
  // Before glibc 2.32 an older table stood in front.
  const size_t start = text.ok() ? text->find(kCacheMagic) : std::string::npos;
  if (start == std::string::npos) {
    return {};
  }
  const std::string_view cache = std::string_view(*text).substr(start);
  CacheHeader header{};
  if (cache.size() < sizeof header) {
    return {};
  }
  std::memcpy(&header, cache.data(), sizeof header);
  std::vector<std::string> paths;
  size_t at = sizeof header;
  for (uint32_t i = 0; i < header.entry_count && cache.size() - at >= sizeof(CacheEntry); ++i) {
    CacheEntry entry{};
    std::memcpy(&entry, cache.data() + at, sizeof entry);
    at += sizeof entry;
    if (entry.hardware == 0 && text_at(cache, entry.name_at) == name) {
      paths.emplace_back(text_at(cache, entry.path_at));
    }
  }
  return paths;
}

// The folders where the loader looks for what this library or program opens, in its order, and
// behind which of them its cache comes.
struct Folders {
  std::vector<std::string> before_cache;
  std::vector<std::string> after_cache;
};

Folders folders() {
  static const char here = 0;
  const std::string own = loaded_from(&here).file;
  // The program is known to the loader as "" only.
  void* library = ::dlopen(own.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  library = library == nullptr ? ::dlopen(nullptr, RTLD_LAZY) : library;
  Folders found;
  Dl_serinfo size{};
  if (library != nullptr && ::dlinfo(library, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* const list = reinterpret_cast<Dl_serinfo*>(memory.data());
    list->dls_size = size.dls_size;
    list->dls_cnt = size.dls_cnt;
    if (::dlinfo(library, RTLD_DI_SERINFO, list) == 0) {
      for (unsigned i = 0; i < list->dls_cnt; ++i) {
        const Dl_serpath& folder = list->dls_serpath[i];
        (folder.dls_flags == LA_SER_DEFAULT ? found.after_cache : found.before_cache)
            .emplace_back(folder.dls_name);
      }
    }
  }
  if (library != nullptr) {
    ::dlclose(library);
  }
  return found;
}

}  // namespace

std::string find_library(const std::string& name) {
  if (name.empty()) {
    return {};
  }
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    const Folders where = folders();
    const auto add = [&](const std::vector<std::string>& list) {
      for (const std::string& folder : list) {
        candidates.push_back((folder.empty() ? "." : folder) + "/" + name);
      }
    };
    add(where.before_cache);
    const auto cached = in_cache(name);
    candidates.insert(candidates.end(), cached.begin(), cached.end());
    add(where.after_cache);
  }
  const auto taken = std::ranges::find_if(candidates, is_taken);
  return taken == candidates.end() ? std::string() : *taken;
}

Status check_file_kind(const std::string& path) {
  const auto file = open_file(path);
  if (!file || file->kind == S_IFREG) {
    return {};
  }
  if (file->kind == S_IFIFO) {
    return invalid(path +
                   " is a named pipe and no library; a process that loads it waits until something "
                   "writes to it, so name a library");
  }
  return {StatusCode::kSystem,
          path + " is a " + (file->kind == S_IFDIR ? "folder" : "device") +
              " and no library; name a library"};
}

Status check_library_file(const std::string& path) {
  const auto file = open_file(path);
  const auto header = file ? header_of(*file) : std::nullopt;
  if (!header || header->e_phentsize != sizeof(Segment)) {
    return {};
  }
  std::vector<Segment> segments(std::min<size_t>(header->e_phnum, kMaxSegments));
  if (!read_at(*file, header->e_phoff, segments.data(), segments.size() * sizeof(Segment))) {
    return {};
  }
  for (const Segment& segment : segments) {
    const bool whole =
        segment.p_offset <= file->bytes && segment.p_filesz <= file->bytes - segment.p_offset;
    if (segment.p_type == PT_LOAD && !whole) {
      return invalid(path + " is cut off: it has " + std::to_string(file->bytes) +
                     " bytes and is to be mapped from byte " + std::to_string(segment.p_offset) +
                     " on for " + std::to_string(segment.p_filesz) +
                     "; a process that loads it is killed by SIGBUS, so install it again");
    }
  }
  return {};
}

}  // namespace ho
