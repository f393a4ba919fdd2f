// A scan of tags: text is skipped, quotes respected. It accepts more than XML does; hwloc judges
// the rest. But hwloc 2.9 expects that objects with CPUs have all four of their sets and crashes
// if one is missing, so this is checked here.
#include "topo/xml_shape.hpp"

#include <algorithm>
#include <vector>

namespace ho {
namespace {

constexpr size_t kMaxDepth = 256;

struct OpenElement {
  std::string_view name;
  size_t line = 0;
};

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    for (;;) {
      const size_t start = text_.find('<', at_);
      if (start == std::string_view::npos) {
        break;
      }
      move_to(start);
      if (auto fault = one_tag()) {
        return fault;
      }
    }
    if (!open_.empty()) {
      return "ends inside <" + std::string(open_.back().name) + "> of line " +
             std::to_string(open_.back().line) + ": the file is cut off";
    }
    return saw_root_ ? std::nullopt : std::optional<std::string>("has no <topology> element");
  }

 private:
  void move_to(size_t position) {
    line_ += static_cast<size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                            text_.begin() + static_cast<std::ptrdiff_t>(position),
                                            '\n'));
    at_ = position;
  }

  [[nodiscard]] std::string here() const { return "line " + std::to_string(line_) + ": "; }

  std::optional<std::string> one_tag() {
    if (text_.substr(at_, 4) == "<!--") {
      return skip_past("-->", "a comment");
    }
    if (text_.substr(at_, 2) == "<?" || text_.substr(at_, 2) == "<!") {
      return skip_past(">", "a declaration");
    }
    const size_t end = tag_end();
    if (end == std::string_view::npos) {
      return here() + "a tag is cut off";
    }
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    auto fault = inside.starts_with('/') ? close(inside.substr(1)) : open(inside);
    move_to(end + 1);
    return fault;
  }

  std::optional<std::string> skip_past(std::string_view mark, const char* what) {
    const size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) {
      return here() + what + " is cut off";
    }
    move_to(end + mark.size());
    return std::nullopt;
  }

  // The '>' of the tag at at_; one inside quotes does not count.
  [[nodiscard]] size_t tag_end() const {
    char quote = '\0';
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != '\0') {
        quote = c == quote ? '\0' : quote;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '>') {
        return i;
      }
    }
    return std::string_view::npos;
  }

  // The value of an attribute, or nothing.
  static std::optional<std::string_view> attribute(std::string_view inside, std::string_view name) {
    const std::string mark = " " + std::string(name) + "=\"";
    const size_t start = inside.find(mark);
    if (start == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view rest = inside.substr(start + mark.size());
    return rest.substr(0, rest.find('"'));
  }

  // "0x000000ff", "0x3,0xffffffff"
  static bool is_set(std::string_view value) {
    return value.starts_with("0x") &&
           value.find_first_not_of("0123456789abcdefABCDEFx,.") == std::string_view::npos;
  }

  [[nodiscard]] std::optional<std::string> object_fault(std::string_view inside) const {
    const std::string_view type = attribute(inside, "type").value_or("");
    if (type == "Bridge" || type == "PCIDev" || type == "OSDev" || type == "Misc") {
      return std::nullopt;  // devices have no sets
    }
    for (const char* set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
      if (!is_set(attribute(inside, set).value_or(""))) {
        return here() + "the object of type '" + std::string(type.substr(0, 40)) +
               "' has no valid " + set;
      }
    }
    for (const char* set : {"allowed_cpuset", "allowed_nodeset"}) {
      if (!is_set(attribute(inside, set).value_or("0x1"))) {
        return here() + set + " is not valid";
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::string> version_fault(std::string_view inside) const {
    const std::string_view version = attribute(inside, "version").value_or("");
    if (version.starts_with("2.")) {
      return std::nullopt;
    }
    const std::string how = version.starts_with("3.")
                                ? "; of hwloc 3, `lstopo --of xml --export-xml-flags V2 FILE` does"
                                : "";
    return here() +
           "<topology> is not of version 2, which `lstopo --of xml FILE` of hwloc 2 writes" + how;
  }

  std::optional<std::string> open(std::string_view inside) {
    const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n/"));
    if (name.empty()) {
      return here() + "a tag without a name";
    }
    if (open_.empty() && (name != "topology" || saw_root_)) {
      return here() + "<" + std::string(name.substr(0, 40)) +
             "> stands where the one <topology> element should";
    }
    saw_root_ = true;
    if (name == "topology" || name == "object") {
      if (auto fault = name == "object" ? object_fault(inside) : version_fault(inside)) {
        return fault;
      }
    }
    if (inside.ends_with('/')) {
      return std::nullopt;
    }
    if (open_.size() >= kMaxDepth) {
      return here() + "elements are nested more than " + std::to_string(kMaxDepth) + " deep";
    }
    open_.push_back({name, line_});
    return std::nullopt;
  }

  std::optional<std::string> close(std::string_view inside) {
    const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n"));
    if (open_.empty()) {
      return here() + "</" + std::string(name.substr(0, 40)) + "> closes nothing";
    }
    if (open_.back().name != name) {
      return here() + "</" + std::string(name.substr(0, 40)) + "> closes <" +
             std::string(open_.back().name.substr(0, 40)) + "> of line " +
             std::to_string(open_.back().line);
    }
    open_.pop_back();
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
  bool saw_root_ = false;
  std::vector<OpenElement> open_;
};

}  // namespace

std::optional<std::string> xml_fault(std::string_view text) {
  if (text.empty()) {
    return "is empty";
  }
  if (text.find('\0') != std::string_view::npos) {
    return "has a zero byte in it: not XML";
  }
  return Scan(text).run();
}

}  // namespace ho
