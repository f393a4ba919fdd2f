#include "cli/status/ask.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "base/quantity.hpp"
#include "os/clock.hpp"
#include "os/fd_passing.hpp"
#include "os/local_socket.hpp"
#include "status/others.hpp"

namespace ho {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{64} << 20U;

struct Socket {
  StatusSocketName name;
  std::string path;
};

// Those of this host in a folder that nobody else can have filled; why there is none, where that is
// so. Sockets of another host that has the folder too refuse all connections from here.
std::vector<Socket> sockets_in(const std::string& folder, std::string* why) {
  const Status status = check_status_folder(folder);
  std::error_code error;
  if (!status.ok()) {
    *why = std::filesystem::exists(folder, error) ? status.message() : folder + ": is not there";
    return {};
  }
  const uint32_t here = status_host();
  std::vector<Socket> sockets;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto name = parse_status_socket_name(entry.path().filename().string());
    if (name && name->host == here) {
      sockets.push_back({*name, entry.path().string()});
    }
  }
  *why = error ? folder + ": " + error.message() : folder + ": no rank listens there";
  return sockets;
}

// 'R', 'S', 'T', ..; 0: there is no such process to be seen.
char process_state(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');  // the name may hold anything
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

RankAnswer without_answer(pid_t pid) {
  const char state = process_state(pid);
  return state == 'T' || state == 't' ? RankAnswer::kStopped : RankAnswer::kNoAnswer;
}

class Question {
 public:
  explicit Question(RankReply& rank) : rank_(rank) {}

  // false: nobody listens there any more.
  [[nodiscard]] bool ask(const std::string& path, std::string_view question) {
    rank_.pid = rank_.name.pid;
    Result<Fd> connected = connect_local(path);
    if (!connected.ok()) {
      return connected.status().code() != StatusCode::kConnection;
    }
    const Result<ProcessCredentials> who = peer_credentials(*connected);
    if (!who.ok() || who->uid != ::geteuid()) {
      rank_.what = RankAnswer::kOtherOwner;
      return true;
    }
    rank_.pid = who->pid;
    const std::string line = std::string(question) + "\n";
    // A new connection takes so little.
    if (::send(connected->get(), line.data(), line.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(line.size())) {
      fd_ = *std::move(connected);
    }
    return true;
  }

  [[nodiscard]] int fd() const { return fd_.get(); }
  void read() {
    std::array<char, 65536> bytes{};
    while (fd_.valid()) {
      const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
      }
      if (got > 0 && rank_.answer.size() < kMaxAnswerBytes) {
        rank_.answer.append(bytes.data(), static_cast<size_t>(got));
        continue;
      }
      rank_.what = got == 0 && !rank_.answer.empty() ? RankAnswer::kAnswered : rank_.what;
      fd_.reset();
    }
  }
  void give_up() {
    if (rank_.what == RankAnswer::kNoAnswer) {
      rank_.what = without_answer(rank_.pid);
    }
  }

 private:
  RankReply& rank_;
  Fd fd_;
};

// Of each job the first rank whose process is not stopped; by the ranks, sorted by job and rank.
std::vector<RankReply> to_ask_for_others(const std::vector<RankReply>& ranks,
                                         AskElsewhere elsewhere) {
  std::vector<RankReply> chosen;
  std::optional<uint64_t> of_rank_0;  // the last job that has one
  for (const RankReply& rank : ranks) {
    of_rank_0 = rank.name.rank == 0 ? rank.name.job : of_rank_0;
    const bool first = chosen.empty() || chosen.back().name.job != rank.name.job;
    const bool asks = elsewhere == AskElsewhere::kAny || of_rank_0 == rank.name.job;
    if (first && asks && without_answer(rank.pid) != RankAnswer::kStopped) {
      chosen.push_back({.name = rank.name});
    }
  }
  return chosen;
}

// What one rank says of others, of those that have not been asked here.
void add_others(const RankReply& said, std::vector<RankReply>& ranks) {
  std::set<uint32_t> here;
  for (const RankReply& rank : ranks) {
    if (rank.name.job == said.name.job) {
      here.insert(rank.name.rank);
    }
  }
  std::string_view rest = said.answer;
  while (!rest.empty()) {
    const auto line = parse_other_rank(take_until(rest, '\n'));
    if (!line || !here.insert(line->first).second) {
      continue;
    }
    const std::string_view text = line->second;
    RankReply& rank = ranks.emplace_back();
    rank.name = StatusSocketName{said.name.job, line->first, 0};
    rank.elsewhere = true;
    rank.what = text == "gone"       ? RankAnswer::kGone
                : text == "left out" ? RankAnswer::kLeftOut
                : text.empty()       ? RankAnswer::kNoAnswer
                                     : RankAnswer::kAnswered;
    rank.answer = rank.what == RankAnswer::kAnswered ? text : "";
  }
}

void read_until(std::vector<Question>& questions, Deadline end) {
  while (!passed(end)) {
    std::vector<pollfd> waited;
    waited.reserve(questions.size());
    for (const Question& question : questions) {
      waited.push_back({question.fd(), POLLIN, 0});
    }
    if (std::ranges::all_of(waited, [](const pollfd& each) { return each.fd < 0; })) {
      return;
    }
    const auto most = std::chrono::ceil<std::chrono::milliseconds>(left(end));
    (void)::poll(waited.data(), waited.size(), static_cast<int>(most.count()));
    for (Question& question : questions) {
      question.read();
    }
  }
}

}  // namespace

