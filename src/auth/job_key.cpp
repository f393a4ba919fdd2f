// A job key is a hash of the secret text, so that any text will do and equal texts give equal keys.
// It is a plain fast hash, not a password hash: a secret is meant to be random (generate_text), and
// docs/design/adr/0004-authentication.md describes the risk of a guessable one.
#include "auth/job_key.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "auth/key_file.hpp"
#include "base/env.hpp"

namespace ho {
namespace {

constexpr std::string_view kKeyDomain = "horing job key v1";
constexpr std::string_view kNoKeyDomain = "horing without a job key v1";

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Safe to call often and from any thread.
Status sodium_ready() {
  if (sodium_init() < 0) {
    return {StatusCode::kSystem,
            "libsodium could not be initialised: no source of random numbers on this host?"};
  }
  return {};
}

// Closes and wipes whatever happens in between.
class SecretFile {
 public:
  SecretFile() = default;
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  ~SecretFile() {
    sodium_memzero(buffer_.data(), buffer_.size());
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  [[nodiscard]] Status open(const std::string& path) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd_ < 0) {
      return system_error("open job key file " + path, errno);
    }
    struct stat file {};
    if (::fstat(fd_, &file) != 0) {
      return system_error("fstat job key file " + path, errno);
    }
    if (!S_ISREG(file.st_mode)) {
      return invalid("job key file " + path + " is not a regular file");
    }
    if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      return {
          StatusCode::kUnauthenticated,
          "job key file " + path + " can be used by others than its owner; run: chmod 600 " + path};
    }
    return {};
  }

  [[nodiscard]] Result<std::string_view> read(const std::string& path) {
    size_t filled = 0;
    while (filled < buffer_.size()) {
      const ssize_t got = ::read(fd_, buffer_.data() + filled, buffer_.size() - filled);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return system_error("read job key file " + path, errno);
      }
      if (got == 0) {
        break;
      }
      filled += static_cast<size_t>(got);
    }
    return std::string_view(buffer_.data(), filled);
  }

 private:
  int fd_ = -1;
  std::array<char, kMaxSecretBytes + 1> buffer_{};
};

bool is_loopback(std::string_view address) {
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) {
    address.remove_prefix(kMapped.size());
  }
  // Numeric addresses only: a host name that begins with "127." must not pass.
  return address == "::1" || (address.starts_with("127.") &&
                              address.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace

Result<std::string_view> secret_in_key_file(std::string_view contents) {
  std::string_view line = contents.substr(0, contents.find('\n'));
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return invalid("the first line is empty; it must be the secret");
  }
  line = line.substr(first, line.find_last_not_of(kBlank) - first + 1);
  if (line.find('\0') != std::string_view::npos) {
    return invalid("the first line holds a zero byte; it must be text");
  }
  return line;
}

Result<std::shared_ptr<const JobKey>> JobKey::from_text(std::string_view secret) {
  HORING_TRY(sodium_ready());
  if (secret.size() < kMinSecretBytes || secret.size() > kMaxSecretBytes) {
    return invalid("a job key needs 16 to 4096 characters, this one has " +
                   std::to_string(secret.size()) + "; make one with: openssl rand -base64 32");
  }
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::shared_ptr<JobKey> key(new JobKey());
  crypto_generichash(key->key_.data(),
                     key->key_.size(),
                     bytes_of(secret),
                     secret.size(),
                     bytes_of(kKeyDomain),
                     kKeyDomain.size());
  key->authenticated_ = true;
  return std::shared_ptr<const JobKey>(std::move(key));
}

Result<std::shared_ptr<const JobKey>> JobKey::from_file(const std::string& path) {
  HORING_TRY(sodium_ready());
  SecretFile file;
  HORING_TRY(file.open(path));
  HORING_ASSIGN(const std::string_view contents, file.read(path));
  auto secret = secret_in_key_file(contents);
  if (!secret.ok()) {
    return secret.status().with_context("job key file " + path);
  }
  auto key = from_text(*secret);
  if (!key.ok()) {
    return key.status().with_context("job key file " + path);
  }
  return key;
}

Result<std::shared_ptr<const JobKey>> JobKey::from_environment() {
  if (auto secret = env::text_if_set(env::kJobKey)) {
    auto key = from_text(*secret);
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.InnerPointer): `secret` is not touched in between
    sodium_memzero(secret->data(), secret->size());
    if (!key.ok()) {
      return key.status().with_context("HORING_JOB_KEY");
    }
    return key;
  }
  // A script whose secret was lost must not go on without one.
  if (env::is_set_to_nothing(env::kJobKey)) {
    return from_text("").status().with_context("HORING_JOB_KEY");
  }
  if (const auto path = env::text_if_set(env::kJobKeyFile)) {
    return from_file(*path);
  }
  HORING_TRY(sodium_ready());
  HORING_ASSIGN(const bool allow, env::flag(env::kAllowUnauthenticated));
  return none(allow);
}

std::shared_ptr<const JobKey> JobKey::none(bool allow_any_address) {
  (void)sodium_ready();  // without it the same functions run, only slower
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::shared_ptr<JobKey> key(new JobKey());
  crypto_generichash(
      key->key_.data(), key->key_.size(), nullptr, 0, bytes_of(kNoKeyDomain), kNoKeyDomain.size());
  key->allow_any_address_ = allow_any_address;
  return key;
}

std::string JobKey::generate_text() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text(43, '\0');
  if (!sodium_ready().ok()) {
    return {};  // from_text refuses the empty text with a reason
  }
  for (char& character : text) {
    character = kAlphabet[randombytes_uniform(static_cast<uint32_t>(kAlphabet.size()))];
  }
  return text;
}

JobKey::~JobKey() {
  sodium_memzero(key_.data(), key_.size());
}

Status JobKey::allows_address(std::string_view numeric_address) const {
  if (authenticated_ || allow_any_address_ || is_loopback(numeric_address)) {
    return {};
  }
  return {StatusCode::kUnauthenticated,
          "no job key is set, so only this host's loopback may be used, not " +
              std::string(numeric_address) +
              "; set HORING_JOB_KEY or HORING_JOB_KEY_FILE to the same secret on all ranks "
              "(horing run does), or HORING_ALLOW_UNAUTHENTICATED=1 if everyone who can reach "
              "the ports is trusted"};
}

std::array<std::byte, 32> JobKey::authenticate(
    std::string_view purpose, std::span<const std::span<const std::byte>> parts) const {
  crypto_generichash_state state;
  std::array<unsigned char, 32> hash{};
  crypto_generichash_init(&state, key_.data(), key_.size(), hash.size());
  const auto update = [&state](const unsigned char* bytes, size_t count) {
    std::array<unsigned char, 8> length{};
    for (size_t i = 0; i < length.size(); ++i) {
      length[i] = static_cast<unsigned char>(static_cast<uint64_t>(count) >> (8 * i));
    }
    crypto_generichash_update(&state, length.data(), length.size());
    crypto_generichash_update(&state, bytes, count);
  };
  update(bytes_of(purpose), purpose.size());
  for (const auto& part : parts) {
    update(reinterpret_cast<const unsigned char*>(part.data()), part.size());
  }
  crypto_generichash_final(&state, hash.data(), hash.size());
  sodium_memzero(&state, sizeof state);
  std::array<std::byte, 32> result{};
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::byte>(hash[i]);
  }
  return result;
}

}  // namespace ho
