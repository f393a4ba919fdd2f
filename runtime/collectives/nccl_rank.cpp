#include "collectives/nccl_rank.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "collectives/communicator.hpp"
#include "collectives/nccl_collectives.hpp"
#include "collectives/nccl_ranks.hpp"

namespace paro {
namespace {

using ho::device::CurrentContext;
using ho::nccl::ResultCode;

// NCCL's own thread launches within some microseconds, most often: so long it is looked at without
// a pause, which would be longer.
constexpr std::chrono::microseconds kPollAtOnce{50};
// How long it is left alone between two looks then.
constexpr std::chrono::microseconds kPollEvery{50};
constexpr std::chrono::milliseconds kWatchEvery{2};  // while something is under way
constexpr std::chrono::milliseconds kWatchIdleEvery{20};

std::chrono::milliseconds ms(uint64_t count) {
  return std::chrono::milliseconds(count);
}

// What NCCL knows hosts apart by, as far as its environment says it.
uint64_t host_of_environment() {
  const char* const id = std::getenv("NCCL_HOSTID");
  return id == nullptr ? 0 : ho::Hash().add(std::string_view(id)).value();
}

bool devices_are_shared() {
  const char* const set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return set != nullptr && std::string_view(set) == "1";
}

}  // namespace

NcclRank::NcclRank(const ho::nccl::Nccl& nccl,
                   std::shared_ptr<const ho::device::Device> device,
                   ho_comm* parent,
                   ho_comm* world,
                   uint64_t timeout_ms)
    : nccl_(nccl),
      device_(std::move(device)),
      parent_(parent),
      world_(world),
      timeout_ms_(timeout_ms) {}

ho::Result<std::shared_ptr<NcclRank>> NcclRank::make(
    const ho::nccl::Nccl& nccl,
    std::shared_ptr<const ho::device::Device> device,
    ho_comm* parent,
    ho_comm* world,
    uint64_t timeout_ms) {
  std::shared_ptr<NcclRank> rank(  // NOLINT: private constructor
      new NcclRank(nccl, std::move(device), parent, world, timeout_ms));
  HORING_TRY(rank->compare_ranks());
  rank->watcher_ = std::thread([self = rank.get()] { self->watch(); });
  return rank;
}

NcclRank::~NcclRank() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  something_to_watch_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
  }
}

ho::Status NcclRank::compare_ranks() {
  int version = 0;
  if (const ResultCode result = nccl_.get_version(&version); result != ho::nccl::kSuccess) {
    return fail(ho::nccl::error(nccl_, "ncclGetVersion", result, nullptr));
  }
  const ho::device::DeviceFacts& device = device_->facts();
  NcclRankFacts own;
  own.rank = static_cast<uint64_t>(ho_comm_rank(parent_));
  own.version = static_cast<uint64_t>(version);
  own.device = ho::Hash().add(std::string_view(device.uuid)).value();
  own.memory_bytes = device.memory_bytes;
  own.host = host_of_environment();
  own.shares_device = devices_are_shared() ? 1 : 0;
  own.name = NcclRankFacts::pack(device.name);
  std::array<uint64_t, kNcclFactWords> words{};
  std::memcpy(words.data(), &own, sizeof own);
  HORING_ASSIGN(const std::vector<uint64_t> all, all_gather_values(world_, words, timeout_ms_));
  std::vector<NcclRankFacts> ranks(all.size() / kNcclFactWords);
  std::memcpy(static_cast<void*>(ranks.data()), all.data(), all.size() * sizeof(uint64_t));
  return check_equal(ranks);
}

ho::Status NcclRank::said(const NcclCommunicator& comm, const char* call, ResultCode result) const {
  return ho::nccl::error(nccl_, call, result, comm.handle).with_context(comm.name);
}

// --- Making and ending -------------------------------------------------------------------------

ho::Result<std::unique_ptr<NcclCollectives>> NcclRank::over(ho_comm* set, std::string name) {
  auto comm = std::make_unique<NcclCommunicator>();
  comm->name = std::move(name);
  HORING_ASSIGN(const ho::nccl::UniqueId id, agree_on_id(set, comm->name));
  if (ho::Status made = make_communicator(set, id, *comm); !made.ok()) {
    made = fail(made);
    end(*comm);
    return made;
  }
  return std::unique_ptr<NcclCollectives>(  // NOLINT: private constructor
      new NcclCollectives(shared_from_this(), std::move(comm)));
}

