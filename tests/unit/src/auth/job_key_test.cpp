#include "auth/job_key.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "auth/key_file.hpp"
#include "auth/printable.hpp"
#include "catch.hpp"

using namespace ho;

namespace {

using View = std::span<const std::byte>;

View view(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class KeyFile {
 public:
  explicit KeyFile(const std::string& contents, mode_t mode = 0600)
      : path_(std::filesystem::temp_directory_path() /
              ("horing-key-test-" + std::to_string(::getpid()))) {
    std::filesystem::remove(path_);
    std::ofstream(path_) << contents;
    ::chmod(path_.c_str(), mode);
  }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;
  ~KeyFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::array<std::byte, 32> mark_of(const JobKey& key) {
  return key.authenticate("test", {});
}

}  // namespace

TEST_CASE("a secret needs sixteen characters") {
  CHECK(JobKey::from_text(std::string(15, 'a')).status().code() == StatusCode::kInvalidArgument);
  CHECK(JobKey::from_text(std::string(16, 'a')).ok());
  CHECK_FALSE(JobKey::from_text(std::string(4097, 'a')).ok());
  const auto key = JobKey::from_text("sixteen characters and more").value();
  CHECK(key->authenticated());
  CHECK(mark_of(*key) == mark_of(*JobKey::from_text("sixteen characters and more").value()));
  CHECK(mark_of(*key) != mark_of(*JobKey::from_text("sixteen characters and morf").value()));
}

TEST_CASE("generated secrets are long, different and usable") {
  const std::string a = JobKey::generate_text();
  CHECK(a.size() == 43);
  CHECK(a != JobKey::generate_text());
  CHECK(JobKey::from_text(a).ok());
}

TEST_CASE("the keyed hash separates purposes and the borders between parts") {
  const auto key = JobKey::from_text("sixteen characters and more").value();
  const std::string ab = "ab";
  const std::string c = "c";
  const std::string a = "a";
  const std::string bc = "bc";
  const std::array<View, 2> one{view(ab), view(c)};
  const std::array<View, 2> two{view(a), view(bc)};
  CHECK(key->authenticate("p", one) == key->authenticate("p", one));
  CHECK(key->authenticate("p", one) != key->authenticate("p", two));
  CHECK(key->authenticate("p", one) != key->authenticate("q", one));
  const std::array<View, 1> shorter{view(ab)};
  CHECK(key->authenticate("p", one) != key->authenticate("p", shorter));
}

TEST_CASE("without a key only loopback is allowed") {
  const auto closed = JobKey::none(false);
  CHECK_FALSE(closed->authenticated());
  for (const std::string address : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    INFO(address);
    CHECK(closed->allows_address(address).ok());
  }
  for (const std::string address :
       {"10.0.0.1", "128.0.0.1", "::", "::2", "fe80::1", "::ffff:10.0.0.1", "", "127.evil.org"}) {
    INFO(address);
    const Status status = closed->allows_address(address);
    CHECK(status.code() == StatusCode::kUnauthenticated);
    CHECK(status.message().find("HORING_JOB_KEY") != std::string::npos);
  }
  CHECK(JobKey::none(true)->allows_address("10.0.0.1").ok());
  CHECK(JobKey::from_text("sixteen characters and more").value()->allows_address("10.0.0.1").ok());
}

TEST_CASE("the secret of a key file is its first line") {
  CHECK(secret_in_key_file("abc").value() == "abc");
  CHECK(secret_in_key_file(" \tabc \r\nrest").value() == "abc");
  CHECK_FALSE(secret_in_key_file("").ok());
  CHECK_FALSE(secret_in_key_file("\nabc").ok());
  CHECK_FALSE(secret_in_key_file("  \r\n").ok());
  CHECK_FALSE(secret_in_key_file(std::string_view("a\0b", 3)).ok());
}

TEST_CASE("a key file must be its owner's alone") {
  {
    const KeyFile file("sixteen characters and more\n");
    const auto key = JobKey::from_file(file.path());
    REQUIRE(key.ok());
    CHECK(mark_of(**key) == mark_of(*JobKey::from_text("sixteen characters and more").value()));
  }
  {
    const KeyFile file("sixteen characters and more\n", 0640);
    const Status status = JobKey::from_file(file.path()).status();
    CHECK(status.code() == StatusCode::kUnauthenticated);
    CHECK(status.message().find("chmod 600") != std::string::npos);
  }
  {
    const KeyFile file("too short");
    const Status status = JobKey::from_file(file.path()).status();
    CHECK(status.message().find(file.path()) != std::string::npos);
    CHECK(status.message().find("too short") == std::string::npos);
  }
  CHECK(JobKey::from_file("/nonexistent/key").status().code() == StatusCode::kSystem);
  CHECK(JobKey::from_file("/tmp").status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("printable text has no control characters and a bound") {
  CHECK(printable("a\nb\x1b\xff~ ", 100) == "a?b??~ ");
  CHECK(printable("abcdef", 3) == "abc");
}
