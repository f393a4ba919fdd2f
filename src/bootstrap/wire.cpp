// Control messages are read with a ByteReader, which checks lengths, counts and the end; what lies
// outside a range that only this file knows is a fault as well.
#include "bootstrap/wire.hpp"

#include <algorithm>

#include "auth/printable.hpp"
#include "base/bytes.hpp"

namespace ho::wire {
namespace {

constexpr uint16_t kMagic = 0x4843;  // "CH"

class Reader : public ByteReader {
 public:
  Reader(View body, std::string_view what) : ByteReader(body), what_(what) {}

  std::string text(size_t max_bytes) { return printable(as_text(blob(max_bytes)), max_bytes); }

  StatusCode status_code() {
    const auto value = number<uint32_t>();
    if (value < 1 || value > static_cast<uint32_t>(StatusCode::kInternal)) {
      fail("has status code " + std::to_string(value));
      return StatusCode::kInternal;
    }
    return static_cast<StatusCode>(value);
  }

  uint32_t rank() {
    const auto value = number<uint32_t>();
    if (value >= kMaxWorldSize) {
      fail("has rank " + std::to_string(value));
      return 0;
    }
    return value;
  }

  template <typename T>
  Result<T> finish(T value) {
    ByteReader::finish();
    if (!ok()) {
      return Status(StatusCode::kProtocol, "control message: " + what_ + " " + fault());
    }
    return value;
  }

 private:
  std::string what_;
};

Buffer copy(View bytes) {
  return {bytes.begin(), bytes.end()};
}

RankState read_state(Reader& reader) {
  RankState state;
  state.communicator = reader.number<uint16_t>();
  state.channel = reader.number<uint8_t>();
  state.entered = reader.number<uint32_t>();
  state.completed = reader.number<uint32_t>();
  state.operation = reader.text(kMaxTagBytes);
  state.waiting = reader.text(kMaxTagBytes);
  state.communicator_id = reader.number<uint64_t>();
  return state;
}
constexpr size_t kMinStateBytes = 2 + 1 + 4 + 4 + 4 + 4 + 8;

}  // namespace

HeaderBytes encode(const Header& header) {
  ByteWriter writer;
  writer.number(kMagic, 2);
  writer.number(static_cast<uint64_t>(header.type), 1);
  writer.number(0, 1);
  writer.number(header.body_bytes, 4);
  writer.number(header.id, 8);
  const Buffer bytes = writer.take();
  HeaderBytes result{};
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}

Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Reader reader(bytes, "header");
  const auto magic = reader.number<uint16_t>();
  const auto type = reader.number<uint8_t>();
  const auto reserved = reader.number<uint8_t>();
  Header header;
  header.body_bytes = reader.number<uint32_t>();
  header.id = reader.number<uint64_t>();
  if (magic != kMagic || reserved != 0) {
    reader.fail("does not begin as one");
  } else if (type < 1 || type > kLastType) {
    reader.fail("has unknown type " + std::to_string(type));
  } else if (header.body_bytes > kMaxBodyBytes) {
    reader.fail("announces " + std::to_string(header.body_bytes) + " bytes, at most " +
                std::to_string(kMaxBodyBytes) + " may come");
  } else {
    header.type = static_cast<Type>(type);
  }
  return reader.finish(header);
}

