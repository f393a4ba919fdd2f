#include "bootstrap/messages/wire.hpp"

#include <algorithm>
#include <random>

#include "catch.hpp"

using namespace ho;
using namespace ho::wire;

namespace {

Buffer bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// What each decoder answers for any bytes: a value or a protocol error, never anything else.
template <typename Decode>
void decodes_strictly(const Buffer& whole, Decode decode) {
  REQUIRE(decode(View(whole)).ok());
  for (size_t length = 0; length < whole.size(); ++length) {
    INFO("cut to " << length << " of " << whole.size());
    CHECK(decode(View(whole).first(length)).status().code() == StatusCode::kProtocol);
  }
  Buffer longer = whole;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode(View(longer)).ok());
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Buffer changed = whole;
    changed[random() % changed.size()] = static_cast<std::byte>(random());
    const auto result = decode(View(changed));
    if (!result.ok()) {
      CHECK(result.status().code() == StatusCode::kProtocol);
    }
  }
}

bool introduces(uint32_t rank, uint32_t world_size) {
  RankClaim claim;
  claim.rank = rank;
  claim.world_size = world_size;
  return decode<RankClaim>(encode(claim)).ok();
}

}  // namespace

TEST_CASE("every message survives the way there and back, and nothing shorter or longer does") {
  const RankClaim claim{.rank = 3,
                        .world_size = 16,
                        .pid = 77,
                        .timeout_ms = 60000,
                        .host = "node1",
                        .called = "",
                        .job = "HORING_JOB_ID=7"};
  const auto introduced = decode<RankClaim>(encode(claim)).value();
  CHECK(introduced.rank == 3);
  CHECK(introduced.world_size == 16);
  CHECK(introduced.pid == 77);
  CHECK(introduced.timeout_ms == 60000);
  CHECK(introduced.host == "node1");
  CHECK(introduced.job == "HORING_JOB_ID=7");
  decodes_strictly(encode(claim), decode<RankClaim>);

  const Welcome welcome{
      .job_id = ~uint64_t{5}, .coordinator = "rank 0", .coordinator_address = "::1"};
  CHECK(decode<Welcome>(encode(welcome))->job_id == ~uint64_t{5});
  CHECK(decode<Welcome>(encode(welcome))->coordinator_address == "::1");
  decodes_strictly(encode(welcome), decode<Welcome>);
  const Addresses addresses{.port = 65535, .hosts = {"10.1.0.1", "fe80::1"}};
  CHECK(decode<Addresses>(encode(addresses))->port == 65535);
  CHECK(decode<Addresses>(encode(addresses))->hosts == addresses.hosts);
  decodes_strictly(encode(addresses), decode<Addresses>);
  const ResumeClaim resumes{.job_id = 5, .received = ~uint64_t{7}, .rank = 3, .attempt = 9};
  CHECK(decode<ResumeClaim>(encode(resumes))->received == ~uint64_t{7});
  CHECK(decode<ResumeClaim>(encode(resumes))->attempt == 9);
  decodes_strictly(encode(resumes), decode<ResumeClaim>);

  const Contribution contribution{
      .tag = "topology", .timeout_ms = 5, .members = {4, 0, 9}, .blob = bytes_of("blob")};
  const auto contributed = decode<Contribution>(encode(contribution)).value();
  CHECK(contributed.tag == "topology");
  CHECK(contributed.members == contribution.members);
  CHECK(contributed.blob == contribution.blob);
  decodes_strictly(encode(contribution), decode<Contribution>);

  const GatheredPart part{.first = 2, .blobs = {bytes_of("a"), {}, bytes_of("ccc")}};
  CHECK(decode<GatheredPart>(encode(part))->blobs == part.blobs);
  CHECK(decode<GatheredPart>(encode(part))->first == 2);
  decodes_strictly(encode(part), decode<GatheredPart>);

  const Outcome outcome{.code = StatusCode::kPeerLost, .text = "rank 5 is gone"};
  CHECK(decode<Outcome>(encode(outcome))->code == StatusCode::kPeerLost);
  CHECK(decode<Outcome>(encode(outcome))->text == "rank 5 is gone");
  decodes_strictly(encode(outcome), decode<Outcome>);

  const FailureReport report{.code = StatusCode::kTimeout,
                             .reporter = GlobalRank(3U),
                             .peer = GlobalRank(4U),
                             .text = "late",
                             .communicator = ~uint64_t{3}};
  CHECK(decode<FailureReport>(encode(report))->peer == GlobalRank(4U));
  CHECK(decode<FailureReport>(encode(report))->communicator == ~uint64_t{3});
  CHECK(decode<FailureReport>(encode(report))->reporter == GlobalRank(3U));
  const FailureReport blameless{
      .code = StatusCode::kTimeout, .reporter = GlobalRank(3U), .peer = {}, .text = "late"};
  CHECK_FALSE(decode<FailureReport>(encode(blameless))->peer.has_value());
  decodes_strictly(encode(report), decode<FailureReport>);

  const std::vector<RankState> states{{.communicator = 1,
                                       .channel = 2,
                                       .entered = 12,
                                       .completed = 11,
                                       .operation = "all_reduce",
                                       .waiting = "recv from rank 5",
                                       .communicator_id = ~uint64_t{6},
                                       .held = 12},
                                      {}};
  const auto read = decode<std::vector<RankState>>(encode(states)).value();
  REQUIRE(read.size() == 2);
  CHECK(read[0].communicator == 1);
  CHECK(read[0].channel == 2);
  CHECK(read[0].entered == 12);
  CHECK(read[0].completed == 11);
  CHECK(read[0].operation == "all_reduce");
  CHECK(read[0].waiting == "recv from rank 5");
  CHECK(read[0].communicator_id == ~uint64_t{6});
  CHECK(read[0].held == 12);
  CHECK(read[1].held == UINT32_MAX);
  decodes_strictly(encode(states), decode<std::vector<RankState>>);
}

