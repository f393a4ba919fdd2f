#include "layout/grouping.hpp"

#include <vector>

#include "base/quantity.hpp"
#include "base/text_file.hpp"

namespace paro {
namespace {

using ho::GlobalRank;
using Members = std::vector<std::vector<GlobalRank>>;

constexpr size_t kMaxFileBytes = size_t{16} << 20U;
constexpr std::string_view kBlanks = " \t\r\v\f";
// Of a word that a message quotes.
constexpr size_t kMaxTextBytes = 32;

class GroupsText {
 public:
  GroupsText(uint32_t world_size, const std::string& name)
      : name_(name), line_of_rank_(world_size, 0) {}

  // One line, without its end.
  ho::Status add_line(std::string_view line) {
    ++line_;
    line = line.substr(0, line.find('#'));
    std::vector<GlobalRank> group;
    for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
         at = line.find_first_not_of(kBlanks)) {
      line.remove_prefix(at);
      const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
      HORING_TRY(add_rank(word, group));
      line.remove_prefix(word.size());
    }
    if (!group.empty()) {
      members_.push_back(std::move(group));
    }
    return {};
  }

  ho::Result<ho::GroupMap> finish() && {
    for (size_t rank = 0; rank < line_of_rank_.size(); ++rank) {
      if (line_of_rank_[rank] == 0) {
        return refused("the text ends here, and rank " + std::to_string(rank) + " of " +
                       std::to_string(line_of_rank_.size()) + " is in no group");
      }
    }
    return ho::GroupMap::from_members(std::move(members_));
  }

 private:
  ho::Status refused(const std::string& why) const {
    return ho::invalid("groups file " + name_ + ", line " + std::to_string(line_) + ": " + why +
                       "; write one line per group: its ranks, separated by blanks");
  }

  ho::Status add_rank(std::string_view word, std::vector<GlobalRank>& group) {
    const auto number = ho::whole_number<uint32_t>(word);
    if (!number) {
      return refused("'" + std::string(word.substr(0, kMaxTextBytes)) + "' is not a rank");
    }
    const uint32_t rank = *number;
    if (rank >= line_of_rank_.size()) {
      return refused("rank " + std::to_string(rank) + " is not one of the " +
                     std::to_string(line_of_rank_.size()) + " of this job (0 to " +
                     std::to_string(line_of_rank_.size() - 1) + ")");
    }
    if (line_of_rank_[rank] != 0) {
      return refused("rank " + std::to_string(rank) + " is there already, in line " +
                     std::to_string(line_of_rank_[rank]));
    }
    line_of_rank_[rank] = line_;
    group.push_back(GlobalRank(rank));
    return {};
  }

  const std::string& name_;
  std::vector<uint64_t> line_of_rank_;  // 0: not seen yet
  uint64_t line_ = 0;
  Members members_;
};

}  // namespace

ho::Result<ho::GroupMap> group_by_size(const ho::GroupMap& nodes, uint32_t size) {
  if (size == 0) {
    return nodes;
  }
  if (nodes.world_size() % size != 0) {
    return ho::invalid("groups of " + std::to_string(size) + " ranks in a world of " +
                       std::to_string(nodes.world_size()) +
                       " leave some over: take a size that divides it, or write a groups file");
  }
  Members members;
  for (uint32_t node = 0; node < nodes.group_count(); ++node) {
    for (const GlobalRank rank : nodes.members(ho::GroupIndex(node))) {
      if (members.empty() || members.back().size() == size) {
        members.emplace_back();
      }
      members.back().push_back(rank);
    }
  }
  return ho::GroupMap::from_members(std::move(members));
}

ho::Result<ho::GroupMap> parse_groups(std::string_view text,
                                      uint32_t world_size,
                                      const std::string& name) {
  GroupsText groups(world_size, name);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    HORING_TRY(groups.add_line(line));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  }
  return std::move(groups).finish();
}

ho::Result<ho::GroupMap> read_groups(const std::string& path, uint32_t world_size) {
  const auto text = ho::read_text_file(path, kMaxFileBytes);
  if (!text.ok()) {
    return ho::invalid("groups file " + path + ": " + text.status().message());
  }
  return parse_groups(*text, world_size, path);
}

}  // namespace paro
