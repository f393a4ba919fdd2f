#include "collectives/nccl_rank.hpp"

#include <algorithm>
#include <atomic>
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
// How long others are waited for that should not take long, and would hold up an abort.
constexpr std::chrono::milliseconds kShortTimeout{500};

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
      timeout_ms_(timeout_ms),
      looker_(device_, kShortTimeout) {}

ho::Result<std::shared_ptr<NcclRank>> NcclRank::make(
    const ho::nccl::Nccl& nccl,
    std::shared_ptr<const ho::device::Device> device,
    ho_comm* parent,
    ho_comm* world,
    uint64_t timeout_ms) {
  std::shared_ptr<NcclRank> rank(  // NOLINT: private constructor
      new NcclRank(nccl, std::move(device), parent, world, timeout_ms));
  auto ended = ho::device::PinnedMemory::create(*rank->device_, sizeof(uint64_t));
  if (!ended.ok()) {
    return rank->fail(ended.status());
  }
  rank->ended_ = std::move(*ended);
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
  return ho::nccl::error(nccl_, call, result, nullptr).with_context(comm.name);
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
  constexpr const char* kCall = "ncclCommInitRankConfig";
  const ho::Deadline deadline = ho::deadline_after(ms(timeout_ms_));
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  {
    const Lock lock(mutex_);
    ends_until_.reset();
    communicators_.push_back(&comm);
  }
  return in_turn(comm, kCall, deadline, [&](ho::nccl::CommHandle) {
    ho::nccl::Config config;
    config.blocking = 0;
    ho::nccl::CommHandle handle = nullptr;
    const ResultCode result =
        nccl_.comm_init(&handle, ho_comm_world_size(set), id, ho_comm_rank(set), &config);
    {
      const Lock lock(mutex_);
      comm.handle = handle;
    }
    HORING_TRY(await(comm, handle, kCall, result, deadline));
    return check_made(set, comm, handle);
  });
}