ho::Result<ho::nccl::UniqueId> NcclRank::agree_on_id(ho_comm* set, const std::string& name) {
  ho::nccl::UniqueId id{};
  if (ho_comm_rank(set) == 0) {
    const ResultCode result = nccl_.get_unique_id(&id);
    if (result != ho::nccl::kSuccess) {
      return fail(ho::nccl::error(nccl_, "ncclGetUniqueId", result, nullptr).with_context(name));
    }
  }
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms_;
  const ho::Status sent =
      checked(ho_broadcast(set, &id, &id, sizeof id, HO_UINT8, 0, &options, nullptr, nullptr));
  if (!sent.ok()) {
    return fail(sent.with_context(name + ": the id of a communicator of NCCL"));
  }
  return id;
}

ho::Status NcclRank::make_communicator(ho_comm* set,
                                       const ho::nccl::UniqueId& id,
                                       NcclCommunicator& comm) {
  const ho::Deadline deadline = ho::deadline_after(ms(timeout_ms_));
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  Lock lock(mutex_);
  if (cause_) {
    return *cause_;
  }
  ho::nccl::Config config;
  config.blocking = 0;
  const ResultCode result =
      nccl_.comm_init(&comm.handle, ho_comm_world_size(set), id, ho_comm_rank(set), &config);
  communicators_.push_back(&comm);
  HORING_TRY(await(lock, comm, "ncclCommInitRankConfig", result, deadline));
  int ranks = 0;
  int rank = -1;
  if (const ResultCode counted = nccl_.comm_count(comm.handle, &ranks);
      counted != ho::nccl::kSuccess) {
    return said(comm, "ncclCommCount", counted);
  }
  if (const ResultCode numbered = nccl_.comm_rank(comm.handle, &rank);
      numbered != ho::nccl::kSuccess) {
    return said(comm, "ncclCommUserRank", numbered);
  }
  if (ranks != ho_comm_world_size(set) || rank != ho_comm_rank(set)) {
    return {ho::StatusCode::kInternal,
            comm.name + ": NCCL made rank " + std::to_string(rank) + " of " +
                std::to_string(ranks) + ", not rank " + std::to_string(ho_comm_rank(set)) + " of " +
                std::to_string(ho_comm_world_size(set))};
  }
  return {};
}

