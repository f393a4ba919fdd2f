#include "status/service.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "os/fd_passing.hpp"
#include "os/local_socket.hpp"
#include "os/written_file.hpp"
#include "status/folder.hpp"
#include "status/job_ranks.hpp"
#include "status/record_signal.hpp"

namespace ho {
namespace {

constexpr int kStatusBacklog = 16;
constexpr size_t kMaxConnections = 32;
constexpr size_t kMaxQuestionBytes = 64;
// A connection that asks nothing, or reads nothing, is closed then.
constexpr std::chrono::milliseconds kConnectionTime{2000};

constexpr std::chrono::milliseconds kShortagePause{100};
constexpr size_t kMaxProgramBytes = 256;

// With its arguments.
std::string program_name() {
  const Fd file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  std::array<char, kMaxProgramBytes> bytes{};
  const ssize_t got = file.valid() ? ::read(file.get(), bytes.data(), bytes.size()) : 0;
  std::string name(bytes.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  while (!name.empty() && name.back() == '\0') {
    name.pop_back();
  }
  std::ranges::replace(name, '\0', ' ');
  return name;
}

std::vector<uint32_t> sorted_numbers(const std::vector<GlobalRank>& ranks) {
  std::vector<uint32_t> values;
  values.reserve(ranks.size());
  for (const GlobalRank rank : ranks) {
    values.push_back(rank.value());
  }
  std::ranges::sort(values);
  return values;
}

int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string record_file(const std::string& folder, uint64_t job, uint32_t rank) {
  return fmt::format("{}/{}-rank{}.json", folder, job_name(job), rank);
}

Status check_record_folder(const std::string& folder, uint32_t rank) {
  struct stat there {};
  const int error = ::stat(folder.c_str(), &there) == 0 ? 0 : errno;
  if (error == ENOENT) {
    return invalid("the folder " + folder + " is not there; make it on each host");
  }
  if (error == ENOTDIR || (error == 0 && !S_ISDIR(there.st_mode))) {
    return invalid(folder + " is no folder");
  }
  return check_replaceable(record_file(folder, 0, rank));
}

struct StatusService::Watched {
  Fd listener;
  std::string path;  // of its socket; "": there is none
  WatchedJob job;
  uint64_t records_due = 0;  // how many have been wanted, and how many of these are written
  uint64_t records_written = 0;
  std::vector<Member*> members = {};
  // Of one question at a time, by its number: who asks meanwhile gets the same answer.
  uint64_t question = 0;
  std::shared_ptr<OtherRanks> others = {};
  std::vector<const Member*> requested = {};
};

StatusService::Member::Member(std::shared_ptr<StatusService> service,
                              WatchedJob job,
                              WatchedReach reach)
    : service_(std::move(service)),
      reach_(std::move(reach)),
      reached_(sorted_numbers(reach_.ranks)) {
  if (service_ != nullptr) {
    watched_ = service_->join(*this, std::move(job));
  }
}

StatusService::Member::~Member() {
  // In a fork the lock may have been the thread's, and the socket is the parent's.
  if (service_ != nullptr && service_->process_ == ::getpid()) {
    service_->leave(*this);
  }
}

GlobalRank StatusService::Member::rank_in_job(GlobalRank rank) const {
  return rank.at() < reach_.ranks.size() ? reach_.ranks[rank.at()] : rank;
}

size_t StatusService::Member::reached_count() const {
  return reached_.empty() ? watched_->job.world_size : reached_.size();
}

bool StatusService::Member::reaches(uint32_t rank_in_job) const {
  return reached_.empty() || std::ranges::binary_search(reached_, rank_in_job);
}

void StatusService::Member::set_hosts(std::vector<std::string> hosts) {
  if (service_ == nullptr) {
    return;
  }
  const std::scoped_lock lock(service_->mutex_);
  WatchedJob& job = watched_->job;
  job.hosts.resize(job.world_size);
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    job.hosts.at(rank_in_job(GlobalRank(rank)).at()) = std::move(hosts[rank]);
  }
  job.host = job.hosts.at(job.rank);
}

void StatusService::Member::add(WatchedCommunicator communicator) {
  if (service_ == nullptr) {
    return;
  }
  const std::scoped_lock lock(service_->mutex_);
  communicator.key = key_in_job(communicator.key);
  communicator.cause = with_job_ranks(communicator.cause, reach_.ranks);
  for (GlobalRank& rank : communicator.ranks) {
    rank = rank_in_job(rank);
  }
  keys_.push_back(communicator.key);
  watched_->job.communicators.push_back(std::move(communicator));
}

void StatusService::Member::remove(uint64_t key) {
  if (service_ == nullptr) {
    return;
  }
  const std::scoped_lock lock(service_->mutex_);
  std::erase(keys_, key_in_job(key));
  watched_->job.ended +=
      std::erase_if(watched_->job.communicators,
                    [gone = key_in_job(key)](const auto& each) { return each.key == gone; });
}

void StatusService::Member::set_name(uint64_t key, const std::string& name) {
  if (service_ != nullptr) {
    const std::scoped_lock lock(service_->mutex_);
    for (WatchedCommunicator& each : watched_->job.communicators) {
      each.name = each.key == key_in_job(key) ? name : each.name;
    }
  }
}

void StatusService::Member::ask_others_with(AskOthers ask) {
  if (service_ != nullptr && service_->process_ == ::getpid()) {
    const std::scoped_lock lock(service_->mutex_);
    ask_ = std::move(ask);
  }
}

void StatusService::Member::take(uint64_t question, uint32_t rank, std::string_view report) {
  if (service_ == nullptr) {
    return;
  }
  const std::scoped_lock lock(service_->mutex_);
  const bool is_member = rank < reached_count();
  if (watched_->others == nullptr || watched_->question != question || !is_member) {
    return;
  }
  const uint32_t in_job = rank_in_job(GlobalRank(rank)).value();
  if (report.empty()) {
    ask_for(*watched_, in_job);  // it may have left one group and be in another
  }
  watched_->others->take(in_job, report);
  if (watched_->others->complete()) {
    service_->wake_.ring();
  }
}

std::string StatusService::Member::report(size_t most_bytes) const {
  return service_ == nullptr ? "{}"
                             : service_->report(*watched_, ReportDepth::kElsewhere, most_bytes);
}

void StatusService::Member::failed(uint64_t key, const std::string& cause) {
  if (service_ == nullptr || service_->process_ != ::getpid()) {
    return;
  }
  std::unique_lock lock(service_->mutex_);
  for (WatchedCommunicator& each : watched_->job.communicators) {
    each.cause = each.key == key_in_job(key) ? with_job_ranks(cause, reach_.ranks) : each.cause;
  }
  if (service_->record_folder_.empty()) {
    return;
  }
  const uint64_t due = ++watched_->records_due;
  service_->wake_.ring();
  const Deadline began = Clock::now();
  service_->written_.wait_until(
      lock, began + service_->wait_left_, [this, due] { return watched_->records_written >= due; });
  service_->wait_left_ -= std::min(service_->wait_left_, Clock::now() - began);
}

std::shared_ptr<StatusService> StatusService::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<StatusService> current;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<StatusService> service = current.lock();
  if (service == nullptr || service->process_ != ::getpid()) {
    service = create([](std::function<void()> run) { return std::thread(std::move(run)); });
    current = service;
  }
  return service;
}

std::shared_ptr<StatusService> StatusService::create(const StartThread& start) {
  Result<EventFd> wake = EventFd::create();
  Status status = wake.status();
  std::shared_ptr<StatusService> service;
  if (status.ok()) {
    service = std::shared_ptr<StatusService>(
        new StatusService(*std::move(wake), env::text(env::kRecordDir)), end);
    status = service->start(start);
  }
  if (!status.ok()) {
    log_warn(
        "horing status will not find this process, and it writes no records: {}; the job goes on "
        "without",
        status.message());
    return nullptr;
  }
  return service;
}

StatusService::StatusService(EventFd wake, std::string record_folder)
    : process_(::getpid()), record_folder_(std::move(record_folder)), wake_(std::move(wake)) {}

// No signal of the program's is to be handled on its thread.
Status StatusService::start(const StartThread& start_thread) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = start_thread([this] {
      run();
      thread_ended();
    });
  } catch (const std::system_error& error) {
    status = Status(StatusCode::kSystem, std::string("no thread can be started: ") + error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (status.ok()) {
    take_record_signal(wake_);
  }
  return status;
}

void StatusService::end(StatusService* service) {
  if (service->process_ != ::getpid()) {
    service->thread_.detach();  // a fork has no threads but the one that forked
  } else if (service->thread_.joinable() && !service->join_thread()) {
    return;
  }
  const std::unique_ptr<StatusService> owner(service);
}

// A thread that writes to a file system that does not answer cannot be stopped; it may free what it
// uses when it has ended.
bool StatusService::join_thread() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.ring();
    if (!ended_.wait_for(lock, kEndTime, [this] { return thread_ended_; })) {
      thread_.detach();
      log_warn(
          "the thread for horing status has not ended within {} ms: is the folder of {} on a file "
          "system that does not answer? The record may be missing",
          kEndTime.count(),
          env::kRecordDir.name);
      return false;
    }
  }
  thread_.join();
  return true;
}