void Splitter::feed(View bytes) {
  constexpr size_t kKeptBytes = size_t{1} << 17;
  if (start_ == buffer_.size() && buffer_.capacity() > kKeptBytes) {
    // A large message has passed; there may be a thousand splitters.
    buffer_ = Buffer();
    start_ = 0;
  }
  if (start_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Message>> Splitter::next() {
  const View rest = View(buffer_).subspan(start_);
  if (rest.size() < kHeaderBytes) {
    return std::optional<Message>();
  }
  HORING_ASSIGN(const Header header, decode_header(rest.first<kHeaderBytes>()));
  if (rest.size() - kHeaderBytes < header.body_bytes) {
    return std::optional<Message>();
  }
  Message message{header, copy(rest.subspan(kHeaderBytes, header.body_bytes))};
  start_ += kHeaderBytes + header.body_bytes;
  return std::optional<Message>(std::move(message));
}

Buffer encode(const RankClaim& claim) {
  ByteWriter writer;
  writer.number(claim.rank, 4);
  writer.number(claim.world_size, 4);
  writer.number(claim.pid, 4);
  writer.number(claim.timeout_ms, 4);
  writer.text(claim.host, kMaxHostBytes);
  writer.text(claim.called, kMaxCalledBytes);
  writer.text(claim.job, kMaxJobBytes);
  return writer.take();
}

Result<RankClaim> decode_rank_claim(View body) {
  Reader reader(body, "claim");
  RankClaim claim;
  claim.rank = reader.rank();
  claim.world_size = reader.number<uint32_t>();
  claim.pid = reader.number<uint32_t>();
  claim.timeout_ms = reader.number<uint32_t>();
  claim.host = reader.text(kMaxHostBytes);
  claim.called = reader.text(kMaxCalledBytes);
  claim.job = reader.text(kMaxJobBytes);
  if (claim.world_size > kMaxWorldSize || claim.rank >= claim.world_size) {
    reader.fail("has rank " + std::to_string(claim.rank) + " of " +
                std::to_string(claim.world_size));
  }
  return reader.finish(std::move(claim));
}

Buffer encode(const Welcome& welcome) {
  ByteWriter writer;
  writer.number(welcome.job_id, 8);
  writer.text(welcome.coordinator, kMaxTagBytes);
  writer.text(welcome.coordinator_address, kMaxTagBytes);
  return writer.take();
}

Result<Welcome> decode_welcome(View body) {
  Reader reader(body, "welcome");
  Welcome welcome;
  welcome.job_id = reader.number<uint64_t>();
  welcome.coordinator = reader.text(kMaxTagBytes);
  welcome.coordinator_address = reader.text(kMaxTagBytes);
  return reader.finish(std::move(welcome));
}

Buffer encode(const Contribution& contribution) {
  ByteWriter writer;
  writer.text(contribution.tag, kMaxTagBytes);
  writer.number(contribution.timeout_ms, 4);
  writer.number(contribution.members.size(), 4);
  for (const uint32_t member : contribution.members) {
    writer.number(member, 4);
  }
  writer.blob(contribution.blob);
  return writer.take();
}

Result<Contribution> decode_contribution(View body) {
  Reader reader(body, "contribution");
  Contribution contribution;
  contribution.tag = reader.text(kMaxTagBytes);
  contribution.timeout_ms = reader.number<uint32_t>();
  const size_t members = reader.count(kMaxWorldSize, 4);
  contribution.members.reserve(members);
  for (size_t i = 0; i < members; ++i) {
    contribution.members.push_back(reader.rank());
  }
  contribution.blob = copy(reader.blob(kMaxBlobBytes));
  return reader.finish(std::move(contribution));
}

Buffer encode(const GatheredPart& part) {
  ByteWriter writer;
  writer.number(part.first, 4);
  writer.number(part.blobs.size(), 4);
  for (const Buffer& blob : part.blobs) {
    writer.blob(blob);
  }
  return writer.take();
}

Result<GatheredPart> decode_gathered(View body) {
  Reader reader(body, "gathered part");
  GatheredPart part;
  part.first = reader.number<uint32_t>();
  const size_t blobs = reader.count(kMaxWorldSize, 4);
  part.blobs.reserve(blobs);
  for (size_t i = 0; i < blobs; ++i) {
    part.blobs.push_back(copy(reader.blob(kMaxBlobBytes)));
  }
  return reader.finish(std::move(part));
}

Buffer encode(const Outcome& outcome) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(outcome.code), 4);
  writer.text(outcome.text, kMaxTextBytes);
  return writer.take();
}

Result<Outcome> decode_outcome(View body) {
  Reader reader(body, "outcome");
  Outcome outcome;
  outcome.code = reader.status_code();
  outcome.text = reader.text(kMaxTextBytes);
  return reader.finish(std::move(outcome));
}

Buffer encode(const FailureReport& report) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(report.code), 4);
  writer.number(report.reporter.value(), 4);
  writer.number(report.peer.has_value() ? 1 : 0, 1);
  writer.number(report.peer.value_or(GlobalRank()).value(), 4);
  writer.number(report.communicator, 8);
  writer.text(report.text, kMaxTextBytes);
  return writer.take();
}

