// Control messages are read with a ByteReader, which checks lengths, counts and the end; what lies
// outside a range that only this file knows is a fault as well.
#include "bootstrap/messages/wire.hpp"

#include <algorithm>

#include "auth/printable.hpp"
#include "base/bytes.hpp"

namespace ho::wire {
namespace {

constexpr uint16_t kMagic = 0x4843;  // "CH"

Status fault_of(const ByteReader& reader, std::string_view what) {
  return {StatusCode::kProtocol, "control message: " + std::string(what) + " " + reader.fault()};
}

Buffer copy(View bytes) {
  return {bytes.begin(), bytes.end()};
}

// A message is described once, by fields() below: what the Writer appends, the Reader takes, in the
// same order.
class Writer : public ByteWriter {
 public:
  void begin(std::string_view /*what*/) {}
  template <std::unsigned_integral Number>
  void field(Number value) {
    number(value, sizeof value);
  }
  void rank(uint32_t rank) { field(rank); }
  void rank(GlobalRank rank) { field(rank.value()); }
  void rank(std::optional<GlobalRank> rank) {
    number(rank.has_value() ? 1 : 0, 1);
    field(rank.value_or(GlobalRank()).value());
  }
  void status_code(StatusCode code) { field(static_cast<uint32_t>(code)); }
  template <typename Items, typename Each>
  void list(const Items& items, size_t max, size_t /*least_bytes*/, const Each& each) {
    const size_t count = std::min(items.size(), max);
    number(count, 4);
    for (const auto& item : std::span(items).first(count)) {
      each(item);
    }
  }
  template <typename Why>
  void require(bool /*holds*/, const Why& /*why*/) {}
};

class Reader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  void begin(std::string_view what) { what_ = what; }
  [[nodiscard]] std::string_view what() const { return what_; }
  template <std::unsigned_integral Number>
  void field(Number& value) {
    value = number<Number>();
  }
  void rank(uint32_t& rank) {
    field(rank);
    if (rank >= kMaxWorldSize) {
      fail("has rank " + std::to_string(rank));
      rank = 0;
    }
  }
  void rank(GlobalRank& rank) {
    uint32_t value = 0;
    this->rank(value);
    rank = GlobalRank(value);
  }
  void rank(std::optional<GlobalRank>& rank) {
    const bool is_there = number<uint8_t>() != 0;
    GlobalRank value;
    this->rank(value);
    rank = is_there ? std::optional(value) : std::nullopt;
  }
  void status_code(StatusCode& code) {
    const auto value = number<uint32_t>();
    const bool known = value >= 1 && value <= static_cast<uint32_t>(StatusCode::kInternal);
    require(known, [&] { return "has status code " + std::to_string(value); });
    code = known ? static_cast<StatusCode>(value) : StatusCode::kInternal;
  }
  void text(std::string& text, size_t max_bytes) {
    text = printable(as_text(ByteReader::blob(max_bytes)), max_bytes);
  }
  void blob(Buffer& blob) { blob = copy(ByteReader::blob(kMaxBlobBytes)); }
  template <typename Items, typename Each>
  void list(Items& items, size_t max, size_t least_bytes, const Each& each) {
    items.resize(count(max, least_bytes));
    for (auto& item : items) {
      each(item);
    }
  }
  template <typename Why>
  void require(bool holds, const Why& why) {
    if (!holds) {
      fail(why());
    }
  }

