#include "comm/split_choice.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/bytes.hpp"
#include "base/hash.hpp"

namespace ho {
namespace {

Result<ColorKey> parse_color_key(std::span<const std::byte> blob) {
  ByteReader reader(blob);
  ColorKey parsed;
  parsed.color = static_cast<int32_t>(reader.number<uint32_t>());
  parsed.key = static_cast<int32_t>(reader.number<uint32_t>());
  parsed.id = reader.number<uint16_t>();
  reader.finish();
  if (!reader.ok()) {
    return Status(StatusCode::kProtocol, "split: a color and key that " + reader.fault());
  }
  return parsed;
}

}  // namespace

std::vector<std::byte> encode(const ColorKey& value) {
  ByteWriter writer;
  writer.number(static_cast<uint32_t>(value.color), 4);
  writer.number(static_cast<uint32_t>(value.key), 4);
  writer.number(value.id, 2);
  return writer.take();
}

Result<SplitChoice> choose_split(std::string_view what,
                                 std::span<const std::vector<std::byte>> blobs,
                                 int32_t color,
                                 GlobalRank self) {
  std::vector<std::pair<int32_t, uint32_t>> chosen;
  std::set<int32_t> colors;
  uint16_t first_id = 0;
  for (uint32_t r = 0; r < blobs.size(); ++r) {
    HORING_ASSIGN(const ColorKey peer, parse_color_key(blobs[r]));
    first_id = std::max(first_id, peer.id);
    colors.insert(peer.color);
    if (peer.color == color) {
      chosen.emplace_back(peer.key, r);
    }
  }
  if (first_id + colors.size() - 1 > UINT16_MAX) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: {} colors need more communicators than the {} that are left",
                              what,
                              colors.size(),
                              UINT16_MAX - first_id + 1));
  }
  const auto position = std::distance(colors.begin(), colors.find(color));
  SplitChoice choice;
  choice.id = static_cast<uint16_t>(first_id + position);
  choice.last_id = static_cast<uint16_t>(first_id + colors.size() - 1);
  std::ranges::sort(chosen);
  for (const auto& [member_key, rank] : chosen) {
    if (GlobalRank(rank) == self) {
      choice.self = GlobalRank(choice.members.size());
    }
    choice.members.push_back(GlobalRank(rank));
  }
  return choice;
}

uint64_t communicator_id_of_split(uint64_t parent, uint32_t split, int32_t color) {
  return Hash(parent).add(split).add(static_cast<uint32_t>(color)).value();
}

}  // namespace ho
