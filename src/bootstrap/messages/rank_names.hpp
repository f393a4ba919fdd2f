// How messages name ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ho {

// "rank 5", "ranks 1, 2, 5", "ranks 0-6, 9"; at most `most` runs, then "and N more".
[[nodiscard]] std::string rank_list(std::span<const uint32_t> ascending, size_t most = 16);
// "rank 5"; with a name of its own that.
[[nodiscard]] std::string rank_name(uint32_t rank, std::string_view called);
// "rank 5 (node1, pid 123)"; with a name of its own "rail member 2 (node1, pid 123)".
[[nodiscard]] std::string rank_at_host(uint32_t rank,
                                       std::string_view host,
                                       uint32_t pid,
                                       std::string_view called = {});

}  // namespace ho
