#include "transport/tcp/link_paths.hpp"

#include <algorithm>

#include "connect/rail_interface.hpp"

namespace ho::tcp {

std::vector<Path> LinkPaths::all() const {
  std::vector<std::string> own;
  for (const RailInterface& rail : context_.options.rails) {
    own.push_back(rail.address);
  }
  return distinct_paths(key_.rail, own, context_.peers.at(key_.peer.at()).rail_addresses);
}

bool LinkPaths::usable(const Path& path) const {
  return context_.options.interface_trouble(context_.options.rails[path.own.at()]).empty();
}

LostPaths::Ends LinkPaths::ends_of(const Path& path) const {
  return {context_.options.rails[path.own.at()].address,
          context_.peers.at(key_.peer.at()).rail_addresses[path.peer.at()]};
}

void LinkPaths::note_lost(const std::vector<Path>& paths, int64_t now_ns) const {
  for (const Path& path : paths) {
    known().note_lost(ends_of(path), now_ns);
  }
}

void LinkPaths::note_well(const std::vector<Path>& paths) const {
  for (const Path& path : paths) {
    known().note_well(ends_of(path));
  }
}

std::vector<Path> LinkPaths::lost(int64_t now_ns) const {
  std::vector<Path> lost = all();
  std::erase_if(lost, [&](const Path& path) { return !known().lost(ends_of(path), now_ns); });
  return lost;
}

}  // namespace ho::tcp