void StatusService::thread_ended() {
  std::unique_lock lock(mutex_);
  thread_ended_ = true;
  const bool left = !thread_.joinable();
  ended_.notify_all();
  lock.unlock();
  if (left) {
    delete this;
  }
}

std::shared_ptr<StatusService::Watched> StatusService::join(Member& member, WatchedJob job) {
  const std::scoped_lock joining(joining_);
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& each : jobs_) {
      if (each->job.job == job.job && each->job.rank == job.rank) {
        each->job.world_size = std::max(each->job.world_size, job.world_size);
        each->members.push_back(&member);
        return each;
      }
    }
  }
  auto watched = std::make_shared<Watched>();
  watched->job = std::move(job);
  watched->job.program = program_name();
  watched->members.push_back(&member);
  open_socket(*watched);
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(watched);
  }
  wake_.ring();
  return watched;
}

void StatusService::leave(Member& member) {
  const std::scoped_lock locks(joining_, mutex_);
  Watched& watched = *member.watched_;
  std::erase(watched.members, &member);
  std::erase(watched.requested, &member);
  watched.job.ended +=
      std::erase_if(watched.job.communicators, [&member](const WatchedCommunicator& each) {
        return std::ranges::find(member.keys_, each.key) != member.keys_.end();
      });
  if (watched.members.empty()) {
    if (!watched.path.empty()) {
      (void)::unlink(watched.path.c_str());
    }
    jobs_.remove(member.watched_);
    wake_.ring();
  }
}

