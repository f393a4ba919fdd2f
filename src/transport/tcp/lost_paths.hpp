// Which paths between hosts are lost, as far as links of this process have found out: another link
// begins with the others, and does not wait for an answer once more. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace ho::tcp {

class LostPaths {
 public:
  // For how long that is believed. Links that look for their rails say it again.
  static constexpr int64_t kBelievedNs = 30'000'000'000;
  // Addresses of this host's end and of the peer's.
  using Ends = std::pair<std::string, std::string>;

  // The one of all communicators of the process.
  [[nodiscard]] static const std::shared_ptr<LostPaths>& of_process();

  void note_lost(const Ends& path, int64_t now_ns);
  // Messages pass over it.
  void note_well(const Ends& path);
  [[nodiscard]] bool lost(const Ends& path, int64_t now_ns) const;

 private:
  mutable std::mutex mutex_;
  std::map<Ends, int64_t> until_ns_;
};

}  // namespace ho::tcp
