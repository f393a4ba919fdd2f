#include <cstring>

#include "auth/job_key.hpp"
#include "base/version.hpp"
#include "catch.hpp"
#include "has.hpp"

using namespace ho;

namespace {

using Bytes = std::vector<std::byte>;

std::shared_ptr<const JobKey> key_of(const std::string& secret = "a test secret of length") {
  return JobKey::from_text(secret).value();
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Takes up to `step` bytes of what `from` has to say.
Bytes take(Handshake& from, size_t step) {
  const auto output = from.output();
  const auto some = output.first(std::min(step, output.size()));
  Bytes taken(some.begin(), some.end());
  from.sent(taken.size());
  return taken;
}

Status feed(Handshake& to, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), to.wanted());
    if (count == 0) {
      return {StatusCode::kInternal, "more bytes than wanted"};
    }
    HORING_TRY(to.consume(bytes.first(count)));
    bytes = bytes.subspan(count);
  }
  return {};
}

struct Outcome {
  Status client;
  Status server;
  Bytes to_server;  // all that was said, for replays
  Bytes to_client;
};

// Runs both until neither says anything more.
Outcome converse(Handshake& client,
                 Handshake& server,
                 size_t step = 1000,
                 const std::string& refusal = "") {
  Outcome outcome;
  while (true) {
    const Bytes up = take(client, step);
    const Bytes down = take(server, step);
    outcome.to_server.insert(outcome.to_server.end(), up.begin(), up.end());
    outcome.to_client.insert(outcome.to_client.end(), down.begin(), down.end());
    if (up.empty() && down.empty()) {
      return outcome;
    }
    if (outcome.server.ok()) {
      outcome.server = feed(server, up);
    }
    if (outcome.client.ok()) {
      outcome.client = feed(client, down);
    }
    if (server.needs_decision()) {
      refusal.empty() ? server.accept() : server.refuse(refusal);
    }
  }
}

}  // namespace

TEST_CASE("a handshake of equal keys ends well in steps of any size and carries the claim") {
  const size_t step = GENERATE(size_t{1}, size_t{2}, size_t{7}, size_t{13}, size_t{1000});
  const size_t claim_bytes = GENERATE(size_t{0}, size_t{5}, size_t{256});
  const Bytes claim(claim_bytes, std::byte{0x5a});
  const auto client = Handshake::client(key_of(), "control", claim);
  const auto server = Handshake::server(key_of(), "control");
  CHECK(server->claim().empty());
  const Outcome outcome = converse(*client, *server, step);
  CHECK(outcome.client.ok());
  CHECK(outcome.server.ok());
  REQUIRE(client->done());
  REQUIRE(server->done());
  CHECK(Bytes(server->claim().begin(), server->claim().end()) == claim);
  CHECK(client->wanted() == 0);
  CHECK(server->wanted() == 0);
}

TEST_CASE("it works without a key too, between two that have none") {
  const auto client = Handshake::client(JobKey::none(false), "data", {});
  const auto server = Handshake::server(JobKey::none(false), "data");
  const Outcome outcome = converse(*client, *server);
  CHECK((client->done() && server->done()));
}

TEST_CASE("another key ends the client, and the server never accepts") {
  const auto client = Handshake::client(key_of("secret number one ...."), "control", {});
  const auto server = Handshake::server(key_of("secret number two ...."), "control");
  const Outcome outcome = converse(*client, *server);
  CHECK(outcome.client.code() == StatusCode::kUnauthenticated);
  CHECK(has(outcome.client, "job keys differ"));
  CHECK_FALSE(client->done());
  CHECK_FALSE(server->done());
  CHECK_FALSE(server->needs_decision());
}

TEST_CASE("a server hears that its key is not the client's, and who says so") {
  const Bytes claim = bytes_of("rank 3");
  const auto client = Handshake::client(key_of("secret number one ...."), "control", claim);
  const auto server = Handshake::server(key_of("secret number two ...."), "control");
  const Outcome outcome = converse(*client, *server);
  CHECK(outcome.server.code() == StatusCode::kUnauthenticated);
  CHECK(has(outcome.server, "job keys differ"));
  CHECK(Bytes(server->unproven_claim().begin(), server->unproven_claim().end()) == claim);
  CHECK(server->claim().empty());
  CHECK(server->wanted() == 0);
  // Also where only one of them has a key.
  const auto other = Handshake::server(JobKey::none(true), "control");
  const auto keyed = Handshake::client(key_of(), "control", claim);
  CHECK(converse(*keyed, *other).server.code() == StatusCode::kUnauthenticated);
  CHECK(Bytes(other->unproven_claim().begin(), other->unproven_claim().end()) == claim);
  CHECK(other->claim().empty());
}