 private:
  std::string_view what_;
};

template <typename Input, typename Message>
concept Is = std::same_as<std::remove_const_t<Input>, Message>;

template <typename Io>
void fields(Io& io, Is<RankClaim> auto& claim) {
  io.begin("claim");
  io.rank(claim.rank);
  io.field(claim.world_size);
  io.field(claim.pid);
  io.field(claim.timeout_ms);
  io.text(claim.host, kMaxHostBytes);
  io.text(claim.called, kMaxCalledBytes);
  io.text(claim.job, kMaxJobBytes);
  io.require(claim.world_size <= kMaxWorldSize && claim.rank < claim.world_size, [&] {
    return "has rank " + std::to_string(claim.rank) + " of " + std::to_string(claim.world_size);
  });
}

template <typename Io>
void fields(Io& io, Is<Welcome> auto& welcome) {
  io.begin("welcome");
  io.field(welcome.job_id);
  io.text(welcome.coordinator, kMaxTagBytes);
  io.text(welcome.coordinator_address, kMaxTagBytes);
}

template <typename Io>
void fields(Io& io, Is<Addresses> auto& addresses) {
  io.begin("list of addresses");
  io.field(addresses.port);
  io.list(addresses.hosts, kMaxAddresses, 4, [&](auto& host) { io.text(host, kMaxHostBytes); });
}

template <typename Io>
void fields(Io& io, Is<ResumeClaim> auto& claim) {
  io.begin("claim to go on");
  io.field(claim.job_id);
  io.field(claim.received);
  io.rank(claim.rank);
  io.field(claim.attempt);
}

template <typename Io>
void fields(Io& io, Is<Contribution> auto& contribution) {
  io.begin("contribution");
  io.text(contribution.tag, kMaxTagBytes);
  io.field(contribution.timeout_ms);
  io.list(contribution.members, kMaxWorldSize, 4, [&](auto& member) { io.rank(member); });
  io.blob(contribution.blob);
}

template <typename Io>
void fields(Io& io, Is<GatheredPart> auto& part) {
  io.begin("gathered part");
  io.field(part.first);
  io.list(part.blobs, kMaxWorldSize, 4, [&](auto& blob) { io.blob(blob); });
}

template <typename Io>
void fields(Io& io, Is<Outcome> auto& outcome) {
  io.begin("outcome");
  io.status_code(outcome.code);
  io.text(outcome.text, kMaxTextBytes);
}

template <typename Io>
void fields(Io& io, Is<FailureReport> auto& report) {
  io.begin("failure report");
  io.status_code(report.code);
  io.rank(report.reporter);
  io.rank(report.peer);
  io.field(report.communicator);
  io.text(report.text, kMaxTextBytes);
}

// Texts are cut so that the list fits into one message however many states there are.
template <typename Io>
void fields(Io& io, Is<std::vector<RankState>> auto& states) {
  io.begin("list of states");
  constexpr size_t kMinBytes = 2 + 1 + 4 + 4 + 4 + 4 + 8 + 4 + 4;
  io.list(states, kMaxStates, kMinBytes, [&](auto& state) {
    io.field(state.communicator);
    io.field(state.channel);
    io.field(state.entered);
    io.field(state.completed);
    io.text(state.operation, kMaxTagBytes);
    io.text(state.waiting, kMaxTagBytes);
    io.field(state.communicator_id);
    io.field(state.held);
    io.text(state.other_job, kMaxTagBytes);
  });
}

template <typename Io>
void fields(Io& io, Is<Membership> auto& membership) {
  io.begin("membership");
  io.field(membership.communicator);
  io.field(membership.parent);
  io.field(membership.member_count);
  io.require(membership.communicator != kWholeJob && membership.communicator != membership.parent &&
                 membership.member_count > 0 && membership.member_count <= kMaxWorldSize,
             [] { return "names a communicator that cannot be"; });
}

template <typename Io>
void fields(Io& io, Is<LeaveNotice> auto& leave_notice) {
  io.begin("leave notice");
  io.field(leave_notice.communicator);
  io.rank(leave_notice.rank);
  io.text(leave_notice.name, kMaxTagBytes);
  io.list(leave_notice.channels, kMaxChannels, 4 + 4, [&](auto& channel) {
    io.field(channel.entered);
    io.text(channel.last, kMaxHostBytes);
  });
  io.list(leave_notice.pairs, kMaxWorldSize, 4 + 4 + 4, [&](auto& pair) {
    io.rank(pair.peer);
    io.field(pair.sent);
    io.field(pair.received);
  });
  io.list(leave_notice.members, kMaxWorldSize, 4, [&](auto& member) { io.rank(member); });
}

template <typename Io>
void fields(Io& io, Is<CallQuestion> auto& question) {
  io.begin("question about a call");
  io.field(question.communicator);
  io.rank(question.rank);
  io.field(question.channel);
  io.blob(question.call);
  io.require(question.call.size() <= kMaxCallBytes,
             [&] { return "has a call of " + std::to_string(question.call.size()) + " bytes"; });
}

template <typename Io>
void fields(Io& io, Is<StatusReport> auto& report) {
  io.begin("report for horing status");
  io.rank(report.rank);
  io.blob(report.report);
  io.require(report.report.size() <= kMaxStatusBytes,
             [&] { return "has " + std::to_string(report.report.size()) + " bytes"; });
}

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
  std::ranges::copy(bytes, result.begin());
  return result;
}

Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  ByteReader reader(bytes);
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
  return reader.ok() ? Result<Header>(header) : fault_of(reader, "header");
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

template <typename Message>
Buffer encode(const Message& message) {
  Writer writer;
  fields(writer, message);
  return writer.take();
}

template <typename Message>
Result<Message> decode(View body) {
  Reader reader(body);
  Message message;
  fields(reader, message);
  reader.finish();
  if (!reader.ok()) {
    return fault_of(reader, reader.what());
  }
  return message;
}

#define HORING_WIRE_MESSAGE(Message)      \
  template Buffer encode(const Message&); \
  template Result<Message> decode(View);
HORING_WIRE_MESSAGE(RankClaim)
HORING_WIRE_MESSAGE(Welcome)
HORING_WIRE_MESSAGE(Addresses)
HORING_WIRE_MESSAGE(ResumeClaim)
HORING_WIRE_MESSAGE(Contribution)
HORING_WIRE_MESSAGE(GatheredPart)
HORING_WIRE_MESSAGE(Outcome)
HORING_WIRE_MESSAGE(FailureReport)
HORING_WIRE_MESSAGE(std::vector<RankState>)
HORING_WIRE_MESSAGE(LeaveNotice)
HORING_WIRE_MESSAGE(CallQuestion)
HORING_WIRE_MESSAGE(Membership)
HORING_WIRE_MESSAGE(StatusReport)
#undef HORING_WIRE_MESSAGE

}  // namespace ho::wire
