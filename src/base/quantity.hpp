// Numbers and quantities as people write and read them: "64K", "80Gbit", "300ms"; and lists. Pure.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ho {

// All of the text is one whole number that fits the type, without a plus sign or blanks; or
// nothing.
template <std::integral Number>
[[nodiscard]] std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

// What stands before the mark, which goes too; all of the text where it has none.
[[nodiscard]] std::string_view take_until(std::string_view& text, char mark);

// "0-3,7", of ascending numbers.
[[nodiscard]] std::string ranges_text(std::span<const uint32_t> numbers,
                                      std::string_view separator = ",");

// "64", "8K", "4m", "1G", "2T": whole bytes, with powers of 1024 as in nccl-tests; or nothing.
[[nodiscard]] std::optional<uint64_t> parse_bytes(std::string_view text);

// Each of these is told what the text stands for ("--memory", "memory in cluster.json") and begins
// its error with that. No quantity is negative; zero is permitted but where a function says so.
//
// Bytes: a number with k, M, G, T, P (powers of 1000) or Ki .. Pi (of 1024), and B. Only 0 has no
// unit: "24" is more likely to be meant as gigabytes than as 24 bytes.
[[nodiscard]] Result<double> parse_size(std::string_view what, std::string_view text);
// Bytes per second: a number with one of these and bit or B, with or without /s. Not zero.
[[nodiscard]] Result<double> parse_rate(std::string_view what, std::string_view text);
// Whole Mbit/s up to `most`: such a rate, or a number alone; "none" and 0 are no limit, 0.
[[nodiscard]] Result<uint64_t> parse_rate_limit(std::string_view what,
                                                std::string_view text,
                                                uint64_t most_mbit);
// Seconds: a number with us, ms, s, min or h; 0 also without.
[[nodiscard]] Result<double> parse_time(std::string_view what, std::string_view text);
// "7e9", "7B", "350M", "12k": of parameters. Not zero.
[[nodiscard]] Result<double> parse_count(std::string_view what, std::string_view text);
// "0.31"
[[nodiscard]] Result<double> parse_number(std::string_view what, std::string_view text);
// As it, from 0 to `most`.
[[nodiscard]] Result<double> parse_number_up_to(std::string_view what,
                                                std::string_view text,
                                                double most);
// A whole number from `least` on.
[[nodiscard]] Result<uint32_t> parse_whole(std::string_view what,
                                           std::string_view text,
                                           uint32_t least);
[[nodiscard]] Result<uint32_t> parse_whole_up_to(std::string_view what,
                                                 std::string_view text,
                                                 uint32_t least,
                                                 uint32_t most);

// To three digits.
[[nodiscard]] std::string bytes_text(double bytes);      // "63.4 GB"
[[nodiscard]] std::string count_text(double count);      // "7 billion"
[[nodiscard]] std::string seconds_text(double seconds);  // "1.24 s", "12.1 ms"
// "8 B", "96 KiB", "1.5 MiB", "1234567 B": always exact, in the unit that has it in few digits.
[[nodiscard]] std::string exact_bytes_text(uint64_t bytes);
// "1 rail", "2 rails"
[[nodiscard]] std::string counted(uint64_t count, std::string_view what);

}  // namespace ho
