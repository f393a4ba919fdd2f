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
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "os/fd_passing.hpp"
#include "os/local_socket.hpp"
#include "os/written_file.hpp"
#include "status/folder.hpp"

namespace ho {
namespace {

constexpr int kBacklog = 16;
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

int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What the signal's handler rings; -1: nothing yet. Never closed: a handler may be about to write.
std::atomic<int> signalled_fd = -1;
std::atomic<bool> signalled = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// write() is one of the few calls that a handler may make.
void on_signal(int /*number*/) {
  const int error = errno;
  signalled = true;
  const uint64_t one = 1;
  (void)!::write(signalled_fd, &one, sizeof one);
  errno = error;
}

// The handler stays when the service ends: by default most signals end a process.
void take_signal(const EventFd& wake) {
  const Result<std::optional<int>> number = env::record_signal();
  if (!number.ok() || !number->has_value()) {
    return;  // who begins a job is told what is wrong with it (env::check_numbers)
  }
  if (signalled_fd < 0) {
    signalled_fd = ::fcntl(wake.fd(), F_DUPFD_CLOEXEC, 0);
  } else {
    (void)::dup3(wake.fd(), signalled_fd, O_CLOEXEC);
  }
  struct sigaction there {};
  const int signal = **number;
  if (::sigaction(signal, nullptr, &there) == 0 && there.sa_handler != SIG_DFL &&
      there.sa_handler != SIG_IGN && there.sa_handler != on_signal) {
    log_warn("{}={}: the program has a handler for that signal, which stays",
             env::kRecordSignal.name,
             signal);
    return;
  }
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  if (::sigaction(signal, &ours, nullptr) != 0) {
    log_warn(
        "{}={}: {}", env::kRecordSignal.name, signal, system_error("sigaction", errno).message());
  }
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
  bool write_due = false;
  Member::AskOthers ask_others = {};
  // Of one question at a time, by its number: who asks meanwhile gets the same answer.
  uint64_t question = 0;
  std::shared_ptr<OtherRanks> others = {};
};

StatusService::Member::Member(std::shared_ptr<StatusService> service, WatchedJob job)
    : service_(std::move(service)), watched_(std::make_shared<Watched>()) {
  watched_->job = std::move(job);
  watched_->job.program = program_name();
  if (service_ == nullptr) {
    return;
  }
  service_->open_socket(*watched_);
  {
    const std::scoped_lock lock(service_->mutex_);
    service_->jobs_.push_back(watched_);
  }
  service_->wake_.ring();
}

StatusService::Member::~Member() {
  if (service_ == nullptr || service_->process_ != ::getpid()) {
    return;  // the lock may have been the thread's, and the socket is the parent's
  }
  const std::scoped_lock lock(service_->mutex_);
  if (!watched_->path.empty()) {
    (void)::unlink(watched_->path.c_str());
  }
  service_->jobs_.remove(watched_);
  service_->wake_.ring();
}

void StatusService::Member::set_hosts(std::vector<std::string> hosts) {
  if (service_ != nullptr) {
    const std::scoped_lock lock(service_->mutex_);
    watched_->job.host = hosts.at(watched_->job.rank);
    watched_->job.hosts = std::move(hosts);
  }
}

void StatusService::Member::add(WatchedCommunicator communicator) {
  if (service_ != nullptr) {
    const std::scoped_lock lock(service_->mutex_);
    watched_->job.communicators.push_back(std::move(communicator));
  }
}

void StatusService::Member::remove(uint64_t key) {
  if (service_ != nullptr) {
    const std::scoped_lock lock(service_->mutex_);
    std::erase_if(watched_->job.communicators,
                  [key](const WatchedCommunicator& each) { return each.key == key; });
  }
}

void StatusService::Member::set_name(uint64_t key, const std::string& name) {
  if (service_ != nullptr) {
    const std::scoped_lock lock(service_->mutex_);
    for (WatchedCommunicator& each : watched_->job.communicators) {
      each.name = each.key == key ? name : each.name;
    }
  }
}

void StatusService::Member::ask_others_with(AskOthers ask) {
  if (service_ != nullptr && service_->process_ == ::getpid()) {
    const std::scoped_lock lock(service_->mutex_);
    watched_->ask_others = std::move(ask);
  }
}

void StatusService::Member::take(uint64_t question, uint32_t rank, std::string_view report) {
  if (service_ == nullptr) {
    return;
  }
  const std::scoped_lock lock(service_->mutex_);
  if (watched_->others != nullptr && watched_->question == question) {
    watched_->others->take(rank, report);
    if (watched_->others->complete()) {
      service_->wake_.ring();
    }
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
    each.cause = each.key == key ? cause : each.cause;
  }
  if (service_->record_folder_.empty()) {
    return;
  }
  watched_->write_due = true;
  service_->wake_.ring();
  const Deadline began = Clock::now();
  service_->written_.wait_until(
      lock, began + service_->wait_left_, [this] { return !watched_->write_due; });
  service_->wait_left_ -= std::min(service_->wait_left_, Clock::now() - began);
}

std::shared_ptr<StatusService> StatusService::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<StatusService> current;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<StatusService> service = current.lock();
  if (service == nullptr || service->process_ != ::getpid()) {
    Result<EventFd> wake = EventFd::create();
    if (!wake.ok()) {
      log_warn("horing status will not find this process: {}", wake.status().message());
      return nullptr;
    }
    service = std::shared_ptr<StatusService>(
        new StatusService(*std::move(wake), env::text(env::kRecordDir)));
    current = service;
  }
  return service;
}

// No signal of the program's is to be handled on its thread.
StatusService::StatusService(EventFd wake, std::string record_folder)
    : process_(::getpid()), record_folder_(std::move(record_folder)), wake_(std::move(wake)) {
  take_signal(wake_);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StatusService::~StatusService() {
  if (process_ != ::getpid()) {
    thread_.detach();  // a fork has no threads but the one that forked
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.ring();
  thread_.join();
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
    const StatusSocketName name{watched.job.job, watched.job.rank, process_};
    const std::string path = *folder + "/" + to_string(name);
    Result<Fd> listener = listen_local(path, kBacklog);
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
  if (job.ask_others && (job.others == nullptr || job.others->over(Clock::now()))) {
    job.others =
        std::make_shared<OtherRanks>(job.job.rank, job.job.world_size, deadline_after(kOthersTime));
    job.ask_others(++job.question);
  }
  return job.ask_others ? job.others : nullptr;
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
  const bool all = signalled.exchange(false);
  for (const auto& job : jobs()) {
    {
      const std::scoped_lock lock(mutex_);
      if (!job->write_due && !all) {
        continue;
      }
    }
    if (const Status status = write_record(*job).status(); !status.ok()) {
      log_error("{}: {}", env::kRecordDir.name, status.message());
    }
    const std::scoped_lock lock(mutex_);
    job->write_due = false;
    written_.notify_all();
  }
}

}  // namespace ho