ho::Status NcclRank::check_made(ho_comm* set,
                                const NcclCommunicator& comm,
                                ho::nccl::CommHandle handle) const {
  int ranks = 0;
  int rank = -1;
  if (const ResultCode counted = nccl_.comm_count(handle, &ranks); counted != ho::nccl::kSuccess) {
    return said(comm, "ncclCommCount", counted);
  }
  if (const ResultCode numbered = nccl_.comm_rank(handle, &rank); numbered != ho::nccl::kSuccess) {
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

namespace {

ho::Status call_is_late(const NcclCommunicator& comm, const char* call) {
  return ho::Status(ho::StatusCode::kTimeout,
                    std::string(call) +
                        " is in progress after its deadline: some rank has not "
                        "come to it; NCCL_DEBUG=INFO shows which have")
      .with_context(comm.name);
}

}  // namespace

ho::Status NcclRank::await(const NcclCommunicator& comm,
                           ho::nccl::CommHandle handle,
                           const char* call,
                           ResultCode result,
                           ho::Deadline deadline) {
  const ho::Deadline pauses_from = ho::Clock::now() + kPollAtOnce;
  while (result == ho::nccl::kInProgress) {
    if (const Lock known(mutex_); cause_) {
      return *cause_;  // the handle may be gone
    }
    const ResultCode polled = nccl_.comm_async_error(handle, &result);
    if (polled != ho::nccl::kSuccess) {
      return said(comm, "ncclCommGetAsyncError", polled);
    }
    if (result != ho::nccl::kInProgress) {
      break;
    }
    if (ho::passed(deadline)) {
      return call_is_late(comm, call);
    }
    Lock lock(mutex_);
    if (cause_) {
      return *cause_;
    }
    if (ho::passed(pauses_from)) {
      static_cast<void>(changed_.wait_for(lock, kPollEvery));
    } else {
      lock.unlock();
      std::this_thread::yield();
    }
  }
  return said(comm, call, result);
}

void NcclRank::end(NcclCommunicator& comm) {
  constexpr const char* kCall = "ncclCommFinalize";
  const auto current = CurrentContext::enter(*device_);
  Lock lock(mutex_);
  if (!ends_until_) {
    aborts_until_.reset();
  }
  const ho::Deadline deadline = ends_until_.value_or(ho::deadline_after(ms(timeout_ms_)));
  lock.unlock();
  ho::Status ended = current.status();
  if (ended.ok()) {
    ended = in_turn(comm, kCall, ho::Deadline::max(), [&](ho::nccl::CommHandle handle) {
      return handle == nullptr ? ho::Status()
                               : await(comm, handle, kCall, nccl_.comm_finalize(handle), deadline);
    });
  }
  lock.lock();
  ends_until_ = deadline;
  changed_.wait(lock, [&] { return cause_.has_value() || comm.in_call == nullptr; });
  if (comm.handle != nullptr && !cause_) {
    end_in_order(lock, comm, std::move(ended));
  }
  if (cause_) {
    wait_for_aborts(lock);
  }
  changed_.wait(lock, [&] { return comm.in_call == nullptr; });  // the watcher looks at it
  if (comm.handle != nullptr) {  // NCCL's call gave it when all others had been aborted
    const NcclEnd late{comm.name, std::exchange(comm.handle, nullptr)};
    lock.unlock();
    abort_and_log({late}, {ho::deadline_after(ms(timeout_ms_)), ms(timeout_ms_)});
    lock.lock();
  }
  std::erase(communicators_, &comm);
}

// Lets the lock go.
void NcclRank::end_in_order(Lock& lock, NcclCommunicator& comm, ho::Status ended) {
  const NcclEnd its_end{comm.name, std::exchange(comm.handle, nullptr)};
  // Where others have used up the time, this one has a little.
  const ho::Deadline soon = ho::deadline_after(kShortTimeout);
  const ho::Deadline until = std::max(*ends_until_, soon);
  lock.unlock();
  bool abort = !ended.ok();
  if (ended.ok()) {
    ended = destroy(nccl_, device_, its_end, {until, ms(timeout_ms_)});
    abort = !ended.ok() && ended.code() != ho::StatusCode::kTimeout;  // it is in NCCL still
  }
  if (!ended.ok()) {
    ho::log_warn("{}", ended.message());
  }
  if (abort) {
    aborts_until_ = aborts_until_.value_or(ho::deadline_after(ms(timeout_ms_)));
    abort_and_log({its_end}, {std::max(*aborts_until_, soon), ms(timeout_ms_)});
  }
  lock.lock();
}

void NcclRank::abort_and_log(const std::vector<NcclEnd>& ends, const NcclEndTime& time) {
  for (const ho::Status& each : abort_all(nccl_, device_, ends, time)) {
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
  // NCCL says that some process has ended, and libhoring soon which.
  const ho::Deadline until = ho::deadline_after(kShortTimeout);
  while (own.code() == ho::StatusCode::kPeerLost && cause.ok() && !ho::passed(until)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    cause = checked(ho_comm_status(world_));
  }
  if (cause.ok()) {
    static_cast<void>(ho_comm_abort(parent_, own.message().c_str()));
    cause = checked(ho_comm_status(world_));
  }
  end_all(cause.ok() ? own : cause);
  return cause.ok() ? own : cause;
}

void NcclRank::end_all(const ho::Status& cause) {
  Lock lock(mutex_);
  cause_ = cause;
  if (const auto word = ended_.bytes(); !word.empty()) {
    std::atomic_ref(*reinterpret_cast<uint64_t*>(word.data())).store(1, std::memory_order_release);
  }
  changed_.notify_all();  // nobody takes a turn from here on, and who has one ends it
  settle_all(lock);
  for (NcclCommunicator* const comm : communicators_) {
    for (NcclOperation& operation : comm->operations) {
      if (operation.state == NcclOperation::State::kUnderWay) {
        operation.state = NcclOperation::State::kFailed;
      }
    }
  }
  changed_.notify_all();
  // A call that does not return is what an abort ends.
  static_cast<void>(changed_.wait_for(lock, kShortTimeout, [this] {
    return std::ranges::all_of(
        communicators_, [](const NcclCommunicator* comm) { return comm->in_call == nullptr; });
  }));
  std::vector<NcclEnd> aborts;
  for (NcclCommunicator* const comm : communicators_) {
    if (comm->handle != nullptr) {
      aborts.push_back({comm->name, std::exchange(comm->handle, nullptr)});
    }
  }
  lock.unlock();
  abort_and_log(aborts, {ho::deadline_after(ms(timeout_ms_)), ms(timeout_ms_)});
  lock.lock();
  aborted_ = true;
  changed_.notify_all();
}

void NcclRank::wait_for_aborts(Lock& lock) {
  changed_.wait(lock, [this] { return aborted_; });
}

void NcclRank::settle(Lock& lock, const NcclCommunicator& comm, NcclOperation& operation) {
  if (operation.state != NcclOperation::State::kUnderWay) {
    return;
  }
  lock.unlock();
  const auto ask = [&]() -> ho::Result<bool> {
    HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
    return operation.end->passed();
  };
  const ho::Result<bool> has_passed = ask();
  lock.lock();
  note(comm.name, has_passed, &operation);
}

// What the driver has against it ends everything, also where the operation has been joined since.
void NcclRank::note(const std::string& name,
                    const ho::Result<bool>& has_passed,
                    NcclOperation* operation) {
  if (!has_passed.ok()) {
    found_ = found_.value_or(has_passed.status().with_context(name));
  }
  if (operation == nullptr || operation->state != NcclOperation::State::kUnderWay) {
    return;
  }
  if (!has_passed.ok()) {
    operation->state = NcclOperation::State::kFailed;
  } else if (*has_passed) {
    operation->state = NcclOperation::State::kOver;
    operation->ended = ho::Clock::now();
  }
}

bool NcclRank::is_known(const NcclCommunicator* comm) const {
  return std::ranges::find(communicators_, comm) != communicators_.end();
}

void NcclRank::settle_all(Lock& lock) {
  struct Requested {
    NcclCommunicator* comm;
    std::string name;
    uint64_t number;
  };
  std::vector<Requested> requested;
  NcclLooker::Events events;
  for (NcclCommunicator* const comm : communicators_) {
    for (NcclOperation& operation : comm->operations) {
      if (operation.state == NcclOperation::State::kUnderWay) {
        requested.push_back({comm, comm->name, operation.number});
        events.push_back(operation.end);
      }
    }
  }
  lock.unlock();
  const auto answers = looker_.ask(events);
  lock.lock();
  // Null where it was ended meanwhile, or begun anew.
  const auto still = [&](size_t i) -> NcclOperation* {
    const auto& [comm, name, number] = requested[i];
    if (is_known(comm)) {
      for (NcclOperation& operation : comm->operations) {
        if (operation.end == events[i] && operation.number == number) {
          return &operation;
        }
      }
    }
    return nullptr;
  };
  for (size_t i = 0; answers && i < requested.size(); ++i) {
    note(requested[i].name, (*answers)[i], still(i));
  }
}

void NcclRank::watch() {
  Lock lock(mutex_);
  while (!stopping_) {
    watching_ = std::ranges::any_of(communicators_, [](const NcclCommunicator* comm) {
      return comm->in_call != nullptr ||
             std::ranges::any_of(comm->operations, [](const NcclOperation& operation) {
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
  Lock lock(mutex_);
  settle_all(lock);
  const std::vector<NcclCommunicator*> all = communicators_;
  for (NcclCommunicator* const comm : all) {
    if (is_known(comm)) {
      HORING_TRY(look_at(lock, *comm));
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

ho::Status NcclRank::look_at(Lock& lock, NcclCommunicator& comm) {
  if (comm.in_call == nullptr) {
    HORING_TRY(ask_nccl(lock, comm));
  } else if (ho::passed(comm.call_until)) {  // who has the turn sees for himself what NCCL says
    return call_is_late(comm, comm.in_call);
  }
  for (const NcclOperation& operation : comm.operations) {
    if (operation.state == NcclOperation::State::kUnderWay && ho::passed(operation.deadline)) {
      return too_late(comm, operation);
    }
  }
  return {};
}

// Lets the lock go in the call.
ho::Status NcclRank::ask_nccl(Lock& lock, NcclCommunicator& comm) {
  constexpr const char* kCall = "ncclCommGetAsyncError";
  if (comm.handle == nullptr || cause_) {
    return {};
  }
  comm.in_call = kCall;
  comm.call_until = ho::Deadline::max();
  const ho::nccl::CommHandle handle = comm.handle;
  lock.unlock();
  ResultCode result = ho::nccl::kSuccess;
  const ResultCode polled = nccl_.comm_async_error(handle, &result);
  lock.lock();
  comm.in_call = nullptr;
  changed_.notify_all();
  if (polled != ho::nccl::kSuccess) {
    return said(comm, kCall, polled);
  }
  return result == ho::nccl::kInProgress ? ho::Status()
                                         : said(comm, "an asynchronous error of NCCL", result);
}

}  // namespace paro
