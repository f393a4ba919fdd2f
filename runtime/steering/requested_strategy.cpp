#include "steering/requested_strategy.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/quantity.hpp"
#include "base/text_file.hpp"

namespace paro::steering {
namespace {

ho::Status refused(size_t line, const std::string& why) {
  return ho::invalid("line " + std::to_string(line) + ": " + why);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_plain(std::string_view text) {
  return text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_= ") ==
         std::string_view::npos;
}

ho::Status read_budget(std::string_view text, RequestedStrategy& request) {
  const auto bytes = ho::whole_number<uint64_t>(text);
  if (!bytes || request.budget_bytes) {
    return ho::invalid("takes one budget=BYTES, a whole number");
  }
  request.budget_bytes = bytes;
  return {};
}

ho::Status read_strategy(std::string_view text, RequestedStrategy& request) {
  if (request.strategy) {
    return ho::invalid("a second strategy");
  }
  HORING_ASSIGN(request.strategy, parse_strategy(text));
  return {};
}

ho::Status read_line(std::string_view line, RequestedStrategy& request) {
  if (!is_plain(line)) {  // it goes to a log
    return ho::invalid("has characters that no strategy and no budget has");
  }
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) {
    return read_strategy(line, request);
  }
  const std::string_view key = trimmed(line.substr(0, equals));
  const std::string_view value = trimmed(line.substr(equals + 1));
  if (key == "strategy") {
    return read_strategy(value, request);
  }
  if (key == "budget") {
    return read_budget(value, request);
  }
  return ho::invalid("takes strategy=LETTERS or budget=BYTES");
}

int64_t ns(const timespec& time) {
  constexpr int64_t kPerSecond = 1'000'000'000;
  return int64_t{time.tv_sec} * kPerSecond + time.tv_nsec;
}

}  // namespace

ho::Result<RequestedStrategy> parse_requested_strategy(std::string_view text) {
  if (text.size() > kMaxRequestBytes) {
    return refused(1, "more than " + std::to_string(kMaxRequestBytes) + " bytes");
  }
  RequestedStrategy request;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view written = text.substr(0, end);
    const std::string_view line = trimmed(written.substr(0, written.find('#')));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) {
      continue;
    }
    if (const ho::Status status = read_line(line, request); !status.ok()) {
      return refused(number, status.message());
    }
  }
  if (!request.strategy && !request.budget_bytes) {
    return refused(1, "has neither a strategy nor a budget");
  }
  return request;
}

RequestedStrategyFile::RequestedStrategyFile(std::string path)
    : path_(std::move(path)), seen_(identity()) {}

RequestedStrategyFile::Identity RequestedStrategyFile::identity() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) {
    return {0, 0, 0, 0, errno};
  }
  return {ns(status.st_mtim),
          ns(status.st_ctim),
          static_cast<int64_t>(status.st_ino),
          static_cast<int64_t>(status.st_size),
          0};
}

std::optional<ho::Result<RequestedStrategy>> RequestedStrategyFile::look() {
  const Identity now = identity();
  if (now == seen_) {
    return std::nullopt;
  }
  seen_ = now;
  if (now.back() == ENOENT) {
    return std::nullopt;
  }
  const auto text = ho::read_text_file(path_, kMaxRequestBytes);
  return text.ok() ? parse_requested_strategy(*text) : ho::Result<RequestedStrategy>(text.status());
}

}  // namespace paro::steering
