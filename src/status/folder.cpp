#include "status/folder.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "base/quantity.hpp"
#include "os/fd.hpp"

namespace ho {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthers = 077;
constexpr size_t kJobDigits = 16;
constexpr size_t kHostDigits = 8;

template <typename Number>
std::optional<Number> hex_number(std::string_view text, size_t digits) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, 16);
  return text.size() == digits && error == std::errc() && rest == end ? std::optional(number)
                                                                      : std::nullopt;
}

}  // namespace

std::vector<std::string> status_folders() {
  if (const auto set = env::text_if_set(env::kStatusDir)) {
    return *set == "none" ? std::vector<std::string>() : std::vector{*set};
  }
  const uid_t user = ::geteuid();
  std::vector<std::string> folders;
  const std::string runtime = fmt::format("/run/user/{}", user);
  const char* const xdg = std::getenv("XDG_RUNTIME_DIR");
  if (xdg != nullptr && *xdg == '/' && xdg != runtime) {
    folders.push_back(std::string(xdg) + "/horing");
  }
  folders.push_back(runtime + "/horing");
  folders.push_back(fmt::format("/tmp/horing-{}", user));
  return folders;
}

Status check_status_folder(const std::string& path) {
  const Fd folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) {
    return errno == ENOTDIR || errno == ELOOP
               ? invalid(path + ": is no folder; remove it, or name one in HORING_STATUS_DIR")
               : system_error("open " + path, errno);
  }
  struct stat there {};
  if (::fstat(folder.get(), &there) != 0) {
    return system_error("fstat " + path, errno);
  }
  if (there.st_uid != ::geteuid()) {
    return invalid(
        fmt::format("{}: belongs to user {}, not to user {}, who runs this; name another folder in "
                    "HORING_STATUS_DIR",
                    path,
                    there.st_uid,
                    ::geteuid()));
  }
  if ((there.st_mode & kOthers) != 0) {
    return invalid(fmt::format(
        "{}: other users may enter it (mode {:o}); chmod 700 it", path, there.st_mode & 07777U));
  }
  return {};
}

Result<std::string> make_status_folder(const std::vector<std::string>& folders) {
  Status first;
  for (const std::string& folder : folders) {
    // Where the folder above is not there, the next one is taken.
    const bool made = ::mkdir(folder.c_str(), kOwnerOnly) == 0 || errno == EEXIST;
    const Status status =
        made ? check_status_folder(folder) : system_error("mkdir " + folder, errno);
    if (status.ok()) {
      return folder;
    }
    // What is wrong with a folder that is there is worth more than that another one is not.
    first = first.ok() || first.code() == StatusCode::kSystem ? status : first;
  }
  return first.ok() ? invalid("HORING_STATUS_DIR=none") : first;
}

std::string job_name(uint64_t job) {
  return fmt::format("{:016x}", job);
}

uint32_t status_host() {
  std::array<char, kHostDigits> id{};
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (file.valid() && ::read(file.get(), id.data(), id.size()) == kHostDigits) {
    if (const auto number = hex_number<uint32_t>({id.data(), id.size()}, kHostDigits)) {
      return *number;
    }
  }
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return static_cast<uint32_t>(Hash().add(std::string_view(name.data())).value());
}

std::string to_string(const StatusSocketName& name) {
  return fmt::format("{}-{}-{}-{:08x}", job_name(name.job), name.rank, name.pid, name.host);
}

std::optional<StatusSocketName> parse_status_socket_name(std::string_view text) {
  const auto job = hex_number<uint64_t>(take_until(text, '-'), kJobDigits);
  const auto rank = whole_number<uint32_t>(take_until(text, '-'));
  const auto pid = whole_number<pid_t>(take_until(text, '-'));
  const auto host = hex_number<uint32_t>(text, kHostDigits);
  if (!job || !rank || !pid || *pid <= 0 || !host) {
    return std::nullopt;
  }
  return StatusSocketName{*job, *rank, *pid, *host};
}

}  // namespace ho
