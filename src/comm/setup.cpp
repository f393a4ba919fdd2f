// How a communicator is made: the ranks find each other, exchange what they found, agree or fail by
// name, and open their transports. A split repeats the last part for its members.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "base/bytes.hpp"
#include "base/env.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "bootstrap/control/store_rendezvous.hpp"
#include "comm/communicator.hpp"
#include "comm/place_ranks.hpp"
#include "os/affinity.hpp"
#include "os/copy_rate.hpp"
#include "transport/network/networks.hpp"

namespace ho {
namespace {

Result<std::optional<Algorithm>> forced_algorithm() {
  const std::string name = env::text(env::kAlgorithm);
  if (name == "auto") {
    return std::optional<Algorithm>();
  }
  Result<Algorithm> parsed = parse_algorithm(name);
  if (!parsed.ok()) {
    return parsed.status().with_context(std::string(env::kAlgorithm.name));
  }
  return std::optional<Algorithm>(*parsed);
}

// Spinning while another rank waits for the core only delays that rank.
Result<std::chrono::nanoseconds> spin_time(size_t ranks_on_host) {
  if (env::text(env::kSpinUs) != "auto") {
    HORING_ASSIGN(const uint64_t us, env::number(env::kSpinUs));
    return std::chrono::nanoseconds(std::chrono::microseconds(us));
  }
  HORING_ASSIGN(const auto cpus, allowed_cpus());
  constexpr std::chrono::microseconds kSpin{20};
  return ranks_on_host < cpus.size() ? std::chrono::nanoseconds(kSpin)
                                     : std::chrono::nanoseconds(0);
}

struct ColorKey {
  int32_t color = 0;
  int32_t key = 0;
  uint16_t id = 0;
};

Result<ColorKey> parse_color_key(std::span<const std::byte> blob) {
  ByteReader reader(blob);
  ColorKey parsed;
  parsed.color = static_cast<int32_t>(reader.number<uint32_t>());
  parsed.key = static_cast<int32_t>(reader.number<uint32_t>());
  parsed.id = reader.number<uint16_t>();
  reader.finish();
  if (!reader.ok()) {
    return Status(StatusCode::kProtocol, "split: a color and key that " + reader.fault());
  }
  return parsed;
}

std::vector<std::byte> encode(const ColorKey& value) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(value.color), 4);
  writer.number(static_cast<uint32_t>(value.key), 4);
  writer.number(value.id, 2);
  return writer.take();
}

constexpr uint64_t kWorldCommunicatorId = 0xcbf29ce484222325U;

// Differs from the number of every other split that its members have been through.
uint64_t communicator_id_of_split(uint64_t parent, uint32_t split, int32_t color) {
  return Hash(parent).add(split).add(static_cast<uint32_t>(color)).value();
}

std::vector<GlobalRank> all_ranks(uint32_t world_size) {
  std::vector<GlobalRank> ranks;
  for (uint32_t r = 0; r < world_size; ++r) {
    ranks.push_back(GlobalRank(r));
  }
  return ranks;
}

// Why this rank could not go on, as reported to the others. A timeout, or that a peer is gone, is
// not this rank's own failure: such a text names the rank to blame first.
Status reported_as(const Status& why, const std::string& own_trouble) {
  const bool of_others = why.code() == StatusCode::kTimeout || why.code() == StatusCode::kPeerLost;
  return of_others ? why : why.with_context(own_trouble);
}

// A rank cannot take part. The others wait for it, and would otherwise see only that it is gone.
void tell_others(ControlPlane& plane, const Status& why) {
  const uint32_t self = plane.rendezvous().rank;
  const Status reported = reported_as(why, fmt::format("rank {} created no communicator", self));
  plane.report({reported.code(), GlobalRank(self), {}, reported.message()});
}

// Chooses between this rank's own error and the reported one: its own may only be a consequence.
// A reported timeout explains nothing but other timeouts.
Status first_of(const Status& own, const Status& said) {
  const bool explains = said.code() != StatusCode::kTimeout || own.code() == StatusCode::kTimeout;
  return said.ok() || !explains ? own : said;
}

Status first_cause(ControlPlane& plane, Status own) {
  if (plane.rendezvous().world_size == 1) {
    return own;
  }
  constexpr std::chrono::milliseconds kLongest =
      Failures::kDecisionTimeout;  // the control plane ends it earlier
  constexpr std::chrono::milliseconds kPause{5};
  const Deadline end = deadline_after(kLongest);
  Status said = plane.why_over({});
  while (said.ok() && !passed(end)) {
    std::this_thread::sleep_for(kPause);
    said = plane.why_over({});
  }
  return first_of(own, said);
}

