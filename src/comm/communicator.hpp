// A set of ranks that run collectives together, as its callers see it. It starts calls on its
// engine, splits, and leaves its job; what that takes are parts with one job each:
//
//   call_shape, call_maker      the arguments: checked, and as the engine takes them
//   selection, schedule_cache   which algorithm, and its plan laid out on links
//   call_device                 which buffers are device memory, and links for it
//   engine_upcalls              where errors of the engine go: to job_control
//
// settings, join_job, place_ranks, member_exchange and transports make it, split_choice splits it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "auth/job_key.hpp"
#include "comm/call_arguments.hpp"
#include "comm/call_device.hpp"
#include "comm/call_maker.hpp"
#include "comm/call_shape.hpp"
#include "comm/configuration.hpp"
#include "comm/engine_upcalls.hpp"
#include "comm/job_control.hpp"
#include "comm/placement.hpp"
#include "comm/schedule_cache.hpp"
#include "comm/settings.hpp"
#include "exec/engine.hpp"

namespace ho {

class Communicator {
 public:
  // Collective over the job.
  [[nodiscard]] static Result<std::unique_ptr<Communicator>> create(
      const CommunicatorConfig& config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Leaves the job, as the end of the object does, though somebody still has an operation of it and
  // may ask the engine how that ended. Nothing else may be called afterwards.
  void close();
  // Collective. nullptr for a negative color.
  [[nodiscard]] Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key);
  // Any thread.
  [[nodiscard]] Status abort(const std::string& reason);

  // A null operation means that there was nothing to do (no elements).
  [[nodiscard]] Result<std::shared_ptr<Operation>> start(const CollectiveCall& call,
                                                         bool background);
  [[nodiscard]] Result<std::shared_ptr<Operation>> start(const PointToPointCall& call,
                                                         bool background);
  [[nodiscard]] Result<std::shared_ptr<Operation>> start_barrier(const CallOptions& options,
                                                                 bool background);
  [[nodiscard]] Status barrier(const CallOptions& options);
  // The stream waits for what the operation has on the device; this blocks until all of that was
  // started. nullopt: that was not so by the deadline.
  [[nodiscard]] std::optional<Status> join(const std::shared_ptr<Operation>& operation,
                                           device::StreamHandle stream,
                                           Deadline deadline);
  [[nodiscard]] const CallDevice& call_device() const { return device_; }
  // Whether the call's buffers are device memory of this rank.
  [[nodiscard]] bool has_device_memory(const std::shared_ptr<Operation>& operation) const;
  // How errors of other jobs name it.
  void set_name(std::string name, uint64_t id) {
    control_->set_name(identity_.communicator_id, {std::move(name), id});
  }
  // Blocks until the operation ends.
  [[nodiscard]] Status finish(const std::shared_ptr<Operation>& operation);
  [[nodiscard]] Engine& engine() { return *engine_; }

  [[nodiscard]] GlobalRank rank() const { return self_; }
  [[nodiscard]] const GroupMap& map() const { return placement_.map; }
  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] const CommunicatorSettings& settings() const { return settings_; }

 private:
  Communicator(std::shared_ptr<JobControl> control,
               CommunicatorSettings settings,
               Placement placement,
               JobControl::Identity identity,
               GlobalRank self,
               std::shared_ptr<device::Device> device);
  // After all ranks have found each other.
  [[nodiscard]] static Result<std::unique_ptr<Communicator>> create_joined(
      const std::shared_ptr<JobControl>& control,
      CommunicatorSettings settings,
      const CommunicatorConfig& config,
      std::shared_ptr<const JobKey> key,
      std::shared_ptr<device::Device> device,
      Deadline deadline);
  // As `horing status` shows them.
  [[nodiscard]] std::vector<WatchedRail> watched_rails() const;
  [[nodiscard]] Result<std::unique_ptr<Communicator>> split_off(int32_t color, int32_t key);
  // Makes transports and engine; collective over the members.
  [[nodiscard]] Status connect(std::shared_ptr<const JobKey> key, Deadline deadline);

  // In two parts: see counted_exchange.hpp.
  [[nodiscard]] Result<std::shared_ptr<Operation>> start_counted(const CollectiveCall& requested,
                                                                 bool background);
  // Writes call.device. A driver that fails ends the communicator: the other ranks would wait.
  [[nodiscard]] Status bind_to_device(const CollectiveCall& requested, Call& call);
  [[nodiscard]] Status end_by_device(const Call& call, const Status& status);

  std::shared_ptr<JobControl> control_;  // null: closed
  const CommunicatorSettings settings_;
  const Placement placement_;
  const JobControl::Identity identity_;
  const GlobalRank self_;
  const CallShape shape_;
  const CallMaker maker_;
  std::shared_ptr<const JobKey> key_;
  CallDevice device_;  // before the engine, whose runs use its links
  EngineUpcalls upcalls_;
  std::unique_ptr<Engine> engine_;
  std::optional<ScheduleCache> schedules_;  // from connect() on
  uint32_t splits_ = 0;
};

}  // namespace ho
