#include "status/job_ranks.hpp"

#include <algorithm>

#include "base/quantity.hpp"

namespace ho {
namespace {

// Whether what stands before a "rank " is no part of another word or of a program's own name.
bool begins_a_rank(std::string_view before) {
  const char last = before.empty() ? ' ' : before.back();
  const bool in_word = (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z') ||
                       (last >= '0' && last <= '9') || last == '_';
  return !in_word && !before.ends_with("global ");
}

// " (node0, pid 7)", or what the coordinator says of one.
bool is_of_a_process(std::string_view after) {
  if (after.starts_with(" is in ") || after.starts_with(" has not entered ")) {
    return true;
  }
  if (!after.starts_with(" (")) {
    return false;
  }
  const std::string_view inside = after.substr(2, after.find_first_of("()", 2) - 2);
  constexpr std::string_view kPid = ", pid ";
  const size_t pid = inside.rfind(kPid);
  return pid != std::string_view::npos && inside.size() + 2 < after.size() &&
         after[inside.size() + 2] == ')' &&
         whole_number<uint64_t>(inside.substr(pid + kPid.size())).has_value();
}

}  // namespace

std::string with_job_ranks(std::string_view text, const std::vector<GlobalRank>& ranks) {
  constexpr std::string_view kRank = "rank ";
  std::string made;
  size_t at = 0;
  for (size_t found = text.find(kRank); found != std::string_view::npos;
       found = text.find(kRank, at)) {
    const size_t begin = found + kRank.size();
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    const auto number = whole_number<uint32_t>(text.substr(begin, end - begin));
    const bool is_one = number && *number < ranks.size() && begins_a_rank(text.substr(0, found)) &&
                        is_of_a_process(text.substr(end));
    made += text.substr(at, begin - at);
    made += is_one ? std::to_string(ranks[*number].value()) : text.substr(begin, end - begin);
    at = end;
  }
  made += text.substr(at);
  return made;
}

}  // namespace ho
