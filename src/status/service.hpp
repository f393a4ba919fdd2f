// One thread for all jobs of a process, which answers what `horing status` asks and writes what is
// to be kept of a failure. It drives no operation and takes no lock that a thread holds while it
// does: its own one is held for as long as it takes to change or copy a description. Nothing wakes
// it but a question, a signal of HORING_RECORD_SIGNAL, a failure, and the end of the last job.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.hpp"
#include "os/clock.hpp"
#include "os/event_fd.hpp"
#include "os/fd.hpp"
#include "status/others.hpp"
#include "status/report.hpp"

namespace ho {

// The file of a rank in the folder of HORING_RECORD_DIR.
[[nodiscard]] std::string record_file(const std::string& folder, uint64_t job, uint32_t rank);
// Whether it could be written, for a job that has no number yet.
[[nodiscard]] Status check_record_folder(const std::string& folder, uint32_t rank);

class StatusService {
 private:
  struct Watched;

 public:
  // How long failures wait for their files, all of them together: a job may have many
  // communicators.
  static constexpr std::chrono::milliseconds kWriteTime{1000};
  // How long ranks of other hosts have for their answers, of what `horing status` waits for this
  // one.
  static constexpr std::chrono::milliseconds kOthersTime{500};

  // A control plane of a rank of a job, as long as it lives. Those of one job and rank share the
  // socket, the report and the record. Any thread.
  class Member {
   public:
    // Asks the other ranks that the control plane reaches what they do, with the number of that
    // question; take() is told what comes of it. Neither waits. false: nobody can be asked so.
    using AskOthers = std::function<bool(uint64_t)>;

    // `job` without communicators.
    Member(std::shared_ptr<StatusService> service, WatchedJob job, WatchedReach reach = {});
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // By rank of the control plane, as all ranks here.
    void set_hosts(std::vector<std::string> hosts);
    void add(WatchedCommunicator communicator);
    void remove(uint64_t key);
    void set_name(uint64_t key, const std::string& name);
    // Called with the service's lock held, and never again once this has returned with another one.
    void ask_others_with(AskOthers ask);
    void take(uint64_t question, uint32_t rank, std::string_view report);
    // For who asks so from elsewhere.
    [[nodiscard]] std::string report(size_t most_bytes) const;
    // The communicator has ended. Waits, for a moment, until the file is written, where there is to
    // be one.
    void failed(uint64_t key, const std::string& cause);

   private:
    friend class StatusService;
    [[nodiscard]] uint64_t key_in_job(uint64_t key) const { return key ^ reach_.plane; }
    [[nodiscard]] GlobalRank rank_in_job(GlobalRank rank) const;
    [[nodiscard]] size_t reached_count() const;
    [[nodiscard]] bool reaches(uint32_t rank_in_job) const;

    const std::shared_ptr<StatusService> service_;
    const WatchedReach reach_;
    const std::vector<uint32_t> reached_;  // its ranks, sorted
    // Guarded by the service's lock.
    std::shared_ptr<Watched> watched_;
    std::vector<uint64_t> keys_;  // of its communicators, in the job
    AskOthers ask_;
  };

  // The one of this process, not of the one that it was forked from. Null: no thread can be had,
  // which is logged; jobs go on without.
  [[nodiscard]] static std::shared_ptr<StatusService> of_process();
  // Throws std::system_error where there can be no more threads.
  using StartThread = std::function<std::thread(std::function<void()>)>;
  // One more; null as above.
  [[nodiscard]] static std::shared_ptr<StatusService> create(const StartThread& start);
  // How long the last job waits for the thread to end, which may be writing a record.
  static constexpr std::chrono::milliseconds kEndTime{5000};
  ~StatusService() = default;
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

 private:
  struct Connection {
    Fd fd;
    std::shared_ptr<Watched> job;
    std::string question;
    std::string answer;  // what is left of it
    bool answered = false;
    Deadline end;
    std::shared_ptr<OtherRanks> others = {};  // what its answer waits for
  };

  StatusService(EventFd wake, std::string record_folder);
  // Deletes it, or leaves that to its thread.
  static void end(StatusService* service);
  // false: it has not ended in time, and is left alone.
  [[nodiscard]] bool join_thread();
  void thread_ended();
  [[nodiscard]] Status start(const StartThread& start_thread);
  // Of that job and rank: the one that is there, or a new one.
  [[nodiscard]] std::shared_ptr<Watched> join(Member& member, WatchedJob job);
  void leave(Member& member);
  void open_socket(Watched& watched) const;
  void run();
  // false: this thread is to end.
  [[nodiscard]] bool wait_for_events();
  void accept_all(const std::shared_ptr<Watched>& job);
  // false: the connection is over.
  [[nodiscard]] bool serve(Connection& connection);
  [[nodiscard]] bool read_question(Connection& connection);
  [[nodiscard]] std::string answer_to(const Connection& connection);
  // Null: nobody can be asked.
  [[nodiscard]] std::shared_ptr<OtherRanks> ask_others(Watched& job);
  // Over the largest control plane that reaches the rank and over which the question has not gone:
  // that of all ranks, where there is one. Locked.
  static void ask_for(Watched& job, uint32_t rank);
  void answer_with_others(Connection& connection);
  [[nodiscard]] std::string report(const Watched& job,
                                   ReportDepth depth,
                                   size_t most_bytes = SIZE_MAX);
  // Where the file is, or why it could not be written.
  [[nodiscard]] Result<std::string> write_record(Watched& job);
  void write_due();
  [[nodiscard]] std::vector<std::shared_ptr<Watched>> jobs();

  const int process_;
  const std::string record_folder_;  // "": nothing is written
  const EventFd wake_;
  std::mutex joining_;  // of who makes sockets and removes them; taken before the other one
  std::mutex mutex_;
  std::condition_variable written_;
  // Guarded by it.
  std::list<std::shared_ptr<Watched>> jobs_;
  bool stopping_ = false;
  std::condition_variable ended_;
  bool thread_ended_ = false;
  std::chrono::nanoseconds wait_left_ = kWriteTime;
  // The thread's own.
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace ho
