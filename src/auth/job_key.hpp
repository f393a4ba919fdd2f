// The job secret and the proof of knowing it. Every connection of a job, from the rendezvous to
// data, starts with this handshake; docs/design/adr/0004-authentication.md has why and what it
// does not protect against.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ho {

// Key material, wiped on destruction. Immutable, may be shared among threads.
class JobKey {
 public:
  // Any text of at least 16 characters.
  [[nodiscard]] static Result<std::shared_ptr<const JobKey>> from_text(std::string_view secret);
  // First line of the file; refuses files that others can read.
  [[nodiscard]] static Result<std::shared_ptr<const JobKey>> from_file(const std::string& path);
  // HORING_JOB_KEY, HORING_JOB_KEY_FILE, or none (unauthenticated: see allows_address).
  [[nodiscard]] static Result<std::shared_ptr<const JobKey>> from_environment();
  // No secret: only loopback unless HORING_ALLOW_UNAUTHENTICATED=1.
  [[nodiscard]] static std::shared_ptr<const JobKey> none(bool allow_any_address);
  [[nodiscard]] static std::string generate_text();  // 43 random characters

  ~JobKey();
  JobKey(const JobKey&) = delete;
  JobKey& operator=(const JobKey&) = delete;

  [[nodiscard]] bool authenticated() const { return authenticated_; }
  // Error (kUnauthenticated, with what to do) when a connection from or to that numeric address
  // must be refused because there is no key.
  [[nodiscard]] Status allows_address(std::string_view numeric_address) const;
  // 32-byte keyed hash over the parts, each preceded by its length; `purpose` separates uses.
  [[nodiscard]] std::array<std::byte, 32> authenticate(
      std::string_view purpose, std::span<const std::span<const std::byte>> parts) const;

 private:
  JobKey() = default;
  std::array<unsigned char, 32> key_{};
  bool authenticated_ = false;
  bool allow_any_address_ = false;
};

// Most bytes of what a client claims about itself.
inline constexpr size_t kMaxClaimBytes = 384;

// Both sides of a handshake as pure state machines over bytes: no socket, no clock. The driver
// sends output() bytes and feeds what arrives to consume() until done() or an error; the caller
// bounds the time. Frames have a fixed, bounded size; a refusal carries a readable reason.
//   client -> server: magic, version, purpose, claim (opaque, at most kMaxClaimBytes), client nonce
//   server -> client: server nonce, proof over the whole transcript
//   client -> server: proof over the whole transcript, or refuse: the server's proof is not right
//   server -> client: accept, or refuse with a reason
// After an error from consume() and after refuse(), output() may hold a refusal for the other side:
// send what can be sent at once, then close. done() stays false, wanted() is 0.
class Handshake {
 public:
  enum class Role : uint8_t { kClient, kServer };
  // purpose: "control" or "data"; must be equal on both ends. claim: what the client states about
  // itself (rank, link); the server reads it after done().
  [[nodiscard]] static std::unique_ptr<Handshake> client(std::shared_ptr<const JobKey> key,
                                                         std::string_view purpose,
                                                         std::span<const std::byte> claim);
  [[nodiscard]] static std::unique_ptr<Handshake> server(std::shared_ptr<const JobKey> key,
                                                         std::string_view purpose);
  virtual ~Handshake() = default;
  Handshake() = default;
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  // Bytes to send now; the driver passes to sent() how many it could send.
  [[nodiscard]] virtual std::span<const std::byte> output() const = 0;
  virtual void sent(size_t byte_count) = 0;
  // How many more bytes may be read for the current frame (never past the handshake's end).
  [[nodiscard]] virtual size_t wanted() const = 0;
  // Feeds at most wanted() bytes.
  [[nodiscard]] virtual Status consume(std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual bool done() const = 0;
  // Server: the client's claim, valid once the client's proof was checked, i.e. when
  // needs_decision(). The server then calls accept() or refuse().
  [[nodiscard]] virtual bool needs_decision() const = 0;
  [[nodiscard]] virtual std::span<const std::byte> claim() const = 0;
  // Server: what the client states about itself, proven or not. Only for messages, and for
  // decisions that anyone who reaches the port may cause.
  [[nodiscard]] virtual std::span<const std::byte> unproven_claim() const = 0;
  virtual void accept() = 0;
  virtual void refuse(std::string_view reason) = 0;
};

}  // namespace ho