TEST_CASE("a membership survives the way there and back, and must be able to be") {
  const Membership membership{.communicator = 7, .parent = ~uint64_t{2}, .member_count = 16};
  const Membership read = decode<Membership>(encode(membership)).value();
  CHECK(read.communicator == 7);
  CHECK(read.parent == ~uint64_t{2});
  CHECK(read.member_count == 16);
  decodes_strictly(encode(membership), decode<Membership>);
  for (const Membership& wrong : {Membership{kWholeJob, 1, 2},
                                  Membership{1, 1, 2},
                                  Membership{1, 2, 0},
                                  Membership{1, 2, kMaxWorldSize + 1}}) {
    CHECK_FALSE(decode<Membership>(encode(wrong)).ok());
  }
}

TEST_CASE("a leave notice survives the way there and back") {
  LeaveNotice leave_notice;
  leave_notice.communicator = ~uint64_t{3};
  leave_notice.rank = GlobalRank(5U);
  leave_notice.name = "rank 5 (node1, pid 9)";
  leave_notice.channels = {{0, ""}, {12, "all_reduce"}};
  leave_notice.pairs = {{GlobalRank(2U), 7, 8}};
  leave_notice.members = {GlobalRank(2U), GlobalRank(5U)};
  const LeaveNotice read = decode<LeaveNotice>(encode(leave_notice)).value();
  CHECK(read.communicator == leave_notice.communicator);
  CHECK(read.rank == leave_notice.rank);
  CHECK(read.name == leave_notice.name);
  REQUIRE(read.channels.size() == 2);
  CHECK(read.channels[1].entered == 12);
  CHECK(read.channels[1].last == "all_reduce");
  REQUIRE(read.pairs.size() == 1);
  CHECK(read.pairs[0].peer == GlobalRank(2U));
  CHECK(read.pairs[0].sent == 7);
  CHECK(read.pairs[0].received == 8);
  CHECK(read.members == leave_notice.members);
  decodes_strictly(encode(leave_notice), decode<LeaveNotice>);
}

TEST_CASE("a question about a call survives the way there and back, and is short") {
  CallQuestion question{.communicator = ~uint64_t{3},
                        .rank = GlobalRank(5U),
                        .channel = 2,
                        .call = bytes_of("a call")};
  const CallQuestion read = decode<CallQuestion>(encode(question)).value();
  CHECK(read.communicator == question.communicator);
  CHECK(read.rank == question.rank);
  CHECK(read.channel == 2);
  CHECK(read.call == question.call);
  decodes_strictly(encode(question), decode<CallQuestion>);
  question.call.resize(kMaxCallBytes + 1);
  CHECK_FALSE(decode<CallQuestion>(encode(question)).ok());
}

TEST_CASE("a report for horing status survives the way there and back, and is bounded") {
  StatusReport report{.rank = GlobalRank(5U), .report = bytes_of("{\"rank\": 5}")};
  const StatusReport read = decode<StatusReport>(encode(report)).value();
  CHECK(read.rank == report.rank);
  CHECK(read.report == report.report);
  decodes_strictly(encode(report), decode<StatusReport>);
  report.report.resize(kMaxStatusBytes);
  CHECK(decode<StatusReport>(encode(report)).ok());
  report.report.resize(kMaxStatusBytes + 1);
  CHECK_FALSE(decode<StatusReport>(encode(report)).ok());
}