TEST_CASE("a client may not refuse before it was challenged") {
  const auto client = Handshake::client(key_of("secret number one ...."), "control", {});
  const auto liar = Handshake::server(key_of("secret number two ...."), "control");
  const Outcome outcome = converse(*client, *liar);
  const auto server = Handshake::server(key_of(), "control");
  const auto handshake_bytes = static_cast<std::ptrdiff_t>(outcome.to_server.size() - 13 - 546);
  CHECK(feed(*server, Bytes(outcome.to_server.begin() + handshake_bytes, outcome.to_server.end()))
            .code() == StatusCode::kProtocol);
}

TEST_CASE("a key on one side only is said to be so") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(JobKey::none(true), "control");
  const Outcome outcome = converse(*client, *server);
  CHECK(outcome.server.code() == StatusCode::kUnauthenticated);
  CHECK(has(outcome.client, "the client has a job key and the server has none"));
}

TEST_CASE("a client of another purpose is refused") {
  const auto client = Handshake::client(key_of(), "data", {});
  const auto server = Handshake::server(key_of(), "control");
  const Outcome outcome = converse(*client, *server);
  CHECK(outcome.server.code() == StatusCode::kProtocol);
  CHECK(has(outcome.client, "this is a control port, and the client requested \"data\""));
}

TEST_CASE("another version is refused naming both, to both") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(key_of(), "control");
  Bytes request = take(*client, 10000);
  request[8] = static_cast<std::byte>(kWireVersion + 41);
  const Status refused = feed(*server, std::span(request).first(13));
  CHECK(refused.code() == StatusCode::kMismatch);
  CHECK(has(refused, "version " + std::to_string(kWireVersion + 41)));
  CHECK(has(refused, "version " + std::to_string(kWireVersion) + ";"));
  // The refusal comes from a server of another version: the client must still understand it.
  Bytes refusal = take(*server, 10000);
  refusal[8] = static_cast<std::byte>(kWireVersion + 41);
  const Status read = feed(*client, refusal);
  CHECK(has(read, refused.message()));
}

TEST_CASE(
    "a server that answers in another version is named by the client, as unproven with a key") {
  for (const bool keyed : {false, true}) {
    const auto key = keyed ? key_of() : JobKey::none(false);
    const auto client = Handshake::client(key, "control", {});
    const auto server = Handshake::server(key, "control");
    REQUIRE(feed(*server, take(*client, 10000)).ok());
    Bytes challenge = take(*server, 10000);
    challenge[8] = static_cast<std::byte>(kWireVersion + 1);
    const Status status = feed(*client, challenge);
    CHECK(status.code() == (keyed ? StatusCode::kUnauthenticated : StatusCode::kMismatch));
    CHECK(has(status, "speaks wire version " + std::to_string(kWireVersion + 1)));
    CHECK(has(status, "proved nothing yet") == keyed);
  }
}

TEST_CASE("a refusal reaches the client, printable and bounded") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(key_of(), "control");
  const Outcome outcome =
      converse(*client, *server, 1000, "rank 3\n\x1b[2J came twice" + std::string(600, 'x'));
  CHECK(outcome.client.code() == StatusCode::kMismatch);
  CHECK(has(outcome.client, "refused by the peer: rank 3??[2J came twice"));
  CHECK(outcome.client.message().size() < 600);
  CHECK_FALSE(client->done());
  CHECK_FALSE(server->done());
  CHECK(server->wanted() == 0);
}

TEST_CASE("a forged refusal is marked as unproven") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto forger = Handshake::server(key_of("another secret entirely"), "data");
  const Outcome outcome = converse(*client, *forger);
  CHECK(outcome.client.code() == StatusCode::kUnauthenticated);
  CHECK(has(outcome.client, "proved nothing yet"));
}

TEST_CASE("a recorded client does not get in again") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(key_of(), "control");
  const Outcome recorded = converse(*client, *server);
  REQUIRE(server->done());
  const auto victim = Handshake::server(key_of(), "control");
  const Status status = feed(*victim, recorded.to_server);
  CHECK(status.code() == StatusCode::kUnauthenticated);
  CHECK_FALSE(victim->needs_decision());
  CHECK(victim->claim().empty());
}

TEST_CASE("a recorded server does not convince a new client") {
  const auto client = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(key_of(), "control");
  const Outcome recorded = converse(*client, *server);
  const auto victim = Handshake::client(key_of(), "control", {});
  CHECK(feed(*victim, recorded.to_client).code() == StatusCode::kUnauthenticated);
  CHECK_FALSE(victim->done());
}

