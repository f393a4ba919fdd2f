// The conformance suite over shared memory in its configurations, and what is particular to it.
#include <array>
#include <atomic>
#include <functional>
#include <future>

#include "catch.hpp"
#include "conformance.hpp"
#include "shm_ranks.hpp"
#include "transport/device_link.hpp"

namespace ho::conformance {
namespace {

Link* link_of(ShmTransport& transport, uint32_t peer, uint8_t channel = 0) {
  LinkKey key;
  key.peer = GlobalRank(peer);
  key.channel = channel;
  auto link = transport.link(key);
  REQUIRE(link.ok());
  return *link;
}

TEST_CASE("shared memory passes the suite, with large payloads read in place") {
  run_suite(shm_under_test({}));
}

TEST_CASE("shared memory passes the suite, with everything through the rings") {
  ShmCase config;
  config.single_copy = false;
  run_suite(shm_under_test(config));
}

TEST_CASE("shared memory passes the suite, with the smallest rings") {
  ShmCase config;
  config.ring_bytes = 1;
  config.single_copy = false;
  run_suite(shm_under_test(config));
}

TEST_CASE("shared memory passes the suite, with small payloads read in place too") {
  ShmCase config;
  config.ring_bytes = 8192;
  config.single_copy_min_bytes = 65;  // the suite never receives a message of 64 bytes
  run_suite(shm_under_test(config));
}

TEST_CASE("links lead to other members on the known channels only") {
  const auto ranks = make_all({}, 2);
  LinkKey key;
  key.peer = GlobalRank(0);
  CHECK(ranks[0]->link(key).status().code() == StatusCode::kInvalidArgument);
  key.peer = GlobalRank(2);
  CHECK(ranks[0]->link(key).status().code() == StatusCode::kInvalidArgument);
  key.peer = GlobalRank(1);
  key.channel = kChannelCount;
  CHECK(ranks[0]->link(key).status().code() == StatusCode::kInvalidArgument);
  CHECK(link_of(*ranks[0], 1) == link_of(*ranks[0], 1));
  CHECK_FALSE(link_of(*ranks[0], 1)->over_network());
}

TEST_CASE("a rank alone on its host needs nobody") {
  const auto ranks = make_all({}, 1);
  CHECK(ranks[0]->memory_bytes() < 65536);
  CHECK(ranks[0]->prepare_wait({}));
  ranks[0]->finish_wait();
}

TEST_CASE("single copy says whether it works, and why not") {
  ShmCase config;
  config.single_copy = false;
  const auto off = make_all(config, 3);
  CHECK(off[1]->single_copy_status().find("rank 0: switched off") != std::string::npos);
  // Threads of one process may always read each other.
  const auto on = make_all({}, 3);
  CHECK(on[1]->single_copy_status() == "process_vm_readv to all ranks of this host");
}

TEST_CASE("a rank that waits for another hears what has kept that one away") {
  Exchange exchange(2);
  const auto create = [&](uint32_t rank, const std::function<Status()>& interrupted, bool goes) {
    ShmOptions options = options_of({}, GlobalRank(rank), 2);
    options.interrupted = interrupted;
    return ShmTransport::create(
               options,
               [&exchange, rank, goes](
                   std::span<const std::byte> mine) -> Result<std::vector<std::vector<std::byte>>> {
                 auto infos = exchange.exchange(rank, mine);
                 if (goes) {
                   return Status(StatusCode::kSystem, "out of files");
                 }
                 return infos;
               },
               deadline_after(std::chrono::seconds(60)))
        .status();
  };
  std::atomic<int> requested{0};
  auto waiting = std::async(std::launch::async, [&] {
    return create(
        0,
        [&requested] {
          return ++requested < 3 ? Status()
                                 : Status(StatusCode::kAborted, "rank 1 is out of files");
        },
        false);
  });
  const Status gone = create(1, {}, true);
  CHECK(gone.code() == StatusCode::kSystem);
  const Status heard = waiting.get();
  INFO(heard.message());
  CHECK(heard.code() == StatusCode::kAborted);
  CHECK(heard.message().find("rank 1 is out of files") != std::string::npos);
}

TEST_CASE("ranks with different ring sizes are told so") {
  Exchange exchange(2);
  const UnderTest under_test{
      [](GlobalRank self, uint32_t world, Exchange& where) -> Result<std::unique_ptr<Transport>> {
        ShmCase config;
        config.ring_bytes = self.value() == 0 ? 65536 : 131072;
        return shm_under_test(config).make(self, world, where);
      }};
  const std::string errors = run_ranks(under_test, 2, [](Rank&) { return Status(); });
  CHECK(errors.find("rank 1 has rings of 131072 bytes") != std::string::npos);
  CHECK(errors.find("HORING_SHM_RING_BYTES") != std::string::npos);
}

TEST_CASE("a reference is released when its reader has read it, in order") {
  const auto ranks = make_all({}, 2);
  Link* out = link_of(*ranks[0], 1);
  Link* in = link_of(*ranks[1], 0);
  const std::vector<std::byte> large = pattern(1, 100000);
  const std::vector<std::byte> small = pattern(2, 10);
  const ConstBytes large_part(large);
  const ConstBytes small_part(small);
  REQUIRE(*out->try_send(frame_of(0, 10), std::span(&small_part, 1)));
  CHECK(out->released() == 1);
  REQUIRE(*out->try_send(frame_of(1, 100000), std::span(&large_part, 1)));
  REQUIRE(*out->try_send(frame_of(2, 10), std::span(&small_part, 1)));
  CHECK(out->released() == 1);  // the copied one behind the reference has to wait its turn
  std::vector<std::byte> into(100000);
  Bytes part = Bytes(into).first(10);
  REQUIRE(*in->try_recv(frame_of(0, 10), std::span(&part, 1)));
  CHECK(out->released() == 1);
  part = into;
  REQUIRE(*in->try_recv(frame_of(1, 100000), std::span(&part, 1)));
  CHECK(into == large);
  CHECK(out->released() == 3);
}

TEST_CASE("shared messages are released when their reader says so, in their order") {
  const auto ranks = make_all({}, 2);
  Link* out = link_of(*ranks[0], 1);
  Link* in = link_of(*ranks[1], 0);
  const std::vector<std::byte> large = pattern(1, 100000);
  const ConstBytes large_part(large);
  REQUIRE(*out->offsets()->try_send_offset(frame_of(0, 5000), 42));
  REQUIRE(*out->try_send(frame_of(1, 100000), std::span(&large_part, 1)));
  REQUIRE(*out->offsets()->try_send_offset(frame_of(2, 7000), 43));
  CHECK_FALSE(in->offsets()->try_recv_offset(frame_of(0, 5001)).ok());
  const auto first = in->offsets()->try_recv_offset(frame_of(0, 5000));
  REQUIRE(first.ok());
  CHECK(first->offset == 42);
  const auto other = in->offsets()->try_recv_offset(frame_of(1, 100000));
  REQUIRE(other.ok());
  CHECK((other->other && !other->offset));
  std::vector<std::byte> into(100000);
  const Bytes part = into;
  REQUIRE(*in->try_recv(frame_of(1, 100000), std::span(&part, 1)));
  CHECK(into == large);
  // Read by host memory's ways it is an error that says so.
  const auto refused = in->try_recv(frame_of(2, 7000), std::array{Bytes(into).first(7000)});
  CHECK(refused.status().message().find("in device memory") != std::string::npos);
  CHECK(in->offsets()->try_recv_offset(frame_of(2, 7000))->offset == 43);
  CHECK(out->released() == 0);  // the reference behind the first has to wait its turn
  in->offsets()->release_offset();
  CHECK(out->released() == 2);
  in->offsets()->release_offset();
  CHECK(out->released() == 3);
}

using Offers = std::vector<std::vector<std::byte>>;

// What its peer's link has been offered, and what it answers.
struct Taker {
  explicit Taker(Link& link) {
    link.offsets()->take_offers([this](ConstBytes offer) -> Result<bool> {
      offered.emplace_back(offer.begin(), offer.end());
      return answer;
    });
  }
  Offers offered;
  bool answer = true;
};

TEST_CASE("an offer is answered when its receiver looks for a message, and is none itself") {
  ShmCase config;
  config.single_copy = false;
  const auto ranks = make_all(config, 2);
  Link* out = link_of(*ranks[0], 1);
  Link* in = link_of(*ranks[1], 0);
  Taker taker(*in);
  const std::vector<std::byte> offer = pattern(1, OffsetMessages::kMaxOfferBytes);
  const bool answer = GENERATE(true, false);
  taker.answer = answer;
  REQUIRE(*out->offsets()->try_offer(offer));
  CHECK(out->offsets()->offer_answer().value() == OffsetMessages::OfferAnswer::kNone);
  CHECK(out->released() == 0);
  CHECK(taker.offered.empty());

  CHECK_FALSE(in->offsets()->try_recv_offset(frame_of(0, 10)).value().other);
  CHECK(taker.offered == Offers{offer});
  CHECK(out->offsets()->offer_answer().value() ==
        (answer ? OffsetMessages::OfferAnswer::kTaken : OffsetMessages::OfferAnswer::kRefused));
  // One a link.
  CHECK(out->offsets()->try_offer(offer).status().code() == StatusCode::kInternal);
  CHECK_FALSE(in->try_peek(true).value().has_value());
}

TEST_CASE("an offer between the parts of a message leaves that whole") {
  ShmCase config;
  config.single_copy = false;
  const auto ranks = make_all(config, 2);
  Link* out = link_of(*ranks[0], 1);
  Link* in = link_of(*ranks[1], 0);
  Taker taker(*in);
  const std::vector<std::byte> large = pattern(1, 200000);
  const ConstBytes large_part(large);
  std::vector<std::byte> into(large.size());
  const Bytes part = into;
  const std::vector<std::byte> offer = pattern(2, 100);
  bool sent = out->try_send(frame_of(0, 200000), {&large_part, 1}).value();
  REQUIRE_FALSE(sent);
  CHECK_FALSE(out->offsets()->try_offer(offer).value());  // the ring is full
  CHECK_FALSE(in->try_recv(frame_of(0, 200000), {&part, 1}).value());
  REQUIRE(out->offsets()->try_offer(offer).value());
  for (bool received = false; !received;) {
    sent = sent || out->try_send(frame_of(0, 200000), {&large_part, 1}).value();
    received = in->try_recv(frame_of(0, 200000), {&part, 1}).value();
  }
  CHECK(sent);
  CHECK(into == large);
  CHECK(taker.offered == Offers{offer});
}

TEST_CASE("a link without a taker refuses offers, and one whose taker fails has its error") {
  const auto ranks = make_all({}, 2);
  const std::vector<std::byte> offer = pattern(2, 100);
  Link* out = link_of(*ranks[0], 1);
  Link* in = link_of(*ranks[1], 0);
  REQUIRE(out->offsets()->try_offer(offer).value());
  CHECK_FALSE(in->try_peek(true).value().has_value());
  CHECK(out->offsets()->offer_answer().value() == OffsetMessages::OfferAnswer::kRefused);

  Link* second = link_of(*ranks[0], 1, 1);
  Link* failing = link_of(*ranks[1], 0, 1);
  failing->offsets()->take_offers(
      [](ConstBytes) -> Result<bool> { return Status(StatusCode::kProtocol, "a bad offer"); });
  REQUIRE(second->offsets()->try_offer(offer).value());
  const Status failed = failing->try_peek(true).status();
  CHECK(failed.code() == StatusCode::kProtocol);
  CHECK(failed.message().find("rank 1 with rank 0, channel 1: a bad offer") != std::string::npos);
  CHECK(second->offsets()->offer_answer().value() == OffsetMessages::OfferAnswer::kNone);
}

TEST_CASE("an offer that its receiver ends without answering is lost") {
  auto ranks = make_all({}, 2);
  Link& out = *link_of(*ranks[0], 1);
  Link& answered = *link_of(*ranks[0], 1, 1);
  REQUIRE(out.offsets()->try_offer(pattern(2, 100)).value());
  REQUIRE(answered.offsets()->try_offer(pattern(2, 100)).value());
  CHECK_FALSE(link_of(*ranks[1], 0, 1)->try_peek(true).value().has_value());
  CHECK(out.went_wrong().ok());
  ranks[1].reset();
  CHECK(out.went_wrong().code() == StatusCode::kPeerLost);
  CHECK(answered.went_wrong().ok());
}

TEST_CASE("members learn that all others have ended, whoever still holds what is shared") {
  auto ranks = make_all({}, 3);
  const auto others_ended = ranks[0]->others_ended();
  auto held = ranks[2]->membership();
  ranks[0].reset();
  ranks[1].reset();
  CHECK_FALSE(others_ended());
  ranks[2].reset();
  CHECK_FALSE(others_ended());
  held.reset();
  CHECK(others_ended());
}

TEST_CASE("memory is bounded whatever the number of ranks") {
  // 12 ranks with 4 channels would want 44 MiB of rings.
  ShmCase config;
  config.ring_bytes = 1048576;
  const auto ranks = make_all(config, 12);
  CHECK(ranks[0]->memory_bytes() <= (16U << 20) + (1U << 16));
}

Result<bool> send(Link& link, uint32_t index, const std::vector<std::byte>& payload) {
  const ConstBytes part(payload);
  return link.try_send(frame_of(index, part.size()), {&part, 1});
}

Result<bool> receive(Link& link, uint32_t index, std::vector<std::byte>& into) {
  const Bytes part(into);
  return link.try_recv(frame_of(index, part.size()), {&part, 1});
}

TEST_CASE("what a peer sent before it ended is received, and then that it has ended") {
  auto ranks = make_all({}, 2);
  Link& there = *link_of(*ranks[1], 0, 1);
  Link& here = *link_of(*ranks[0], 1, 1);
  const std::vector<std::byte> sent = pattern(0, 1000);
  REQUIRE(send(there, 0, sent).value());
  std::vector<std::byte> got(1000);
  ranks[1].reset();
  REQUIRE(receive(here, 0, got).value());
  CHECK(got == sent);
  const auto none = receive(here, 1, got);
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == StatusCode::kPeerLost);
  CHECK(none.status().message().find("rank 0 with rank 1") != std::string::npos);
  CHECK(here.try_peek(true).status().code() == StatusCode::kPeerLost);
  CHECK(here.try_view(frame_of(1, 8)).status().code() == StatusCode::kPeerLost);
}

TEST_CASE("a full ring whose reader has ended is an error, one with room is not") {
  auto ranks = make_all({}, 2);
  Link& here = *link_of(*ranks[0], 1);
  const std::vector<std::byte> payload = pattern(0, 4000);
  ranks[1].reset();
  Result<bool> sent = send(here, 0, payload);
  CHECK(sent.value());
  for (uint32_t index = 1; sent.ok() && *sent && index < 1000; ++index) {
    sent = send(here, index, payload);
  }
  REQUIRE_FALSE(sent.ok());
  CHECK(sent.status().code() == StatusCode::kPeerLost);
}

TEST_CASE("what a peer has not read in place when it ends is lost, what it has read is released") {
  auto ranks = make_all({}, 2);
  Link& there = *link_of(*ranks[1], 0);
  Link& here = *link_of(*ranks[0], 1);
  const std::vector<std::byte> payload = pattern(0, 100'000);
  std::vector<std::byte> got(payload.size());
  REQUIRE(send(here, 0, payload).value());
  REQUIRE(receive(there, 0, got).value());
  REQUIRE(send(here, 1, payload).value());
  CHECK(here.went_wrong().ok());
  ranks[1].reset();
  CHECK(here.released() == 1);
  CHECK(here.went_wrong().code() == StatusCode::kPeerLost);

  auto others = make_all({}, 2);
  Link& reader = *link_of(*others[1], 0);
  Link& writer = *link_of(*others[0], 1);
  REQUIRE(send(writer, 0, payload).value());
  REQUIRE(receive(reader, 0, got).value());
  others[1].reset();
  CHECK(writer.went_wrong().ok());
  CHECK(writer.released() == 1);
}

TEST_CASE("a rank that ends wakes those that sleep") {
  auto ranks = make_all({}, 3);
  const WaitHint nothing{0, false};
  REQUIRE(ranks[0]->prepare_sleep(nothing));
  ranks[2].reset();
  ranks[0]->sleep(deadline_after(std::chrono::hours(1)));  // or never ends
  ranks[0]->finish_sleep();
  // One that was about to sleep does not.
  CHECK_FALSE(ranks[1]->prepare_sleep(nothing));
}

}  // namespace
}  // namespace ho::conformance
