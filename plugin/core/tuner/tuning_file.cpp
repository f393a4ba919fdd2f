#include "core/tuner/tuning_file.hpp"

#include <algorithm>
#include <array>

#include "auth/printable.hpp"
#include "base/env.hpp"
#include "base/hash.hpp"
#include "base/quantity.hpp"
#include "base/text_file.hpp"

namespace ho::plugin {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr size_t kFieldCount = 6;
constexpr std::array<std::string_view, kFieldCount> kFieldNames{
    "collective", "min_bytes", "max_bytes", "nodes", "ranks_per_node", "choice"};
constexpr const char* kShape = "write collective,min_bytes,max_bytes,nodes,ranks_per_node,choice";
constexpr size_t kMaxTextBytes = 40;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return text.substr(text.size());
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_any(std::string_view text) {
  return text == "*" || text == "-1";
}

// One line of the file, for its errors. Fields point into it.
class Line {
 public:
  Line(const std::string& path, uint32_t number, std::string_view text)
      : path_(path), number_(number), text_(text) {}

  [[nodiscard]] Status bad(std::string_view at, const std::string& what) const {
    const auto column = static_cast<size_t>(at.data() - text_.data()) + 1;
    return invalid(path_ + ":" + std::to_string(number_) + ":" + std::to_string(column) + ": " +
                   what);
  }
  [[nodiscard]] Status bad_field(size_t index, std::string_view field, const char* takes) const {
    return bad(
        field,
        std::string(kFieldNames[index]) + " '" + printable(field, kMaxTextBytes) + "': " + takes);
  }
  [[nodiscard]] uint32_t number() const { return number_; }

  [[nodiscard]] Result<std::array<std::string_view, kFieldCount>> fields() const {
    std::array<std::string_view, kFieldCount> fields;
    std::string_view rest = text_.substr(0, text_.find('#'));
    for (size_t i = 0; i < kFieldCount; ++i) {
      const size_t comma = rest.find(',');
      fields[i] = trimmed(rest.substr(0, comma));
      const bool last = i + 1 == kFieldCount;
      if (last && comma != std::string_view::npos) {
        return bad(rest.substr(comma), std::string("more than 6 fields; ") + kShape);
      }
      if (!last && comma == std::string_view::npos) {
        return bad(fields[i],
                   std::to_string(i + 1) + (i == 0 ? " field" : " fields") + " of 6; " + kShape);
      }
      rest.remove_prefix(last ? rest.size() : comma + 1);
    }
    return fields;
  }

 private:
  const std::string& path_;
  uint32_t number_;
  std::string_view text_;
};

Status read_limit(const Line& line, size_t index, std::string_view field, uint64_t& limit) {
  if (is_any(field)) {
    return {};
  }
  const auto bytes = parse_bytes(field);
  if (!bytes) {
    return line.bad_field(
        index, field, "takes a whole number, with K, M, G or T or without, or * for no limit");
  }
  limit = *bytes;
  return {};
}

Status read_count(const Line& line,
                  size_t index,
                  std::string_view field,
                  std::optional<uint32_t>& count) {
  if (is_any(field)) {
    return {};
  }
  const auto number = whole_number<uint64_t>(field);
  if (!number || *number == 0 || *number > UINT32_MAX) {
    return line.bad_field(index, field, "takes a whole number from 1, or * for any");
  }
  count = static_cast<uint32_t>(*number);
  return {};
}

Result<TuningRule> read_rule(const Line& line) {
  HORING_ASSIGN(const auto fields, line.fields());
  if (fields == kFieldNames) {
    return line.bad(fields[0], "the names of the fields, which is no rule; put # before them");
  }
  TuningRule rule;
  rule.line = line.number();
  if (fields[0] != "*") {
    rule.collective = parse_tuned_collective(fields[0]);
    if (!rule.collective) {
      return line.bad_field(
          0, fields[0], "takes all_reduce, all_gather, reduce_scatter, or * for all three");
    }
  }
  HORING_TRY(read_limit(line, 1, fields[1], rule.min_bytes));
  HORING_TRY(read_limit(line, 2, fields[2], rule.max_bytes));
  if (rule.min_bytes > rule.max_bytes) {
    return line.bad_field(2, fields[2], "is less than min_bytes");
  }
  HORING_TRY(read_count(line, 3, fields[3], rule.nodes));
  HORING_TRY(read_count(line, 4, fields[4], rule.ranks_per_node));
  const auto choice = parse_choice(fields[5]);
  if (!choice) {
    return line.bad_field(5,
                          fields[5],
                          "takes default, own, ring, tree, collnet_direct, collnet_chain, nvls, "
                          "nvls_tree or pat");
  }
  rule.choice = *choice;
  if (rule.collective && !can_be(*rule.collective, rule.choice)) {
    const std::string why = "NCCL has no such algorithm for " + std::string(fields[0]);
    return line.bad_field(5, fields[5], why.c_str());
  }
  return rule;
}

}  // namespace

