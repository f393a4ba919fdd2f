// JSON from files that may hold anything: nothing here throws because of the text, and the error of
// every access names what it expected.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace paro::checkpoint {

using Json = nlohmann::json;

[[nodiscard]] ho::Status malformed(const std::string& what);
// A text out of a file as a message may have it: in quotes, not too long, nothing a terminal
// follows.
[[nodiscard]] std::string escaped(std::string_view text);
// An error names the byte at which the text stops being JSON.
[[nodiscard]] ho::Result<Json> parse_json(std::string_view text);
[[nodiscard]] bool is_utf8(const std::string& text);
// As short as can be; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string to_string(const Json& json);
[[nodiscard]] std::string to_readable_text(const Json& json);

// The member of an object, of the type in the function's name; `where` is what the object is.
[[nodiscard]] ho::Result<const Json*> member(const Json& object,
                                             const char* name,
                                             const std::string& where);
[[nodiscard]] ho::Result<uint64_t> count_at(const Json& object,
                                            const char* name,
                                            const std::string& where);
[[nodiscard]] ho::Result<double> number_at(const Json& object,
                                           const char* name,
                                           const std::string& where);
[[nodiscard]] ho::Result<std::string> text_at(const Json& object,
                                              const char* name,
                                              const std::string& where);
[[nodiscard]] ho::Result<const Json*> array_at(const Json& object,
                                               const char* name,
                                               const std::string& where);
// An array of whole numbers that are not negative.
[[nodiscard]] ho::Result<std::vector<uint64_t>> counts_at(const Json& object,
                                                          const char* name,
                                                          const std::string& where);

}  // namespace paro::checkpoint