// A job goes on without: who cannot be asked is named as missing.
void StatusService::open_socket(Watched& watched) const {
  const std::vector<std::string> folders = status_folders();
  if (folders.empty()) {
    return;
  }
  const Result<std::string> folder = make_status_folder(folders);
  Status status = folder.status();
  if (folder.ok()) {
    const StatusSocketName name{watched.job.job, watched.job.rank, process_, status_host()};
    const std::string path = *folder + "/" + to_string(name);
    Result<Fd> listener = listen_local(path, kStatusBacklog);
    status = listener.status();
    if (listener.ok()) {
      watched.listener = *std::move(listener);
      watched.path = path;
    }
  }
  if (!status.ok()) {
    log_warn(
        "horing status will not find this rank: {}; HORING_STATUS_DIR names another folder, "
        "or none",
        status.message());
  }
}

std::vector<std::shared_ptr<StatusService::Watched>> StatusService::jobs() {
  const std::scoped_lock lock(mutex_);
  return {jobs_.begin(), jobs_.end()};
}

void StatusService::run() {
  while (wait_for_events()) {
    write_due();
    for (auto connection = connections_.begin(); connection != connections_.end();) {
      connection = serve(*connection) ? std::next(connection) : connections_.erase(connection);
    }
  }
  write_due();
}

bool StatusService::wait_for_events() {
  const auto all = jobs();
  std::vector<pollfd> waited{{wake_.fd(), POLLIN, 0}};
  for (const auto& job : all) {
    waited.push_back({job->listener.get(), POLLIN, 0});  // -1 is ignored
  }
  Deadline until = Deadline::max();
  for (const Connection& connection : connections_) {
    const int events = connection.answered ? POLLOUT : POLLIN;
    const bool waits = connection.others != nullptr;
    waited.push_back({waits ? -1 : connection.fd.get(), static_cast<short>(events), 0});
    until = std::min(until, waits ? connection.others->end() : connection.end);
  }
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(left(until));
  (void)::poll(
      waited.data(), waited.size(), until == Deadline::max() ? -1 : static_cast<int>(most.count()));
  (void)wake_.drain();
  for (size_t i = 0; i < all.size(); ++i) {
    if (waited[i + 1].revents != 0) {
      accept_all(all[i]);
    }
  }
  const std::scoped_lock lock(mutex_);
  return !stopping_;
}

void StatusService::accept_all(const std::shared_ptr<Watched>& job) {
  while (true) {
    Result<Fd> accepted = accept_waiting(job->listener);
    if (!accepted.ok()) {
      // A shortage, of descriptors say: the connection stays, and poll() would return at once.
      std::this_thread::sleep_for(kShortagePause);
    }
    if (!accepted.ok() || !accepted->valid()) {
      return;
    }
    // The folder lets nobody else in; this holds where somebody opened it.
    const Result<ProcessCredentials> who = peer_credentials(*accepted);
    if (who.ok() && who->uid == ::geteuid() && connections_.size() < kMaxConnections) {
      connections_.push_back(
          {*std::move(accepted), job, {}, {}, false, deadline_after(kConnectionTime)});
    }
  }
}