RankReplies ask_ranks(const std::vector<std::string>& folders,
                      std::string_view job,
                      std::string_view question,
                      std::chrono::milliseconds most,
                      AskElsewhere elsewhere) {
  const Deadline end = deadline_after(most);
  RankReplies replies;
  std::vector<Socket> sockets;
  for (const std::string& folder : folders) {
    std::string why;
    const std::vector<Socket> found = sockets_in(folder, &why);
    sockets.insert(sockets.end(), found.begin(), found.end());
    if (found.empty()) {
      replies.looked.push_back(why);
    }
  }
  std::erase_if(
      sockets, [job](const Socket& socket) { return !job_name(socket.name.job).starts_with(job); });
  std::ranges::sort(sockets, [](const Socket& a, const Socket& b) {
    return std::tie(a.name.job, a.name.rank, a.name.pid) <
           std::tie(b.name.job, b.name.rank, b.name.pid);
  });
  replies.ranks.reserve(sockets.size());  // questions refer to them
  std::vector<Question> questions;
  for (const Socket& socket : sockets) {
    Question one(replies.ranks.emplace_back(RankReply{.name = socket.name}));
    if (one.ask(socket.path, question)) {
      questions.push_back(std::move(one));
    } else {
      (void)::unlink(socket.path.c_str());
      replies.ranks.pop_back();
    }
  }
  std::vector<RankReply> others = question == kAskStatus
                                      ? to_ask_for_others(replies.ranks, elsewhere)
                                      : std::vector<RankReply>();
  const auto path_of = [&](const RankReply& rank) {
    return std::ranges::find(sockets, rank.name, &Socket::name)->path;
  };
  for (RankReply& rank : others) {
    Question one(rank);
    if (one.ask(path_of(rank), kAskOthers)) {
      questions.push_back(std::move(one));
    }
  }
  read_until(questions, end);
  for (Question& each : questions) {
    each.give_up();
  }
  for (const RankReply& rank : others) {
    add_others(rank, replies.ranks);
  }
  return replies;
}

std::vector<std::string> jobs_in(const std::vector<std::string>& folders) {
  std::set<std::string> jobs;
  std::string why;
  for (const std::string& folder : folders) {
    for (const Socket& socket : sockets_in(folder, &why)) {
      jobs.insert(job_name(socket.name.job));
    }
  }
  return {jobs.begin(), jobs.end()};
}

}  // namespace ho