TEST_CASE("the largest of everything fits into one message") {
  LeaveNotice leave_notice;
  leave_notice.name = std::string(10000, 'n');
  leave_notice.channels.assign(100, {1, std::string(10000, 'o')});
  leave_notice.pairs.resize(kMaxWorldSize);
  leave_notice.members.resize(kMaxWorldSize);
  CHECK(encode(leave_notice).size() <= kMaxBodyBytes);
  CHECK(decode<LeaveNotice>(encode(leave_notice)).ok());
  Contribution contribution{.tag = std::string(kMaxTagBytes, 't'),
                            .timeout_ms = 1,
                            .members = std::vector<uint32_t>(kMaxWorldSize, 1),
                            .blob = Buffer(kMaxBlobBytes)};
  CHECK(encode(contribution).size() <= kMaxBodyBytes);
  CHECK(decode<Contribution>(encode(contribution)).ok());
  contribution.blob.emplace_back();
  CHECK_FALSE(decode<Contribution>(encode(contribution)).ok());
  const RankState state{.communicator = 0,
                        .channel = 0,
                        .entered = 0,
                        .completed = 0,
                        .operation = std::string(10000, 'o'),
                        .waiting = std::string(10000, 'w')};
  const std::vector<RankState> states(10000, state);
  CHECK(encode(states).size() <= kMaxBodyBytes);
  CHECK(decode<std::vector<RankState>>(encode(states))->size() == kMaxStates);
}

TEST_CASE("claimed counts do not allocate") {
  Buffer body(12, std::byte{0xff});
  CHECK_FALSE(decode<GatheredPart>(body).ok());
  CHECK_FALSE(decode<std::vector<RankState>>(body).ok());
  CHECK_FALSE(decode<Contribution>(body).ok());
  Buffer leave_notice = encode(LeaveNotice());
  std::fill(leave_notice.end() - 4, leave_notice.end(), std::byte{0xff});
  CHECK_FALSE(decode<LeaveNotice>(leave_notice).ok());
}

TEST_CASE("texts of peers come out printable, ranks and worlds in range") {
  const Outcome outcome{.code = StatusCode::kPeerLost, .text = "a\nb\x1b[2J"};
  CHECK(decode<Outcome>(encode(outcome))->text == "a?b?[2J");
  CHECK_FALSE(introduces(4, 4));
  CHECK_FALSE(introduces(0, 0));
  CHECK_FALSE(introduces(0, 70000));
  CHECK_FALSE(decode<Outcome>(encode(Outcome{.code = StatusCode::kOk, .text = ""})).ok());
}

TEST_CASE("what arrives is cut into messages wherever it is broken") {
  Buffer bytes;
  for (uint32_t i = 0; i < 5; ++i) {
    const auto header = encode(Header{.type = Type::kReport, .body_bytes = i * 3, .id = i});
    bytes.insert(bytes.end(), header.begin(), header.end());
    bytes.insert(bytes.end(), size_t{i} * 3, static_cast<std::byte>(i));
  }
  for (const size_t step : {size_t{1}, size_t{3}, size_t{16}, bytes.size()}) {
    Splitter splitter;
    uint32_t seen = 0;
    for (size_t at = 0; at < bytes.size(); at += step) {
      splitter.feed(View(bytes).subspan(at, std::min(step, bytes.size() - at)));
      while (true) {
        auto message = splitter.next();
        REQUIRE(message.ok());
        if (!message->has_value()) {
          break;
        }
        CHECK((*message)->header.id == seen);
        CHECK((*message)->body == Buffer(size_t{seen} * 3, static_cast<std::byte>(seen)));
        ++seen;
      }
    }
    CHECK(seen == 5);
  }
}

TEST_CASE("bytes that are none of ours end it") {
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{7}}) {
    auto header = encode(Header{.type = Type::kReport, .body_bytes = 0, .id = 0});
    header[at] = std::byte{0xee};
    Splitter splitter;
    splitter.feed(header);
    INFO("byte " << at);
    CHECK(splitter.next().status().code() == StatusCode::kProtocol);
  }
}

TEST_CASE("a rank's claim fits the handshake, however long its texts are") {
  const RankClaim longest{.rank = kMaxWorldSize - 1,
                          .world_size = kMaxWorldSize,
                          .pid = ~0U,
                          .timeout_ms = ~0U,
                          .host = std::string(1000, 'h'),
                          .called = std::string(1000, 'c'),
                          .job = std::string(1000, 'j')};
  CHECK(encode(longest).size() <= 384);
}