bool TuningRule::is_for(const CommonInputs& inputs, TunedCollective requested) const {
  const bool ranks_match = !ranks_per_node || (inputs.least_local_ranks == *ranks_per_node &&
                                               inputs.most_local_ranks == *ranks_per_node);
  return collective.value_or(requested) == requested &&
         nodes.value_or(inputs.node_count) == inputs.node_count && ranks_match;
}

Result<TuningFile> TuningFile::parse(std::string_view text, const std::string& path) {
  if (text.size() > kMaxBytes) {
    return invalid(path + ": is larger than 1 MiB; a tuning file has at most " +
                   std::to_string(kMaxRules) + " rules");
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // as some editors begin UTF-8
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  TuningFile file;
  uint32_t number = 0;
  while (!text.empty()) {
    const std::string_view line_text = take_until(text, '\n');
    const Line line(path, ++number, line_text);
    if (const size_t nul = line_text.find('\0'); nul != std::string_view::npos) {
      return line.bad(line_text.substr(nul), "a NUL byte; this is no text file");
    }
    if (trimmed(line_text.substr(0, line_text.find('#'))).empty()) {
      continue;
    }
    if (file.rules_.size() == kMaxRules) {
      return line.bad(line_text,
                      "more than " + std::to_string(kMaxRules) + " rules; join ranges or use *");
    }
    HORING_ASSIGN(TuningRule rule, read_rule(line));
    file.rules_.push_back(rule);
  }
  return file;
}

Result<TuningFile> TuningFile::load(const std::string& path) {
  const auto text = read_text_file(path, kMaxBytes);
  if (!text.ok()) {
    return invalid("tuning file " + path + ": " + text.status().message());
  }
  return parse(*text, path);
}

const TuningRule* TuningFile::find(const CommonInputs& inputs,
                                   TunedCollective collective,
                                   uint64_t bytes) const {
  const auto found = std::ranges::find_if(rules_, [&](const TuningRule& rule) {
    return bytes >= rule.min_bytes && bytes <= rule.max_bytes && rule.is_for(inputs, collective);
  });
  return found == rules_.end() ? nullptr : &*found;
}

uint64_t TuningFile::digest() const {
  if (rules_.empty()) {
    return 0;
  }
  Hash hash;
  for (const TuningRule& rule : rules_) {
    hash.add(rule.collective ? static_cast<uint64_t>(*rule.collective) : kTunedCollectiveCount);
    hash.add(rule.min_bytes);
    hash.add(rule.max_bytes);
    hash.add(rule.nodes.value_or(0));
    hash.add(rule.ranks_per_node.value_or(0));
    hash.add(static_cast<uint64_t>(rule.choice));
  }
  return hash.value();
}

Result<TuningFile> tuning_file_from_environment() {
  const std::string path = env::text(env::kTuningFile);
  return path.empty() ? Result<TuningFile>(TuningFile()) : TuningFile::load(path);
}

}  // namespace ho::plugin