ho::Status NcclRank::await(Lock& lock,
                           NcclCommunicator& comm,
                           const char* call,
                           ResultCode result,
                           ho::Deadline deadline) {
  const ho::Deadline pauses_from = ho::Clock::now() + kPollAtOnce;
  while (result == ho::nccl::kInProgress) {
    const ResultCode polled = nccl_.comm_async_error(comm.handle, &result);
    if (polled != ho::nccl::kSuccess) {
      return said(comm, "ncclCommGetAsyncError", polled);
    }
    if (result != ho::nccl::kInProgress) {
      break;
    }
    if (ho::passed(deadline)) {
      return ho::Status(ho::StatusCode::kTimeout,
                        std::string(call) +
                            " is in progress after its deadline: some rank has not "
                            "come to it; NCCL_DEBUG=INFO shows which have")
          .with_context(comm.name);
    }
    if (ho::passed(pauses_from)) {
      static_cast<void>(changed_.wait_for(lock, kPollEvery));
    } else {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    if (cause_) {  // and the handle is gone
      wait_for_aborts(lock);
      return *cause_;
    }
  }
  return said(comm, call, result);
}

void NcclRank::end(NcclCommunicator& comm) {
  const auto current = CurrentContext::enter(*device_);
  Lock lock(mutex_);
  ho::Status ended = current.status();
  if (comm.handle != nullptr && ended.ok()) {
    const ho::Deadline deadline = ho::deadline_after(ms(timeout_ms_));
    ended = await(lock, comm, "ncclCommFinalize", nccl_.comm_finalize(comm.handle), deadline);
  }
  if (comm.handle != nullptr) {  // else a failure has aborted it, meanwhile too
    const NcclEnd its_end{comm.name, std::exchange(comm.handle, nullptr)};
    lock.unlock();
    bool abort = !ended.ok();
    if (ended.ok()) {
      ended = destroy(nccl_, device_, its_end, ms(timeout_ms_));
      abort = !ended.ok() && ended.code() != ho::StatusCode::kTimeout;  // it is in NCCL still
    }
    if (!ended.ok()) {
      ho::log_warn("{}", ended.message());
    }
    if (abort) {
      abort_and_log({its_end});
    }
    lock.lock();
  }
  if (cause_) {
    wait_for_aborts(lock);
  }
  std::erase(communicators_, &comm);
}

void NcclRank::abort_and_log(const std::vector<NcclEnd>& ends) {
  for (const ho::Status& each : abort_all(nccl_, device_, ends, ms(timeout_ms_))) {
    if (!each.ok()) {
      ho::log_warn("{}", each.message());
    }
  }
}

// --- Failures ----------------------------------------------------------------------------------

ho::Status NcclRank::status() {
  const Lock lock(mutex_);
  return cause_.value_or(ho::Status());
}

// libhoring has one cause for all ranks: that of what was split from a communicator that fails.
ho::Status NcclRank::fail(const ho::Status& own) {
  Lock lock(mutex_);
  if (failing_) {
    wait_for_aborts(lock);
    return *cause_;
  }
  failing_ = true;
  lock.unlock();
  ho::Status cause = checked(ho_comm_status(world_));
  if (cause.ok()) {
    static_cast<void>(ho_comm_abort(parent_, own.message().c_str()));
    cause = checked(ho_comm_status(world_));
  }
  end_all(cause.ok() ? own : cause);
  return cause.ok() ? own : cause;
}

void NcclRank::end_all(const ho::Status& cause) {
  // Even where the context is lost: NCCL gives back what it can.
  const auto current = CurrentContext::enter(*device_);
  Lock lock(mutex_);
  std::vector<NcclEnd> aborts;
  for (NcclCommunicator* const comm : communicators_) {
    for (NcclOperation& operation : comm->operations) {
      settle(*comm, operation);
      if (operation.state == NcclOperation::State::kUnderWay) {
        operation.state = NcclOperation::State::kFailed;
      }
    }
    if (comm->handle != nullptr) {
      aborts.push_back({comm->name, std::exchange(comm->handle, nullptr)});
    }
  }
  cause_ = cause;
  changed_.notify_all();
  lock.unlock();
  abort_and_log(aborts);
  lock.lock();
  aborted_ = true;
  changed_.notify_all();
}

void NcclRank::wait_for_aborts(Lock& lock) {
  changed_.wait(lock, [this] { return aborted_; });
}

// The device's context is current. What the driver has against it ends everything.
void NcclRank::settle(const NcclCommunicator& comm, NcclOperation& operation) {
  if (operation.state != NcclOperation::State::kUnderWay) {
    return;
  }
  const ho::Result<bool> passed = operation.end.passed();
  if (!passed.ok()) {
    operation.state = NcclOperation::State::kFailed;
    found_ = found_.value_or(passed.status().with_context(comm.name));
  } else if (*passed) {
    operation.state = NcclOperation::State::kOver;
    operation.ended = ho::Clock::now();
  }
}

void NcclRank::watch() {
  Lock lock(mutex_);
  while (!stopping_) {
    watching_ = std::ranges::any_of(communicators_, [](const NcclCommunicator* comm) {
      return std::ranges::any_of(comm->operations, [](const NcclOperation& operation) {
        return operation.state == NcclOperation::State::kUnderWay;
      });
    });
    if (!watching_) {
      something_to_watch_.wait_for(
          lock, kWatchIdleEvery, [this] { return watching_ || stopping_; });
    }
    // What is begun meanwhile wakes nobody: each look asks the driver about every operation.
    if (watching_) {
      something_to_watch_.wait_for(lock, kWatchEvery, [this] { return stopping_; });
    }
    if (stopping_ || cause_) {
      something_to_watch_.wait(lock, [this] { return stopping_; });
      return;
    }
    lock.unlock();
    if (const ho::Status found = look(); !found.ok()) {
      static_cast<void>(fail(found));
    }
    lock.lock();
  }
}

ho::Status NcclRank::look() {
  HORING_TRY(checked(ho_comm_status(world_)));
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  const Lock lock(mutex_);
  for (NcclCommunicator* const comm : communicators_) {
    if (comm->handle != nullptr) {
      HORING_TRY(look_at(*comm));
    }
  }
  return found_.value_or(ho::Status());
}

namespace {

ho::Status too_late(const NcclCommunicator& comm, const NcclOperation& operation) {
  return {ho::StatusCode::kTimeout,
          comm.name + ": " + operation.call + ", collective " + std::to_string(operation.number) +
              " there, of " + std::to_string(operation.count) + " " +
              std::string(ho::to_string(operation.dtype)) + ", has not ended within " +
              std::to_string(operation.timeout_ms) +
              " ms: a rank has not begun it, began another one in its place, or began collectives "
              "of several communicators in another order"};
}

}  // namespace

// The context is current, and the lock held.
ho::Status NcclRank::look_at(NcclCommunicator& comm) {
  ResultCode result = ho::nccl::kSuccess;
  const ResultCode polled = nccl_.comm_async_error(comm.handle, &result);
  if (polled != ho::nccl::kSuccess) {
    return said(comm, "ncclCommGetAsyncError", polled);
  }
  if (result != ho::nccl::kSuccess && result != ho::nccl::kInProgress) {
    return said(comm, "an asynchronous error of NCCL", result);
  }
  for (NcclOperation& operation : comm.operations) {
    settle(comm, operation);
    if (operation.state == NcclOperation::State::kUnderWay && ho::passed(operation.deadline)) {
      return too_late(comm, operation);
    }
  }
  return {};
}

}  // namespace paro
