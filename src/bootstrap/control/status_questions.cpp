#include "bootstrap/control/status_questions.hpp"

#include <algorithm>

namespace ho {

void StatusQuestions::ask(uint32_t asking, uint64_t number) {
  constexpr size_t kMuch = size_t{1} << 20U;  // as others leave out what a rank need not have
  std::erase_if(open_, [asking](const auto& each) { return each.second.asking == asking; });
  if ((open_.size() + 1) * question_bytes() > kMaxOpenBytes && !open_.empty()) {
    open_.erase(open_.begin());
  }
  Question& question = open_[next_++];
  question = {asking, number, std::vector<bool>(peers_.world_size(), false), 0};
  for (uint32_t rank = 0; rank < peers_.world_size(); ++rank) {
    if (rank == asking) {
      continue;
    }
    if (!peers_.has(rank)) {
      pass_on(question, ControlConnection::body_of(StatusReport{GlobalRank(rank), {}}));
      continue;
    }
    question.awaits[rank] = true;
    ++question.awaited;
    const ControlConnection& connection = peers_.of(rank);
    if (!requested_[rank] && connection.is_open() && connection.unsent_bytes() < kMuch) {
      requested_[rank] = true;
      peers_.send(rank, wire::Type::kStatusQuestion, 0, nullptr);
    }
  }
}

void StatusQuestions::report(uint32_t rank, StatusReport report) {
  if (requested_[rank]) {
    requested_[rank] = false;
    report.rank = GlobalRank(rank);  // whoever it says it is
    answer(report);
  }
}

void StatusQuestions::gone(uint32_t rank) {
  requested_[rank] = false;
  std::erase_if(open_, [rank](const auto& each) { return each.second.asking == rank; });
  answer({GlobalRank(rank), {}});
}

void StatusQuestions::answer(const StatusReport& report) {
  const auto body = ControlConnection::body_of(report);
  for (auto& [id, question] : open_) {
    if (question.awaits[report.rank.at()]) {
      question.awaits[report.rank.at()] = false;
      --question.awaited;
      pass_on(question, body);
    }
  }
  std::erase_if(open_, [](const auto& each) { return each.second.awaited == 0; });
}

void StatusQuestions::pass_on(const Question& question, const ControlConnection::Body& body) {
  if (peers_.has(question.asking) && peers_.of(question.asking).unsent_bytes() < kMaxUnread) {
    peers_.send(question.asking, wire::Type::kStatusReport, question.number, body);
  }
}

}  // namespace ho
