// What is said of a library's file before it is loaded, against what the loader makes of it.
#include "os/library_file.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "catch.hpp"
#include "has.hpp"
#include "os/fd.hpp"
#include "os/shared_library.hpp"
#include "temporary_folder.hpp"

namespace {

using ho::check_file_kind;
using ho::check_library_file;
using ho::find_library;
using ho::StatusCode;

// Whether a process of its own outlives the loader's look at that file, loaded or not.
bool survives_loading(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDERR_FILENO);  // what a sanitizer says of it
    (void)::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("a library is found where the loader finds it") {
  for (const char* const name : {"libm.so.6", "libc.so.6", "libstdc++.so.6"}) {
    CAPTURE(name);
    const auto library = ho::load_library(name, RTLD_NOW);
    REQUIRE(library.ok());
    link_map* map = nullptr;
    REQUIRE(::dlinfo(*library, RTLD_DI_LINKMAP, &map) == 0);
    CHECK(std::filesystem::equivalent(find_library(name), map->l_name));
  }
  CHECK(find_library("/no/such/libx.so").empty());
  CHECK(find_library("libsurely-nothing.so").empty());
  CHECK(find_library("./libm.so.6").empty());
}

TEST_CASE("a library's file is refused wherever loading it would kill the process") {
  const ho::test::TemporaryFolder folder;
  const std::string copy = folder.path("libcopy.so");
  std::filesystem::copy_file(find_library("libm.so.6"), copy);
  const auto whole = std::filesystem::file_size(copy);
  CHECK(check_library_file(copy).ok());
  CHECK(survives_loading(copy));
  bool killed = false;
  constexpr uintmax_t kCuts = 16;
  for (uintmax_t i = kCuts; i-- > 0;) {
    const uintmax_t bytes = whole * i / kCuts;
    CAPTURE(bytes, whole);
    std::filesystem::resize_file(copy, bytes);
    const ho::Status checked = check_library_file(copy);
    const bool survived = survives_loading(copy);
    killed = killed || !survived;
    CHECK((survived || !checked.ok()));
    CHECK((checked.ok() || checked.code() == StatusCode::kInvalidArgument));
    CHECK_FALSE(ho::load_library(copy, RTLD_NOW).ok());
  }
  CHECK(killed);
}

TEST_CASE("what is no regular file is refused before the loader opens it, which could wait") {
  const ho::test::TemporaryFolder folder;
  const std::string pipe = folder.path("libpipe.so");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto waits = ho::load_library(pipe, RTLD_NOW);
  CHECK(waits.status().code() == StatusCode::kInvalidArgument);
  CHECK(has(waits.status(), pipe + " is a named pipe and no library"));
  for (const auto& [path, kind] : {std::pair("/", "folder"), {"/dev/zero", "device"}}) {
    const auto refused = ho::load_library(path, RTLD_NOW);
    CHECK(refused.status().code() == StatusCode::kSystem);
    CHECK(has(refused.status(), std::string(path) + " is a " + kind + " and no library"));
  }
  const std::string at_index = folder.path("libsocket.so");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  at_index.copy(&address.sun_path[0], sizeof address.sun_path - 1);
  const ho::Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(ho::load_library(at_index, RTLD_NOW).status().code() == StatusCode::kSystem);
}

TEST_CASE("what is no library is left for the loader to refuse") {
  for (const char* const path : {"", "/etc/passwd", "/no/such/file"}) {
    CHECK(check_file_kind(path).ok());
    CHECK(check_library_file(path).ok());
  }
  const auto refused = ho::load_library("/etc/passwd", RTLD_NOW);
  CHECK(refused.status().code() == StatusCode::kSystem);
}

}  // namespace
