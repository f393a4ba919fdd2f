#include "cli/plan/window_request.hpp"

#include <algorithm>
#include <utility>

#include "base/quantity.hpp"
#include "core/tuner/tuning_file.hpp"

namespace ho {
namespace {

using plugin::rail::Segment;
using plugin::rail::Window;
using plugin::rail::WindowKind;

constexpr uint64_t kElementBytes = 4;
constexpr uint64_t kPieceUnitBytes = 8;
constexpr uint32_t kMaxMembers = 256;

Result<WindowKind> kind_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return WindowKind::kAllReduce;
    case Collective::kAllGather:
      return WindowKind::kAllGather;
    case Collective::kReduceScatter:
      return WindowKind::kReduceScatter;
    default:
      break;
  }
  return invalid("--plugin-window --collective " + std::string(to_string(collective)) +
                 ": NCCL's CollNet has none; use all_gather, reduce_scatter or all_reduce");
}

Result<uint64_t> window_bytes(const WindowOptions& options) {
  const auto bytes = parse_bytes(options.bytes);
  if (!bytes || *bytes == 0 || *bytes % kElementBytes != 0) {
    return invalid("--bytes '" + options.bytes + "': use a multiple of " +
                   std::to_string(kElementBytes) + " (a float32) above 0, as in 4096 or 128K");
  }
  return *bytes;
}

Result<Window> window_of(const WindowOptions& options, WindowKind kind, uint64_t bytes) {
  if (kind == WindowKind::kAllReduce) {
    if (options.owner) {
      return invalid("--owner is for all_gather and reduce_scatter: an all_reduce has no owners");
    }
    return Window::all_reduce(options.members, bytes / kElementBytes, kElementBytes);
  }
  Window window;
  window.kind = kind;
  window.members = options.members;
  window.byte_count = bytes;
  window.element_bytes = kElementBytes;
  if (options.owner) {
    if (*options.owner >= options.members) {
      return invalid("--owner " + std::to_string(*options.owner) + ": use 0 to " +
                     std::to_string(options.members - 1) + " with --members " +
                     std::to_string(options.members));
    }
    // As if the member's block were the window.
    if (bytes > UINT64_MAX / options.members) {
      return invalid("--bytes " + options.bytes + " from each of " +
                     std::to_string(options.members) + " members are too many");
    }
    window.block_bytes = bytes;
    window.offset = bytes * *options.owner;
    return window;
  }
  if (bytes % (options.members * kElementBytes) != 0) {
    return invalid("--bytes " + options.bytes + ": the window holds a block of each of " +
                   std::to_string(options.members) + " members; use a multiple of " +
                   std::to_string(options.members * kElementBytes) +
                   ", or --owner for a window in one member's block");
  }
  window.block_bytes = bytes / options.members;
  return window;
}

// The longest block gets exactly so many pieces; shorter ones may have fewer.
Result<uint64_t> wanted_piece_bytes(const Window& window, uint32_t pieces) {
  uint64_t longest = 0;
  for (uint32_t owner = 0; owner < window.members; ++owner) {
    longest = std::max(longest, window.segment(owner).byte_count);
  }
  const uint64_t exact = pieces == 0 ? 0 : longest / pieces + (longest % pieces == 0 ? 0 : 1);
  const uint64_t rounded = (exact + kPieceUnitBytes - 1) / kPieceUnitBytes * kPieceUnitBytes;
  if (pieces == 0 || plugin::rail::piece_count(window, longest, rounded) != pieces) {
    return invalid("--pieces " + std::to_string(pieces) + ": a block of " +
                   std::to_string(longest) +
                   " bytes cannot be cut into so many equal pieces of a "
                   "multiple of " +
                   std::to_string(kPieceUnitBytes) + " bytes, but for the last");
  }
  return rounded;
}

}  // namespace

void declare_window(CLI::App& app, WindowOptions& options) {
  CLI::Option* const window =
      app.add_flag("--plugin-window",
                   options.plugin_window,
                   "a window of a rail under NCCL (CollNet), as the plugin moves it, of float32");
  for (const char* const other : {"--algorithm", "--groups", "--rings", "--rails", "--root"}) {
    window->excludes(app.get_option(other));
  }
  app.add_option("--members", options.members, "members of the rail, one per node")
      ->check(CLI::Range(1U, kMaxMembers))
      ->capture_default_str()
      ->needs(window);
  app.add_option("--bytes", options.bytes, "bytes of the window: 4096, 128K, 1M")
      ->capture_default_str()
      ->needs(window);
  app.add_option("--pieces",
                 options.pieces,
                 "pieces of the longest block (default: by its size, as the plugin cuts it)")
      ->needs(window);
  app.add_option("--owner",
                 options.owner,
                 "all_gather, reduce_scatter: the window lies in this member's block, as NCCL "
                 "cuts them (default: a block of each member lies in it)")
      ->needs(window);
}

Result<WindowRequest> window_request(const WindowOptions& options, Collective collective) {
  HORING_ASSIGN(const WindowKind kind, kind_of(collective));
  HORING_ASSIGN(const uint64_t bytes, window_bytes(options));
  WindowRequest request;
  HORING_ASSIGN(request.window, window_of(options, kind, bytes));
  if (options.pieces) {
    HORING_ASSIGN(request.wanted_piece_bytes, wanted_piece_bytes(request.window, *options.pieces));
  }
  return request;
}

std::string to_string(const WindowRequest& request) {
  const Window& window = request.window;
  std::string text = "window of a rail under NCCL: " + std::to_string(window.byte_count) +
                     " bytes, " + std::to_string(window.members) + " members\n";
  bool equal = true;
  uint64_t length = 0;
  uint32_t block = 0;
  for (uint32_t owner = 0; owner < window.members; ++owner) {
    const Segment segment = window.segment(owner);
    if (segment.byte_count == 0) {
      continue;
    }
    const uint64_t piece =
        plugin::rail::piece_bytes_of(window, segment.byte_count, request.wanted_piece_bytes);
    const uint64_t pieces =
        plugin::rail::piece_count(window, segment.byte_count, request.wanted_piece_bytes);
    text += "  block " + std::to_string(block) +
            (window.exchanges() ? ", sent by each of the two members to the other"
                                : ", of member " + std::to_string(owner)) +
            ": bytes " + std::to_string(segment.offset) + " to " +
            std::to_string(segment.offset + segment.byte_count - 1) + ", in " +
            (pieces == 1 ? "1 piece\n"
                         : std::to_string(pieces) + " pieces of " + std::to_string(piece) + "\n");
    equal = equal && (block == 0 || segment.byte_count == length) &&
            (pieces == 1 || segment.byte_count % piece == 0);
    length = segment.byte_count;
    ++block;
    if (window.exchanges()) {
      break;
    }
  }
  return text + (equal ? ""
                       : "  fractions below count all blocks, and the pieces of a block, as "
                         "equal\n");
}

}  // namespace ho