Result<KeyedPlane> join_job(const CommunicatorConfig& config, Deadline deadline) {
  if (config.store != nullptr) {
    return join_through_store(*config.store, config.store_key, config.rendezvous, deadline);
  }
  HORING_ASSIGN(auto plane, ControlPlane::create(config.rendezvous, config.key, deadline));
  return KeyedPlane{std::move(plane), config.key};
}

Status join_to_refuse(const CommunicatorConfig& config, Status why) {
  // The others may never connect.
  constexpr std::chrono::seconds kTimeToTell{10};
  if (config.rendezvous.world_size > 1) {
    log_error("{}; waiting at most {} s for the other ranks, to report it to them",
              why.message(),
              kTimeToTell.count());
    const auto joined = join_job(config, deadline_after(kTimeToTell));
    if (joined.ok()) {
      tell_others(*joined->plane, why);
    }
  }
  return why;
}

}  // namespace

Result<CommunicatorSettings> CommunicatorSettings::from_environment() {
  static_assert(env::kPieceBytes.range->most <= kMaxPayloadBytes, "a piece is one message");
  // All of them, also those that are read later or only in some cases.
  HORING_TRY(env::check_numbers());
  CommunicatorSettings settings;
  HORING_ASSIGN(settings.rules.forced, forced_algorithm());
  HORING_ASSIGN(settings.rules.direct_max_bytes, env::number(env::kDirectMaxBytes));
  HORING_ASSIGN(settings.limits.piece_bytes, env::number(env::kPieceBytes));
  HORING_ASSIGN(settings.limits.scratch_bytes, env::number(env::kScratchBytes));
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kTimeoutMs));
  HORING_ASSIGN(const uint64_t connect_ms, env::number(env::kConnectTimeoutMs));
  HORING_ASSIGN(settings.ring_bytes, env::number(env::kShmRingBytes));
  HORING_ASSIGN(settings.device_sharing, env::flag(env::kDeviceSharing));
  HORING_TRY(env::check_value(env::kDeviceSums));
  if (const std::string adds = env::text(env::kDeviceSums); adds != "auto") {
    settings.device_adds_pinned = adds == "device";
  }
  if (env::text(env::kShmSingleCopy) == "auto") {
    settings.single_copy = single_copy_is_faster();
  } else {
    HORING_ASSIGN(settings.single_copy, env::flag(env::kShmSingleCopy));
  }
  settings.timeout = std::chrono::milliseconds(timeout_ms);
  settings.connect_timeout = std::chrono::milliseconds(connect_ms);
  HORING_ASSIGN(settings.network, network_of(env::text(env::kTransport)));
  settings.trace_path = env::text(env::kTrace);
  return settings;
}

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorConfig& config) {
  auto settings = CommunicatorSettings::from_environment();
  Status usable = settings.status();
  if (usable.ok() && !settings->trace_path.empty()) {
    usable = check_trace_file(settings->trace_path, config.rendezvous.rank)
                 .with_context(env::kTrace.name);
  }
  auto device = open_device(config);
  if (usable.ok()) {
    usable = device.status();
  }
  if (!usable.ok()) {
    return join_to_refuse(config,
                          usable.with_context(fmt::format("rank {}", config.rendezvous.rank)));
  }
  settings->timeout = config.timeout.value_or(settings->timeout);
  const auto connect_timeout = settings->connect_timeout;
  settings->rendezvous_timeout = config.rendezvous_timeout.value_or(connect_timeout);
  HORING_ASSIGN(KeyedPlane joined, join_job(config, deadline_after(settings->rendezvous_timeout)));
  set_log_rank(static_cast<int>(config.rendezvous.rank));
  auto control = std::make_shared<JobControl>(std::move(joined.plane));
  // A new deadline: a last rank that was late has now connected and must not use up the time left.
  auto made = create_joined(control,
                            *std::move(settings),
                            config,
                            std::move(joined.key),
                            *std::move(device),
                            deadline_after(connect_timeout));
  if (!made.ok()) {
    tell_others(control->plane(), made.status());
    return first_cause(control->plane(), made.status());
  }
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::create_joined(
    const std::shared_ptr<JobControl>& control,
    CommunicatorSettings settings,
    const CommunicatorConfig& config,
    std::shared_ptr<const JobKey> key,
    std::shared_ptr<device::Device> device,
    Deadline deadline) {
  HORING_ASSIGN(Placement placement,
                place_ranks(control->plane(),
                            config.host_id,
                            device == nullptr ? nullptr : &device->facts(),
                            deadline));
  const GlobalRank self(config.rendezvous.rank);
  if (self.value() == 0) {
    for (const std::string& warning : placement.warnings) {
      log_warn("{}", warning);
    }
    for (const std::string& lost : placement.lost_nics) {
      log_warn("{}", lost);
    }
  }
  JobControl::Identity identity{
      kWorldCommunicatorId, kWholeJob, 0, all_ranks(config.rendezvous.world_size)};
  std::unique_ptr<Communicator> made(new Communicator(control,
                                                      std::move(settings),
                                                      std::move(placement),
                                                      std::move(identity),
                                                      self,
                                                      std::move(device)));
  HORING_TRY(made->connect(std::move(key), deadline));
  control->start();
  control->add(kWorldCommunicatorId, made->engine_.get());
  return made;
}

Communicator::Communicator(std::shared_ptr<JobControl> control,
                           CommunicatorSettings settings,
                           Placement placement,
                           JobControl::Identity identity,
                           GlobalRank self,
                           std::shared_ptr<device::Device> device)
    : control_(std::move(control)),
      settings_(std::move(settings)),
      placement_(std::move(placement)),
      world_ranks_(identity.ranks),
      self_(self),
      id_(identity.id),
      communicator_id_(identity.communicator_id),
      device_(std::move(device)) {
  control_->expect(std::move(identity));
}

void Communicator::close() {
  if (control_ == nullptr) {
    return;
  }
  if (engine_ != nullptr) {
    // First of all: others may wait for operations that this rank will not enter, and requests of
    // this rank for theirs.
    control_->leave(communicator_id_);
    engine_->close();
    write_trace();
  }
  control_->remove(communicator_id_);
  control_.reset();
}

Communicator::~Communicator() {
  close();
}

void Communicator::write_trace() const {
  if (!settings_.trace_path.empty()) {
    const Status status = engine_->trace().append_to(
        settings_.trace_path, world_ranks_[self_.at()].value(), control_->plane().job_id());
    if (!status.ok()) {
      log_error("{}: {}", env::kTrace.name, status.message());
    }
  }
}

Result<std::vector<std::vector<std::byte>>> Communicator::exchange(
    std::string_view what,
    std::span<const std::byte> mine,
    const std::vector<GlobalRank>& members,
    Deadline deadline) {
  std::vector<GlobalRank> world;
  world.reserve(members.size());
  for (const GlobalRank rank : members) {
    world.push_back(world_ranks_[rank.at()]);
  }
  return control_->plane().all_gather(
      JobControl::gather_tag(what, id_, communicator_id_), mine, world, deadline);
}

Result<std::unique_ptr<ShmTransport>> Communicator::make_shm(Deadline deadline) {
  ShmOptions options;
  options.self = self_;
  options.members = placement_.ranks_on_host_of(self_);
  options.ring_bytes = settings_.ring_bytes;
  options.single_copy = settings_.single_copy;
  options.job_id = control_->plane().job_id();
  options.interrupted = [this] {
    return control_->plane().why_over(JobControl::gather_tag({}, id_, communicator_id_));
  };
  const auto members = options.members;
  return ShmTransport::create(
      options,
      [&](std::span<const std::byte> mine) {
        return exchange(fmt::format("shared memory on {}", placement_.host_name[self_.at()]),
                        mine,
                        members,
                        deadline);
      },
      deadline);
}

Result<std::unique_ptr<Transport>> Communicator::make_network(
    const std::shared_ptr<const JobKey>& key, Deadline deadline) {
  const auto everybody = all_ranks(placement_.map.world_size());
  // Groups by HORING_HOST_ID may share a host: only one group on one host needs no network.
  if (placement_.map.group_count() == 1 &&
      placement_.ranks_on_host_of(self_).size() == everybody.size()) {
    return std::unique_ptr<Transport>();
  }
  NetworkSetup setup;
  setup.self = self_;
  setup.world_size = placement_.map.world_size();
  setup.communicator = id_;
  setup.job_id = control_->plane().job_id();
  setup.key = key;
  setup.rails = placement_.rails_of(self_);
  setup.connect_timeout = settings_.connect_timeout;
  setup.exchange = [&](std::string_view what, std::span<const std::byte> mine) {
    return exchange(what, mine, everybody, deadline);
  };
  return settings_.network(setup);
}

Status Communicator::connect(std::shared_ptr<const JobKey> key, Deadline deadline) {
  key_ = std::move(key);
  control_->used_id(id_);
  HORING_ASSIGN(auto shm, make_shm(deadline));
  HORING_ASSIGN(auto network, make_network(key_, deadline));
  HORING_TRY(prepare_device());
  if (work_ != nullptr && settings_.device_sharing) {
    slots_ = std::make_unique<SharedSlots>(self_, device_, shm->membership(), shm->others_ended());
  }
  EngineOptions options;
  options.work = work_.get();
  options.limits = settings_.limits;
  options.limits.device = placement_.device;
  options.limits.scratch_bytes *= placement_.device ? BindingLimits::kDeviceScratchFactor : 1;
  HORING_ASSIGN(options.spin, spin_time(placement_.ranks_on_host_of(self_).size()));
  HORING_ASSIGN(options.progress_cpus, progress_cpus(placement_.nic[self_.at()].name));
  options.trace = !settings_.trace_path.empty();
  options.threads = control_->threads();
  options.self = self_;
  options.world_size = placement_.map.world_size();
  options.communicator = id_;
  HORING_ASSIGN(engine_, Engine::create(options, std::move(shm), std::move(network), *this));
  // No rank starts an operation before all listen.
  HORING_ASSIGN(const auto ready,
                exchange("ready", {}, all_ranks(placement_.map.world_size()), deadline));
  return {};
}

void Communicator::on_failure(const RunError& error) {
  FailureReport report;
  report.code = error.status.code();
  report.reporter = world_ranks_[self_.at()];
  if (error.peer && error.peer->at() < world_ranks_.size()) {
    report.peer = world_ranks_[error.peer->at()];
  }
  report.text = id_ == 0 ? error.status.message()
                         : fmt::format("communicator {}: {}", id_, error.status.message());
  log_error("{}", report.text);
  control_->fail(communicator_id_, std::move(report));
}

void Communicator::on_doubt(const MadeCall& call) {
  control_->ask(communicator_id_, call);
}

Status Communicator::abort(const std::string& reason) {
  const GlobalRank world = world_ranks_[self_.at()];
  const Status why(StatusCode::kAborted,
                   fmt::format("{}rank {} called abort: {}",
                               id_ == 0 ? "" : fmt::format("communicator {}: ", id_),
                               world.value(),
                               reason.empty() ? "no reason given" : reason));
  engine_->fail(why);
  control_->fail(communicator_id_, {StatusCode::kAborted, world, std::nullopt, why.message()});
  // What was split from it has ended on this rank too when this returns.
  (void)control_->await_end(communicator_id_, why);
  return {};
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  control_->began_split(communicator_id_, ++splits_);
  auto made = split_off(color, key);
  control_->ended_split(communicator_id_);
  if (!made.ok()) {
    return made.status().with_context(fmt::format("ho_comm_split #{}", splits_));
  }
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::split_off(int32_t color, int32_t key) {
  const Deadline deadline = deadline_after(settings_.rendezvous_timeout);
  const uint32_t world = placement_.map.world_size();
  const std::string what = fmt::format("split {}", splits_);
  HORING_ASSIGN(const uint16_t proposal, control_->next_id());
  HORING_ASSIGN(const auto blobs,
                exchange(what, encode(ColorKey{color, key, proposal}), all_ranks(world), deadline));
  std::vector<std::pair<int32_t, uint32_t>> chosen;
  std::set<int32_t> colors;
  uint16_t first_id = 0;
  for (uint32_t r = 0; r < blobs.size(); ++r) {
    HORING_ASSIGN(const ColorKey peer, parse_color_key(blobs[r]));
    first_id = std::max(first_id, peer.id);
    colors.insert(peer.color);
    if (peer.color == color) {
      chosen.emplace_back(peer.key, r);
    }
  }
  // An id per color: the stall report distinguishes communicators by it.
  if (first_id + colors.size() - 1 > UINT16_MAX) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: {} colors need more communicators than the {} that are left",
                              what,
                              colors.size(),
                              UINT16_MAX - first_id + 1));
  }
  const auto position = std::distance(colors.begin(), colors.find(color));
  const auto id = static_cast<uint16_t>(first_id + position);
  control_->used_id(static_cast<uint16_t>(first_id + colors.size() - 1));
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<GlobalRank> members;
  std::vector<GlobalRank> world_ranks;
  GlobalRank self;
  for (const auto& [member_key, rank] : chosen) {
    if (GlobalRank(rank) == self_) {
      self = GlobalRank(members.size());
    }
    members.push_back(GlobalRank(rank));
    world_ranks.push_back(world_ranks_[rank]);
  }
  HORING_ASSIGN(Placement placement, placement_.part(members));
  JobControl::Identity identity{communicator_id_of_split(communicator_id_, splits_, color),
                                communicator_id_,
                                id,
                                std::move(world_ranks)};
  std::unique_ptr<Communicator> made(new Communicator(
      control_, settings_, std::move(placement), std::move(identity), self, device_));
  if (Status status = made->connect(key_, deadline); !status.ok()) {
    // The other members wait for this rank.
    const GlobalRank reporter = world_ranks_[self_.at()];
    const Status reported = reported_as(
        status, fmt::format("communicator {}: rank {} could not make it", id, reporter.value()));
    control_->fail(made->communicator_id_, {reported.code(), reporter, {}, reported.message()});
    // A rank that ends because of this error must not replace it as the cause.
    const Status said = control_->await_end(made->communicator_id_, status);
    return first_of(status, said);
  }
  control_->add(made->communicator_id_, made->engine_.get());
  return made;
}

}  // namespace ho
