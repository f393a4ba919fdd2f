// Groups by switch rather than by host: HORING_GROUP_FILE, {"groups": [["node1", "node2"],
// ["node3"]]}, maps host names to groups.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ho {

class GroupFile {
 public:
  // `path` is for messages.
  [[nodiscard]] static Result<GroupFile> parse(std::string_view json, const std::string& path);
  [[nodiscard]] static Result<GroupFile> load(const std::string& path);

  // The group of a host, or an error that names it.
  [[nodiscard]] Result<uint32_t> group_of(const std::string& host_name) const;
  // Equal for equal contents, so that ranks can compare their copies.
  [[nodiscard]] std::string digest() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  GroupFile() = default;
  std::string path_;
  std::map<std::string, uint32_t, std::less<>> group_of_host_;
};

// From HORING_GROUP_FILE; nothing where it is not set.
[[nodiscard]] Result<std::optional<GroupFile>> group_file_from_environment();

}  // namespace ho
