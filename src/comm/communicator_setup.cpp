// How a communicator is made: the ranks find each other, exchange what they found, agree or fail by
// name, and open their transports. A split repeats the last part for its members.
#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/join_job.hpp"
#include "comm/member_exchange.hpp"
#include "comm/place_ranks.hpp"
#include "comm/split_choice.hpp"
#include "comm/transports.hpp"

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

// What `auto` goes by is the communicator's own, not that of the one it was split from.
CommunicatorSettings with_levels(CommunicatorSettings settings, const Placement& placement) {
  BindingLimits limits = settings.limits;
  limits.device = placement.device;
  settings.rules.levels =
      placement.levels ? modelled_levels(*placement.levels, limits) : std::nullopt;
  return settings;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorConfig& config) {
  auto settings = CommunicatorSettings::from_environment();
  Status usable = settings.status();
  if (usable.ok() && !settings->trace_path.empty()) {
    usable = check_trace_file(settings->trace_path, config.rendezvous.rank)
                 .with_context(env::kTrace.name);
  }
  if (usable.ok() && !settings->record_dir.empty()) {
    usable = check_record_folder(settings->record_dir, config.rendezvous.rank)
                 .with_context(env::kRecordDir.name);
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
  set_log_rank(static_cast<int>(config.part.rank_in_job(config.rendezvous.rank)));
  auto control = std::make_shared<JobControl>(std::move(joined.plane), config.part);
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
  control->set_hosts(made->placement_.host_name);
  control->add(kWorldCommunicatorId, made->engine_.get(), made->watched_rails());
  return made;
}

Communicator::Communicator(std::shared_ptr<JobControl> control,
                           CommunicatorSettings settings,
                           Placement placement,
                           JobControl::Identity identity,
                           GlobalRank self,
                           std::shared_ptr<device::Device> device)
    : control_(std::move(control)),
      settings_(with_levels(std::move(settings), placement)),
      placement_(std::move(placement)),
      identity_(std::move(identity)),
      self_(self),
      shape_(self, placement_.map.world_size(), placement_.map.largest_group()),
      maker_(shape_, identity_.id, settings_.timeout),
      device_(std::move(device)),
      upcalls_(*control_, identity_, placement_, self_) {
  control_->expect(identity_);
}

Status Communicator::connect(std::shared_ptr<const JobKey> key, Deadline deadline) {
  key_ = std::move(key);
  control_->used_id(identity_.id);
  const MemberExchange members(control_->plane(), identity_);
  HORING_ASSIGN(Transports transports,
                make_transports(members, placement_, settings_, self_, key_, deadline));
  HORING_TRY(device_.prepare(settings_, self_, *transports.shm));
  EngineOptions options;
  options.work = device_.work();
  options.limits = settings_.limits;
  options.limits.device = placement_.device;
  options.limits.scratch_bytes *= placement_.device ? BindingLimits::kDeviceScratchFactor : 1;
  HORING_ASSIGN(options.spin, spin_time(placement_.ranks_on_host_of(self_).size()));
  HORING_ASSIGN(options.progress_cpus, progress_cpus(placement_.nic[self_.at()].name));
  options.trace = !settings_.trace_path.empty();
  options.threads = control_->threads();
  options.self = self_;
  options.world_size = placement_.map.world_size();
  options.communicator = identity_.id;
  HORING_ASSIGN(
      engine_,
      Engine::create(options, std::move(transports.shm), std::move(transports.network), upcalls_));
  schedules_.emplace(placement_, self_, identity_.id, device_, *engine_);
  // No rank starts an operation before all listen.
  HORING_ASSIGN(const auto ready, members.gather_all("ready", {}, deadline));
  return {};
}

std::vector<WatchedRail> Communicator::watched_rails() const {
  std::vector<WatchedRail> rails;
  for (const RailInterface& rail : placement_.rails_of(self_)) {
    WatchedRail& watched = rails.emplace_back();
    watched.interface = rail.name;
    watched.address = rail.address;
    for (size_t rank = 0; rank < placement_.nic.size(); ++rank) {
      const bool same =
          placement_.same_host(self_, GlobalRank(rank)) && placement_.nic[rank].name == rail.name;
      watched.mbit = same ? placement_.nic_mbit[rank] : watched.mbit;
    }
  }
  return rails;
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  control_->set_split(identity_.communicator_id, ++splits_);
  auto made = split_off(color, key);
  control_->set_split(identity_.communicator_id, 0);
  if (!made.ok()) {
    return made.status().with_context(fmt::format("ho_comm_split #{}", splits_));
  }
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::split_off(int32_t color, int32_t key) {
  const Deadline deadline = deadline_after(settings_.rendezvous_timeout);
  const std::string what = fmt::format("split {}", splits_);
  HORING_ASSIGN(const uint16_t proposal, control_->next_id());
  const MemberExchange members(control_->plane(), identity_);
  HORING_ASSIGN(const auto blobs,
                members.gather_all(what, encode(ColorKey{color, key, proposal}), deadline));
  HORING_ASSIGN(const SplitChoice choice, choose_split(what, blobs, color, self_));
  control_->used_id(choice.last_id);
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  std::vector<GlobalRank> world_ranks;
  for (const GlobalRank rank : choice.members) {
    world_ranks.push_back(identity_.ranks[rank.at()]);
  }
  HORING_ASSIGN(Placement placement, placement_.part(choice.members));
  JobControl::Identity identity{communicator_id_of_split(identity_.communicator_id, splits_, color),
                                identity_.communicator_id,
                                choice.id,
                                std::move(world_ranks)};
  std::unique_ptr<Communicator> made(new Communicator(
      control_, settings_, std::move(placement), std::move(identity), choice.self, device_.get()));
  if (Status status = made->connect(key_, deadline); !status.ok()) {
    // The other members wait for this rank.
    const GlobalRank reporter = identity_.ranks[self_.at()];
    const Status reported = reported_as(
        status,
        fmt::format("communicator {}: rank {} could not make it", choice.id, reporter.value()));
    control_->fail(made->identity_.communicator_id,
                   {reported.code(), reporter, {}, reported.message()});
    // A rank that ends because of this error must not replace it as the cause.
    const Status said = control_->await_end(made->identity_.communicator_id, status);
    return first_of(status, said);
  }
  control_->add(made->identity_.communicator_id, made->engine_.get(), made->watched_rails());
  return made;
}

}  // namespace ho
