// The paths of one link: all there are between the two hosts, and which of them are of no use now,
// as far as this host's kernel and other links of the process know.
#pragma once

#include <vector>

#include "transport/tcp/context.hpp"
#include "transport/tcp/lost_paths.hpp"
#include "transport/tcp/paths.hpp"

namespace ho::tcp {

class LinkPaths {
 public:
  // `context` outlives it.
  LinkPaths(const Context& context, const LinkKey& key) : context_(context), key_(key) {}

  // Each once, in the order of trying.
  [[nodiscard]] std::vector<Path> all() const;
  [[nodiscard]] bool usable(const Path& path) const;
  void note_lost(const std::vector<Path>& paths, int64_t now_ns) const;
  void note_well(const std::vector<Path>& paths) const;
  // Those that some link has lost lately.
  [[nodiscard]] std::vector<Path> lost(int64_t now_ns) const;

 private:
  [[nodiscard]] LostPaths& known() const { return *context_.options.failover.lost_paths; }
  [[nodiscard]] LostPaths::Ends ends_of(const Path& path) const;

  const Context& context_;
  const LinkKey key_;
};

}  // namespace ho::tcp
