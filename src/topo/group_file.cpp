#include "topo/group_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "base/text_file.hpp"

namespace ho {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20U;
constexpr const char* kShape = R"(; write {"groups": [["node1", "node2"], ["node3"]]})";

Status bad_file(const std::string& path, const std::string& what) {
  return invalid("group file " + path + ": " + what + kShape);
}

}  // namespace

Result<GroupFile> GroupFile::parse(std::string_view json, const std::string& path) {
  const auto root = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
  if (root.is_discarded()) {
    return bad_file(path, "is not JSON");
  }
  if (!root.is_object() || !root.contains("groups") || !root["groups"].is_array() ||
      root["groups"].empty()) {
    return bad_file(path, "has no list named groups");
  }
  GroupFile file;
  file.path_ = path;
  uint32_t number = 0;
  for (const auto& group : root["groups"]) {
    if (!group.is_array() || group.empty()) {
      return bad_file(path, "group " + std::to_string(number) + " is not a list of host names");
    }
    for (const auto& host : group) {
      if (!host.is_string() || host.get_ref<const std::string&>().empty()) {
        return bad_file(
            path, "group " + std::to_string(number) + " holds something that is no host name");
      }
      const auto name = host.get<std::string>();
      if (!file.group_of_host_.emplace(name, number).second) {
        return bad_file(path, "host " + name + " is in it twice");
      }
    }
    ++number;
  }
  return file;
}

Result<GroupFile> GroupFile::load(const std::string& path) {
  const auto text = read_text_file(path, kMaxFileBytes);
  if (!text.ok()) {
    return bad_file(path, "cannot be read: " + text.status().message());
  }
  return parse(*text, path);
}

Result<uint32_t> GroupFile::group_of(const std::string& host_name) const {
  if (const auto found = group_of_host_.find(host_name); found != group_of_host_.end()) {
    return found->second;
  }
  return bad_file(path_, "host " + host_name + " runs ranks but is in no group");
}

std::string GroupFile::digest() const {
  Hash hash;
  for (const auto& [host, group] : group_of_host_) {
    hash.add(host).add(group);
  }
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash.value()));
  return text.data();
}

Result<std::optional<GroupFile>> group_file_from_environment() {
  const std::string path = env::text(env::kGroupFile);
  if (path.empty()) {
    return std::optional<GroupFile>();
  }
  HORING_ASSIGN(GroupFile file, GroupFile::load(path));
  return std::optional<GroupFile>(std::move(file));
}

}  // namespace ho