bool StatusService::serve(Connection& connection) {
  const bool has_read = connection.answered || connection.others != nullptr;
  if (!has_read && !read_question(connection)) {
    return false;
  }
  if (connection.others != nullptr) {
    answer_with_others(connection);
  }
  while (!connection.answer.empty()) {
    const ssize_t sent = ::send(
        connection.fd.get(), connection.answer.data(), connection.answer.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return errno == EAGAIN && !passed(connection.end);
    }
    connection.answer.erase(0, sent < 0 ? 0 : static_cast<size_t>(sent));
  }
  return !connection.answered && !passed(connection.end);
}

bool StatusService::read_question(Connection& connection) {
  std::array<char, kMaxQuestionBytes> bytes{};
  const ssize_t got = ::recv(connection.fd.get(), bytes.data(), bytes.size(), 0);
  if (got <= 0) {
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  connection.question.append(bytes.data(), static_cast<size_t>(got));
  const size_t end = connection.question.find('\n');
  if (end == std::string::npos && connection.question.size() <= kMaxQuestionBytes) {
    return true;
  }
  connection.question.resize(std::min(end, connection.question.size()));
  if (connection.question == kAskOthers) {
    connection.others = ask_others(*connection.job);
  }
  if (connection.others == nullptr) {
    connection.answer = answer_to(connection);
    connection.answered = true;
  }
  return true;
}

std::shared_ptr<OtherRanks> StatusService::ask_others(Watched& job) {
  const std::scoped_lock lock(mutex_);
  const bool can_ask =
      std::ranges::any_of(job.members, [](const Member* each) { return each->ask_ != nullptr; });
  if (can_ask && (job.others == nullptr || job.others->over(Clock::now()))) {
    job.others =
        std::make_shared<OtherRanks>(job.job.rank, job.job.world_size, deadline_after(kOthersTime));
    ++job.question;
    job.requested.clear();
    for (uint32_t rank = 0; rank < job.job.world_size; ++rank) {
      if (rank != job.job.rank && !job.others->expects(rank)) {
        ask_for(job, rank);
      }
    }
  }
  return can_ask ? job.others : nullptr;
}

void StatusService::ask_for(Watched& job, uint32_t rank) {
  while (true) {
    const Member* largest = nullptr;
    for (const Member* each : job.members) {
      const bool is_left = each->ask_ != nullptr && each->reaches(rank) &&
                           std::ranges::find(job.requested, each) == job.requested.end();
      if (is_left && (largest == nullptr || each->reached_count() > largest->reached_count())) {
        largest = each;
      }
    }
    if (largest == nullptr) {
      return;
    }
    job.requested.push_back(largest);
    if (largest->ask_(job.question)) {
      for (size_t each = 0; each < largest->reached_count(); ++each) {
        job.others->expect(largest->rank_in_job(GlobalRank(each)).value());
      }
      return;
    }
  }
}

void StatusService::answer_with_others(Connection& connection) {
  const std::scoped_lock lock(mutex_);
  if (!connection.others->over(Clock::now())) {
    return;
  }
  connection.answer = connection.others->text();
  connection.answered = true;
  if (connection.job->others == connection.others) {
    connection.job->others = nullptr;
  }
  connection.others = nullptr;
}

std::string StatusService::answer_to(const Connection& connection) {
  if (connection.question == kAskStatus) {
    return report(*connection.job, ReportDepth::kNow);
  }
  if (connection.question == kAskOthers) {
    return "{\"error\": \"other ranks cannot be asked from this one\"}\n";
  }
  if (connection.question == kAskRecord) {
    return record_answer_json(write_record(*connection.job));
  }
  return "{\"error\": \"a question of another version of horing\"}\n";
}

std::string StatusService::report(const Watched& job, ReportDepth depth, size_t most_bytes) {
  WatchedJob copy;
  {
    const std::scoped_lock lock(mutex_);
    copy = job.job;
  }
  return report_json(copy, depth, now_ns(), unix_now_ns(), most_bytes);
}

Result<std::string> StatusService::write_record(Watched& job) {
  if (record_folder_.empty()) {
    return invalid("HORING_RECORD_DIR names no folder for it");
  }
  const std::string path = record_file(record_folder_, job.job.job, job.job.rank);
  HORING_TRY(replace_file(path, report(job, ReportDepth::kAll)));
  return path;
}

void StatusService::write_due() {
  const bool all = take_record_request();
  for (const auto& job : jobs()) {
    uint64_t due = 0;  // what is wanted while this one is written may not be in it
    {
      const std::scoped_lock lock(mutex_);
      due = job->records_due;
      if (due == job->records_written && !all) {
        continue;
      }
    }
    if (const Status status = write_record(*job).status(); !status.ok()) {
      log_error("{}: {}", env::kRecordDir.name, status.message());
    }
    const std::scoped_lock lock(mutex_);
    job->records_written = due;
    written_.notify_all();
  }
}

}  // namespace ho
