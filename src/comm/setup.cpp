// How a communicator is made: the ranks find each other, exchange what they found, agree or fail by
// name, and open their transports. A split repeats the last part for its members.
#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/join_job.hpp"
#include "comm/place_ranks.hpp"
#include "comm/split_choice.hpp"

namespace ho {
namespace {

constexpr uint64_t kWorldCommunicatorId = 0xcbf29ce484222325U;

std::vector<GlobalRank> all_ranks(uint32_t world_size) {
  std::vector<GlobalRank> ranks;
  for (uint32_t r = 0; r < world_size; ++r) {
    ranks.push_back(GlobalRank(r));
  }
  return ranks;
}

}  // namespace

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
  HORING_ASSIGN(const SplitChoice choice, choose_split(what, blobs, color, self_));
  control_->used_id(choice.last_id);
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  std::vector<GlobalRank> world_ranks;
  for (const GlobalRank rank : choice.members) {
    world_ranks.push_back(world_ranks_[rank.at()]);
  }
  HORING_ASSIGN(Placement placement, placement_.part(choice.members));
  JobControl::Identity identity{communicator_id_of_split(communicator_id_, splits_, color),
                                communicator_id_,
                                choice.id,
                                std::move(world_ranks)};
  std::unique_ptr<Communicator> made(new Communicator(
      control_, settings_, std::move(placement), std::move(identity), choice.self, device_));
  if (Status status = made->connect(key_, deadline); !status.ok()) {
    // The other members wait for this rank.
    const GlobalRank reporter = world_ranks_[self_.at()];
    const Status reported = reported_as(
        status,
        fmt::format("communicator {}: rank {} could not make it", choice.id, reporter.value()));
    control_->fail(made->communicator_id_, {reported.code(), reporter, {}, reported.message()});
    // A rank that ends because of this error must not replace it as the cause.
    const Status said = control_->await_end(made->communicator_id_, status);
    return first_of(status, said);
  }
  control_->add(made->communicator_id_, made->engine_.get());
  return made;
}

}  // namespace ho
