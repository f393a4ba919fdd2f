// What `horing plan --plugin-window` takes: one window of a rail under NCCL.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "core/rail/window.hpp"
#include "plan/plan.hpp"

namespace ho {

struct WindowOptions {
  bool plugin_window = false;
  uint32_t members = 4;
  std::string bytes = "128K";
  std::optional<uint32_t> pieces;
  std::optional<uint32_t> owner;
};

// After the options of other plans, which these exclude.
void declare_window(CLI::App& app, WindowOptions& options);

struct WindowRequest {
  plugin::rail::Window window;
  uint64_t wanted_piece_bytes = 0;
};

[[nodiscard]] Result<WindowRequest> window_request(const WindowOptions& options,
                                                   Collective collective);

// What lies where in the window, a line per block, for people.
[[nodiscard]] std::string to_string(const WindowRequest& request);

}  // namespace ho
