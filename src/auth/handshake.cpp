// Each side proves that it knows the job key without showing it: it hashes, under the key, all that
// was sent so far, both sides' fresh random nonces included. A recorded handshake is useless later
// because the other side's nonce will be new. A reflected one is useless because the two roles hash
// under different labels. One recorded on a data port is useless on the control port because the
// purpose is part of what is hashed.
//
// Frames have fixed sizes. Every frame begins with magic and version, and a refusal has the same
// layout in all versions, so that two different versions can always give each other the reason.
// The side that finds a fault sends it in a refusal. Until the client has checked the server's
// proof, it reports such a text as unproven.
#include <sodium.h>

#include <algorithm>
#include <optional>

#include "auth/job_key.hpp"
#include "auth/printable.hpp"
#include "base/bytes.hpp"
#include "base/version.hpp"

namespace ho {
namespace {

constexpr std::string_view kMagic = "HORING\r\n";
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofBytes = 32;
constexpr size_t kPurposeBytes = 16;
constexpr size_t kMaxReasonBytes = 512;

enum class Kind : uint8_t { kRequest = 1, kChallenge = 2, kProof = 3, kAccept = 4, kRefuse = 5 };

// magic, version, kind: the same in every version.
constexpr size_t kPrefixBytes = 8 + 4 + 1;
// has_key, purpose, claim length, claim, nonce
constexpr size_t kRequestBytes = 1 + kPurposeBytes + 2 + kMaxClaimBytes + kNonceBytes;
constexpr size_t kChallengeBytes = kNonceBytes + kProofBytes;
// proof (zero before the server may prove anything), reason length, reason
constexpr size_t kRefuseBytes = kProofBytes + 2 + kMaxReasonBytes;

using Buffer = std::vector<std::byte>;
using View = std::span<const std::byte>;

bool equal(View a, View b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr std::string_view kKeysDiffer =
    "the job keys differ: set HORING_JOB_KEY (or HORING_JOB_KEY_FILE) to the same secret on all "
    "ranks, and check that no other job uses this address";

std::string one_sided_key(bool server_has_key) {
  return std::string(server_has_key ? "the server has a job key and the client has none"
                                    : "the client has a job key and the server has none") +
         ": set HORING_JOB_KEY (or HORING_JOB_KEY_FILE) to the same secret on all ranks";
}

// What both roles share: an outgoing buffer, an incoming frame that fills up, the transcript.
class HandshakeBase : public Handshake {
 public:
  HandshakeBase(std::shared_ptr<const JobKey> key, std::string_view purpose)
      : key_(std::move(key)), purpose_(purpose) {
    if (purpose.empty() || purpose.size() > kPurposeBytes) {
      failure_ = Status(StatusCode::kInternal, "handshake purpose must have 1 to 16 characters");
    }
  }

  [[nodiscard]] View output() const override { return View(output_).subspan(sent_); }

  void sent(size_t byte_count) override {
    sent_ += std::min(byte_count, output_.size() - sent_);
    if (sent_ == output_.size()) {
      output_.clear();
      sent_ = 0;
    }
  }

  [[nodiscard]] size_t wanted() const override {
    if (failure_.has_value() || frame_bytes_ == 0) {
      return 0;
    }
    return frame_bytes_ - frame_.size();
  }

  Status consume(View bytes) override {
    if (failure_.has_value()) {
      return *failure_;
    }
    if (bytes.size() > wanted()) {
      return fail({StatusCode::kInternal, "the handshake got more bytes than it expected"});
    }
    frame_.insert(frame_.end(), bytes.begin(), bytes.end());
    if (frame_bytes_ == 0 || frame_.size() < frame_bytes_) {
      return {};
    }
    if (frame_.size() == kPrefixBytes) {
      if (Status status = check_prefix(); !status.ok()) {
        return fail(std::move(status));
      }
      return {};
    }
    if (Status status = on_frame(kind_, View(frame_).subspan(kPrefixBytes)); !status.ok()) {
      return fail(std::move(status));
    }
    return {};
  }

 protected:
  // The body size of a frame that is allowed now, or none.
  [[nodiscard]] virtual std::optional<size_t> body_bytes(Kind kind) const = 0;
  virtual Status on_frame(Kind kind, View body) = 0;
  // Another version spoke; the server answers with a refusal.
  virtual Status on_other_version(uint32_t version) = 0;

  void expect_frame() {
    frame_.clear();
    frame_bytes_ = kPrefixBytes;
  }
  void expect_nothing() {
    frame_.clear();
    frame_bytes_ = 0;
  }

  void send_frame(Kind kind, View body) {
    ByteWriter writer;
    writer.append(kMagic);
    writer.number(kWireVersion, 4);
    writer.number(static_cast<uint64_t>(kind), 1);
    writer.append(body);
    const Buffer frame = writer.take();
    output_.insert(output_.end(), frame.begin(), frame.end());
    transcript_.insert(transcript_.end(), frame.begin(), frame.end());
  }

  void send_refusal(std::string_view reason, const std::array<std::byte, kProofBytes>& proof) {
    ByteWriter body;
    body.append(proof);
    body.number(std::min(reason.size(), kMaxReasonBytes), 2);
    body.padded_text(reason, kMaxReasonBytes);
    send_frame(Kind::kRefuse, body.take());
  }

  void remember_frame() { transcript_.insert(transcript_.end(), frame_.begin(), frame_.end()); }

  // The proof of the transcript so far plus `extra`, for one of the four uses.
  [[nodiscard]] std::array<std::byte, 32> prove(std::string_view use, View extra = {}) const {
    const std::array<View, 2> parts{View(transcript_), extra};
    return key_->authenticate(use, parts);
  }

  Status fail(Status status) {
    failure_ = status;
    expect_nothing();
    return status;
  }

  std::shared_ptr<const JobKey> key_;
  std::string purpose_;
  std::optional<Status> failure_;

 private:
  Status check_prefix() {
    if (as_text(View(frame_).first(kMagic.size())) != kMagic) {
      return {
          StatusCode::kProtocol,
          "the peer does not speak this library's handshake: another program uses this address"};
    }
    const uint32_t version = load_le<uint32_t>(frame_, kMagic.size());
    kind_ = static_cast<Kind>(load_le<uint8_t>(frame_, kMagic.size() + 4));
    // A refusal may arrive from any version.
    if (version != kWireVersion && kind_ != Kind::kRefuse) {
      return on_other_version(version);
    }
    const std::optional<size_t> body = body_bytes(kind_);
    if (!body.has_value()) {
      return {StatusCode::kProtocol,
              "handshake frame of kind " + std::to_string(static_cast<int>(kind_)) +
                  " arrived where none is allowed"};
    }
    frame_bytes_ = kPrefixBytes + *body;
    return {};
  }

  Buffer output_;
  size_t sent_ = 0;
  Buffer frame_;
  size_t frame_bytes_ = 0;
  Kind kind_ = Kind::kRequest;
  Buffer transcript_;
};

class ClientHandshake final : public HandshakeBase {
 public:
  ClientHandshake(std::shared_ptr<const JobKey> key, std::string_view purpose, View claim)
      : HandshakeBase(std::move(key), purpose) {
    if (claim.size() > kMaxClaimBytes) {
      failure_ =
          Status(StatusCode::kInternal,
                 "a handshake claim has at most " + std::to_string(kMaxClaimBytes) + " bytes");
    }
    if (failure_.has_value()) {
      return;
    }
    std::array<std::byte, kNonceBytes> nonce{};
    randombytes_buf(nonce.data(), nonce.size());
    ByteWriter request;
    request.number(key_->authenticated() ? 1 : 0, 1);
    request.padded_text(purpose, kPurposeBytes);
    request.number(claim.size(), 2);
    request.padded_text(as_text(claim), kMaxClaimBytes);
    request.append(nonce);
    send_frame(Kind::kRequest, request.take());
    expect_frame();
  }

  [[nodiscard]] bool done() const override { return stage_ == Stage::kAccepted; }
  [[nodiscard]] bool needs_decision() const override { return false; }
  [[nodiscard]] View claim() const override { return {}; }
  [[nodiscard]] View unproven_claim() const override { return {}; }
  void accept() override {}
  void refuse(std::string_view /*reason*/) override {}

 protected:
  [[nodiscard]] std::optional<size_t> body_bytes(Kind kind) const override {
    if (kind == Kind::kRefuse) {
      return kRefuseBytes;
    }
    if (kind == Kind::kChallenge && stage_ == Stage::kHandshakeSent) {
      return kChallengeBytes;
    }
    if (kind == Kind::kAccept && stage_ == Stage::kProofSent) {
      return kProofBytes;
    }
    return std::nullopt;
  }

  Status on_frame(Kind kind, View body) override {
    if (kind == Kind::kRefuse) {
      return refused(body);
    }
    return kind == Kind::kChallenge ? answer_challenge(body) : check_accept(body);
  }

  // With a key that is hearsay, as a refusal before the proofs.
  Status on_other_version(uint32_t version) override {
    const bool keyed = key_->authenticated();
    return {keyed ? StatusCode::kUnauthenticated : StatusCode::kMismatch,
            std::string(keyed ? "a peer that proved nothing yet" : "the peer") +
                " speaks wire version " + std::to_string(version) + ", this rank version " +
                std::to_string(kWireVersion) + "; all ranks must run the same HO-Ring release"};
  }

 private:
  enum class Stage : uint8_t { kHandshakeSent, kProofSent, kAccepted };

  Status answer_challenge(View body) {
    if (!equal(body.last(kProofBytes), prove("handshake server", body.first(kNonceBytes)))) {
      // The end of the connection alone would leave the server without a reason.
      send_refusal(kKeysDiffer, {});
      return {StatusCode::kUnauthenticated,
              "the peer did not prove the job key: " + std::string(kKeysDiffer)};
    }
    remember_frame();
    send_frame(Kind::kProof, prove("handshake client"));
    stage_ = Stage::kProofSent;
    expect_frame();
    return {};
  }

  Status check_accept(View body) {
    if (!equal(body, prove("handshake accept"))) {
      return {StatusCode::kUnauthenticated, "the peer's acceptance does not prove the job key"};
    }
    stage_ = Stage::kAccepted;
    expect_nothing();
    return {};
  }

  Status refused(View body) {
    const size_t length = std::min<size_t>(load_le<uint16_t>(body, kProofBytes), kMaxReasonBytes);
    const View reason = body.subspan(kProofBytes + 2, length);
    const std::string text = printable(as_text(reason), kMaxReasonBytes);
    if (stage_ == Stage::kProofSent &&
        equal(body.first(kProofBytes), prove("handshake refuse", reason))) {
      return {StatusCode::kMismatch, "refused by the peer: " + text};
    }
    return {StatusCode::kUnauthenticated, "refused by a peer that proved nothing yet: " + text};
  }

  Stage stage_ = Stage::kHandshakeSent;
};

class ServerHandshake final : public HandshakeBase {
 public:
  ServerHandshake(std::shared_ptr<const JobKey> key, std::string_view purpose)
      : HandshakeBase(std::move(key), purpose) {
    expect_frame();
  }

  [[nodiscard]] bool done() const override {
    return stage_ == Stage::kAccepted && output().empty();
  }
  [[nodiscard]] bool needs_decision() const override { return stage_ == Stage::kDeciding; }
  [[nodiscard]] View claim() const override {
    const bool proven = stage_ == Stage::kDeciding || stage_ == Stage::kAccepted;
    return proven ? View(claim_) : View();
  }
  [[nodiscard]] View unproven_claim() const override { return claim_; }

  void accept() override {
    if (stage_ == Stage::kDeciding) {
      send_frame(Kind::kAccept, prove("handshake accept"));
      stage_ = Stage::kAccepted;
    }
  }

  void refuse(std::string_view reason) override {
    if (stage_ == Stage::kDeciding) {
      const std::string text = printable(reason, kMaxReasonBytes);
      send_refusal(text, prove("handshake refuse", std::as_bytes(std::span(text))));
      stage_ = Stage::kRefused;
    }
  }

 protected:
  [[nodiscard]] std::optional<size_t> body_bytes(Kind kind) const override {
    if (kind == Kind::kRequest && stage_ == Stage::kRequest) {
      return kRequestBytes;
    }
    if (kind == Kind::kProof && stage_ == Stage::kChallenged) {
      return kProofBytes;
    }
    if (kind == Kind::kRefuse && stage_ == Stage::kChallenged) {
      return kRefuseBytes;
    }
    return std::nullopt;
  }

  Status on_frame(Kind kind, View body) override {
    if (kind == Kind::kRefuse) {
      // A client has one reason to refuse a challenge. Its own text is not needed.
      stage_ = Stage::kRefused;
      return {StatusCode::kUnauthenticated, std::string(kKeysDiffer)};
    }
    return kind == Kind::kRequest ? answer_handshake(body) : check_proof(body);
  }

  Status on_other_version(uint32_t version) override {
    const std::string text = "the client speaks wire version " + std::to_string(version) +
                             ", the server version " + std::to_string(kWireVersion) +
                             "; all ranks must run the same HO-Ring release";
    return refuse_unproven(StatusCode::kMismatch, text);
  }

 private:
  enum class Stage : uint8_t { kRequest, kChallenged, kDeciding, kAccepted, kRefused };

  Status answer_handshake(View body) {
    const size_t claim_bytes = load_le<uint16_t>(body, 1 + kPurposeBytes);
    const View claim =
        body.subspan(1 + kPurposeBytes + 2, std::min<size_t>(claim_bytes, kMaxClaimBytes));
    claim_.assign(claim.begin(), claim.end());
    const bool client_has_key = body[0] != std::byte{0};
    if (client_has_key != key_->authenticated()) {
      return refuse_unproven(StatusCode::kUnauthenticated, one_sided_key(key_->authenticated()));
    }
    const std::string_view padded = as_text(body.subspan(1, kPurposeBytes));
    const std::string_view purpose = padded.substr(0, padded.find('\0'));
    if (purpose != purpose_) {
      return refuse_unproven(StatusCode::kProtocol,
                             "this is a " + purpose_ + " port, and the client requested \"" +
                                 printable(purpose, kPurposeBytes) + "\"");
    }
    if (claim_bytes > kMaxClaimBytes) {
      return refuse_unproven(StatusCode::kProtocol,
                             "a claim of " + std::to_string(claim_bytes) + " bytes, at most " +
                                 std::to_string(kMaxClaimBytes));
    }
    remember_frame();
    Buffer challenge(kNonceBytes);
    randombytes_buf(challenge.data(), challenge.size());
    const auto proof = prove("handshake server", challenge);
    challenge.insert(challenge.end(), proof.begin(), proof.end());
    send_frame(Kind::kChallenge, challenge);
    stage_ = Stage::kChallenged;
    expect_frame();
    return {};
  }

  Status check_proof(View body) {
    if (!equal(body, prove("handshake client"))) {
      return refuse_unproven(StatusCode::kUnauthenticated, std::string(kKeysDiffer));
    }
    remember_frame();
    stage_ = Stage::kDeciding;
    expect_nothing();
    return {};
  }

  Status refuse_unproven(StatusCode code, std::string reason) {
    send_refusal(reason, {});
    stage_ = Stage::kRefused;
    return {code, std::move(reason)};
  }

  Stage stage_ = Stage::kRequest;
  Buffer claim_;
};

}  // namespace

std::unique_ptr<Handshake> Handshake::client(std::shared_ptr<const JobKey> key,
                                             std::string_view purpose,
                                             std::span<const std::byte> claim) {
  return std::make_unique<ClientHandshake>(std::move(key), purpose, claim);
}

std::unique_ptr<Handshake> Handshake::server(std::shared_ptr<const JobKey> key,
                                             std::string_view purpose) {
  return std::make_unique<ServerHandshake>(std::move(key), purpose);
}

}  // namespace ho