TEST_CASE("a reflected client talks to itself in vain") {
  const auto client = Handshake::client(key_of(), "control", {});
  const Bytes request = take(*client, 10000);
  CHECK(feed(*client, request).code() == StatusCode::kProtocol);
  // Its own request to a server of the same process, and that server's proof as the client's.
  const auto other = Handshake::client(key_of(), "control", {});
  const auto server = Handshake::server(key_of(), "control");
  REQUIRE(feed(*server, take(*other, 10000)).ok());
  Bytes challenge = take(*server, 10000);
  Bytes forged(challenge.begin(), challenge.begin() + 12);
  forged.push_back(std::byte{3});
  forged.insert(forged.end(), challenge.end() - 32, challenge.end());
  CHECK(feed(*server, forged).code() == StatusCode::kUnauthenticated);
}

TEST_CASE("any changed byte of the conversation ends it") {
  const auto first_client = Handshake::client(key_of(), "control", bytes_of("claim"));
  const auto first_server = Handshake::server(key_of(), "control");
  const Outcome whole = converse(*first_client, *first_server);
  for (size_t at = 0; at < whole.to_server.size(); ++at) {
    const auto client = Handshake::client(key_of(), "control", bytes_of("claim"));
    const auto server = Handshake::server(key_of(), "control");
    Status status;
    for (size_t said = 0; status.ok() && said < whole.to_server.size();) {
      Bytes up = take(*client, 10000);
      if (up.empty()) {
        break;
      }
      if (at >= said && at < said + up.size()) {
        up[at - said] ^= std::byte{0x10};
      }
      said += up.size();
      status = feed(*server, up);
      if (status.ok()) {
        status = feed(*client, take(*server, 10000));
      }
    }
    INFO("byte " << at);
    CHECK_FALSE(status.ok());
    CHECK_FALSE(server->needs_decision());
  }
}

// What a client says to an acceptance of which one bit was changed on its way.
Status answer_to_acceptance(Handshake& client, size_t byte, unsigned bit) {
  const auto server = Handshake::server(key_of(), "control");
  HORING_TRY(feed(*server, take(client, 10000)));
  HORING_TRY(feed(client, take(*server, 10000)));  // the challenge
  HORING_TRY(feed(*server, take(client, 10000)));
  server->accept();
  Bytes acceptance = take(*server, 10000);
  acceptance.at(byte) ^= std::byte{1} << bit;
  return feed(client, acceptance);
}

TEST_CASE("one changed bit of the proof of acceptance ends the client") {
  constexpr size_t kPrefixBytes = 13;  // magic, version, kind
  constexpr size_t kProofBytes = 32;
  for (size_t byte = kPrefixBytes; byte < kPrefixBytes + kProofBytes; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const auto client = Handshake::client(key_of(), "control", bytes_of("claim"));
      const Status status = answer_to_acceptance(*client, byte, bit);
      INFO("byte " << byte << ", bit " << bit);
      REQUIRE(status.code() == StatusCode::kUnauthenticated);
      REQUIRE(has(status, "acceptance does not prove the job key"));
      REQUIRE_FALSE(client->done());
      REQUIRE(client->wanted() == 0);
    }
  }
}

TEST_CASE("no changed byte before the proof of acceptance lets the client in") {
  for (size_t byte = 0; byte < 13; ++byte) {
    const auto client = Handshake::client(key_of(), "control", bytes_of("claim"));
    const Status status = answer_to_acceptance(*client, byte, 0);
    INFO("byte " << byte);
    // The last byte makes a refusal of it, which is longer: its end is waited for.
    CHECK(status.ok() == (byte == 12));
    CHECK_FALSE(client->done());
  }
}

TEST_CASE("truncated conversations stay undecided, and no byte past the end is wanted") {
  const auto client = Handshake::client(key_of(), "control", {});
  const Bytes request = take(*client, 10000);
  for (size_t length = 0; length < request.size(); ++length) {
    const auto server = Handshake::server(key_of(), "control");
    CHECK(feed(*server, std::span(request).first(length)).ok());
    CHECK(server->output().empty());
    CHECK(server->wanted() > 0);
    CHECK(server->wanted() <= request.size() - length);
  }
}

TEST_CASE("foreign programs are told apart") {
  const auto server = Handshake::server(key_of(), "control");
  const Status status = feed(*server, bytes_of("GET / HTTP/1"));
  CHECK(status.ok());
  CHECK(feed(*server, bytes_of(".")).code() == StatusCode::kProtocol);
  CHECK(server->wanted() == 0);
  CHECK_FALSE(server->consume(bytes_of("x")).ok());
}
