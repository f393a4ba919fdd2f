// XML as a row of elements, for readers that must say where a file is damaged and of what kind it
// is. Text between tags is skipped, quotes are respected. It accepts more than XML does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ho {

struct XmlElement {
  std::string_view name;
  size_t line = 0;
  std::string_view inside;  // of its first tag: the name and what follows it

  // The value between double quotes, as it stands there, or nothing.
  [[nodiscard]] std::optional<std::string_view> attribute(std::string_view wanted) const;
};

// "system", or "" where the text has no element.
[[nodiscard]] std::string_view xml_root(std::string_view text);

// Calls `open` at the begin of each element and `close` at its end, in the file's order. `open`
// says what is wrong with an element, and the scan ends there. Nothing for text whose elements
// open and close as they should and whose one root has that name; else the first fault with its
// line: "line 12: </object> closes <info> of line 11".
[[nodiscard]] std::optional<std::string> scan_xml(
    std::string_view text,
    std::string_view root,
    const std::function<std::optional<std::string>(const XmlElement&)>& open,
    const std::function<void()>& close);

}  // namespace ho
