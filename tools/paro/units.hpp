// Quantities as people write them in arguments and cluster files: "64GiB", "80Gbit", "300ms". Pure.
//
// Each function is told what the text stands for ("--memory", "memory in cluster.json") and begins
// its error with that. No quantity is negative; zero is permitted but where a function says so.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace paro::tool {

// Bytes: a number with k, M, G, T, P (powers of 1000) or Ki .. Pi (of 1024), and B. Only 0 has no
// unit: "24" is more likely to be meant as gigabytes than as 24 bytes.
[[nodiscard]] ho::Result<double> parse_size(std::string_view what, std::string_view text);
// Bytes per second: a number with one of these and bit or B, with or without /s. Not zero.
[[nodiscard]] ho::Result<double> parse_rate(std::string_view what, std::string_view text);
// Seconds: a number with us, ms, s, min or h; 0 also without.
[[nodiscard]] ho::Result<double> parse_time(std::string_view what, std::string_view text);
// "7e9", "7B", "350M", "12k": of parameters. Not zero.
[[nodiscard]] ho::Result<double> parse_count(std::string_view what, std::string_view text);
// "0.31"
[[nodiscard]] ho::Result<double> parse_number(std::string_view what, std::string_view text);
// As it, from 0 to `most`.
[[nodiscard]] ho::Result<double> parse_number_up_to(std::string_view what,
                                                    std::string_view text,
                                                    double most);
// A whole number from `least` on.
[[nodiscard]] ho::Result<uint32_t> parse_whole(std::string_view what,
                                               std::string_view text,
                                               uint32_t least);

}  // namespace paro::tool
