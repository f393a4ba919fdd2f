#include "transport/tcp/paths.hpp"

#include <algorithm>

namespace ho::tcp {

std::vector<Path> paths_of(std::span<const Share> shares) {
  std::vector<Path> paths;
  for (const Share& share : shares) {
    if (std::ranges::find(paths, share.path) == paths.end()) {
      paths.push_back(share.path);
    }
  }
  return paths;
}

double part_over(const Path& path, std::span<const Share> shares) {
  double sum = 0;
  double over = 0;
  for (const Share& share : shares) {
    sum += share.weight;
    over += share.path == path ? share.weight : 0;
  }
  return sum == 0 ? 0 : over / sum;
}

bool only_open(const Path& path, std::span<const Share> shares) {
  return std::ranges::find(shares, Share{path, 0}) != shares.end();
}

std::vector<Path> paths_from(RailIndex rail, size_t own_rails, size_t peer_rails) {
  std::vector<Path> paths;
  const size_t common = std::min(own_rails, peer_rails);
  for (size_t step = 0; step < common; ++step) {
    const RailIndex equal(static_cast<uint32_t>((rail.at() + step) % common));
    paths.push_back({equal, equal});
  }
  for (size_t step = 0; step < own_rails; ++step) {
    const RailIndex own(static_cast<uint32_t>((rail.at() + step) % own_rails));
    for (size_t i = 0; i < peer_rails; ++i) {
      const RailIndex peer(static_cast<uint32_t>((rail.at() + i) % peer_rails));
      if (peer != own) {
        paths.push_back({own, peer});
      }
    }
  }
  return paths;
}

std::vector<Path> distinct_paths(RailIndex rail,
                                 const std::vector<std::string>& own,
                                 const std::vector<std::string>& peer) {
  std::vector<Path> distinct;
  for (const Path& path : paths_from(rail, own.size(), peer.size())) {
    const bool known = std::ranges::any_of(distinct, [&](const Path& other) {
      return own[path.own.at()] == own[other.own.at()] &&
             peer[path.peer.at()] == peer[other.peer.at()];
    });
    if (!known) {
      distinct.push_back(path);
    }
  }
  return distinct;
}

uint32_t Epochs::begin() {
  last_ += 2;
  return last_;
}

void Epochs::saw(uint32_t epoch) {
  if (epoch > last_) {
    last_ = epoch - (epoch - last_) % 2;
  }
}

void Epochs::adopt(uint32_t epoch) {
  saw(epoch);
  current_ = epoch;
}

}  // namespace ho::tcp
