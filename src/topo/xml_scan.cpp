#include "topo/xml_scan.hpp"

#include <algorithm>
#include <vector>

#include "base/escaped.hpp"

namespace ho {
namespace {

constexpr size_t kMaxDepth = 256;
constexpr size_t kMaxText = 40;  // of a name, in messages

std::string_view name_in(std::string_view inside) {
  return inside.substr(0, inside.find_first_of(" \t\r\n/"));
}

class Scan {
 public:
  Scan(std::string_view text,
       std::string_view root,
       const std::function<std::optional<std::string>(const XmlElement&)>& opened,
       const std::function<void()>& closed)
      : text_(text), root_(root), opened_(opened), closed_(closed) {}

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
    return saw_root_ ? std::nullopt : std::optional("has no <" + std::string(root_) + "> element");
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

  std::optional<std::string> open(std::string_view inside) {
    const XmlElement element{name_in(inside), line_, inside};
    if (element.name.empty()) {
      return here() + "a tag without a name";
    }
    if (open_.empty() && (element.name != root_ || saw_root_)) {
      return here() + "<" + escaped(element.name, kMaxText) + "> stands where the one <" +
             std::string(root_) + "> element should";
    }
    saw_root_ = true;
    if (auto fault = opened_(element)) {
      return here() + *fault;
    }
    if (inside.ends_with('/')) {
      closed_();
      return std::nullopt;
    }
    if (open_.size() >= kMaxDepth) {
      return here() + "elements are nested more than " + std::to_string(kMaxDepth) + " deep";
    }
    open_.push_back(element);
    return std::nullopt;
  }

  std::optional<std::string> close(std::string_view inside) {
    const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n"));
    if (open_.empty()) {
      return here() + "</" + escaped(name, kMaxText) + "> closes nothing";
    }
    if (open_.back().name != name) {
      return here() + "</" + escaped(name, kMaxText) + "> closes <" +
             escaped(open_.back().name, kMaxText) + "> of line " +
             std::to_string(open_.back().line);
    }
    open_.pop_back();
    closed_();
    return std::nullopt;
  }

  std::string_view text_;
  std::string_view root_;
  const std::function<std::optional<std::string>(const XmlElement&)>& opened_;
  const std::function<void()>& closed_;
  size_t at_ = 0;
  size_t line_ = 1;
  bool saw_root_ = false;
  std::vector<XmlElement> open_;
};

}  // namespace

std::optional<std::string_view> XmlElement::attribute(std::string_view wanted) const {
  const std::string mark = std::string(wanted) + "=\"";
  size_t at = inside.find(mark);
  while (at != std::string_view::npos &&
         (at == 0 || std::string_view(" \t\r\n").find(inside[at - 1]) == std::string_view::npos)) {
    at = inside.find(mark, at + 1);
  }
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = inside.substr(at + mark.size());
  return rest.substr(0, rest.find('"'));
}

std::string_view xml_root(std::string_view text) {
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const bool comment = text.substr(at, 4) == "<!--";
    if (!comment && text.substr(at, 2) != "<?" && text.substr(at, 2) != "<!") {
      const std::string_view inside = text.substr(at + 1, text.find('>', at) - at - 1);
      return name_in(inside);
    }
    at = text.find(comment ? "-->" : ">", at);
  }
  return {};
}

std::optional<std::string> scan_xml(
    std::string_view text,
    std::string_view root,
    const std::function<std::optional<std::string>(const XmlElement&)>& open,
    const std::function<void()>& close) {
  if (text.empty()) {
    return "is empty";
  }
  if (!is_printable_text(text)) {
    return "has control characters in it: not XML";
  }
  return Scan(text, root, open, close).run();
}

}  // namespace ho