Result<FailureReport> decode_report(View body) {
  Reader reader(body, "failure report");
  FailureReport report;
  report.code = reader.status_code();
  report.reporter = GlobalRank(reader.rank());
  const bool has_peer = reader.number<uint8_t>() != 0;
  const GlobalRank peer(reader.rank());
  if (has_peer) {
    report.peer = peer;
  }
  report.communicator = reader.number<uint64_t>();
  report.text = reader.text(kMaxTextBytes);
  return reader.finish(std::move(report));
}

Buffer encode(std::span<const RankState> states) {
  const size_t count = std::min(states.size(), kMaxStates);
  ByteWriter writer;
  writer.number(count, 4);
  for (const RankState& state : states.first(count)) {
    writer.number(state.communicator, 2);
    writer.number(state.channel, 1);
    writer.number(state.entered, 4);
    writer.number(state.completed, 4);
    writer.text(state.operation, kMaxTagBytes);
    // So that the list fits into one message however many states there are.
    writer.text(state.waiting, kMaxTagBytes);
    writer.number(state.communicator_id, 8);
  }
  return writer.take();
}

Result<std::vector<RankState>> decode_states(View body) {
  Reader reader(body, "list of states");
  const size_t count = reader.count(kMaxStates, kMinStateBytes);
  std::vector<RankState> states;
  states.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    states.push_back(read_state(reader));
  }
  return reader.finish(std::move(states));
}

Buffer encode(const LeaveNotice& leave_notice) {
  ByteWriter writer;
  writer.number(leave_notice.communicator, 8);
  writer.number(leave_notice.rank.value(), 4);
  writer.text(leave_notice.name, kMaxTagBytes);
  const size_t channels = std::min(leave_notice.channels.size(), kMaxChannels);
  writer.number(channels, 4);
  for (const LeaveNotice::Channel& channel : std::span(leave_notice.channels).first(channels)) {
    writer.number(channel.entered, 4);
    writer.text(channel.last, kMaxHostBytes);
  }
  writer.number(leave_notice.pairs.size(), 4);
  for (const LeaveNotice::Pair& pair : leave_notice.pairs) {
    writer.number(pair.peer.value(), 4);
    writer.number(pair.sent, 4);
    writer.number(pair.received, 4);
  }
  writer.number(leave_notice.members.size(), 4);
  for (const GlobalRank member : leave_notice.members) {
    writer.number(member.value(), 4);
  }
  return writer.take();
}

Buffer encode(const Membership& membership) {
  ByteWriter writer;
  writer.number(membership.communicator, 8);
  writer.number(membership.parent, 8);
  writer.number(membership.member_count, 4);
  return writer.take();
}

Result<Membership> decode_membership(View body) {
  Reader reader(body, "membership");
  Membership membership;
  membership.communicator = reader.number<uint64_t>();
  membership.parent = reader.number<uint64_t>();
  membership.member_count = reader.number<uint32_t>();
  if (membership.communicator == kWholeJob || membership.communicator == membership.parent ||
      membership.member_count == 0 || membership.member_count > kMaxWorldSize) {
    reader.fail("names a communicator that cannot be");
  }
  return reader.finish(membership);
}

Result<LeaveNotice> decode_leave_notice(View body) {
  constexpr size_t kMinChannelBytes = 4 + 4;
  constexpr size_t kPairBytes = 4 + 4 + 4;
  Reader reader(body, "leave notice");
  LeaveNotice leave_notice;
  leave_notice.communicator = reader.number<uint64_t>();
  leave_notice.rank = GlobalRank(reader.rank());
  leave_notice.name = reader.text(kMaxTagBytes);
  leave_notice.channels.resize(reader.count(kMaxChannels, kMinChannelBytes));
  for (LeaveNotice::Channel& channel : leave_notice.channels) {
    channel.entered = reader.number<uint32_t>();
    channel.last = reader.text(kMaxHostBytes);
  }
  leave_notice.pairs.resize(reader.count(kMaxWorldSize, kPairBytes));
  for (LeaveNotice::Pair& pair : leave_notice.pairs) {
    pair.peer = GlobalRank(reader.rank());
    pair.sent = reader.number<uint32_t>();
    pair.received = reader.number<uint32_t>();
  }
  leave_notice.members.resize(reader.count(kMaxWorldSize, 4));
  for (GlobalRank& member : leave_notice.members) {
    member = GlobalRank(reader.rank());
  }
  return reader.finish(std::move(leave_notice));
}

}  // namespace ho::wire
