#include "checkpoint/json.hpp"

namespace paro::checkpoint {

ho::Status malformed(const std::string& what) {
  return {ho::StatusCode::kProtocol, what};
}

std::string escaped(std::string_view text) {
  constexpr size_t kMaxBytes = 100;
  std::string quoted = "\"";
  for (const char byte : text.substr(0, kMaxBytes)) {
    const auto code = static_cast<unsigned char>(byte);
    quoted += code < 0x20 || code >= 0x7f ? '?' : byte;
  }
  return quoted + (text.size() > kMaxBytes ? "...\"" : "\"");
}

ho::Result<Json> parse_json(std::string_view text) {
  // The whole text was an error's only witness: where it is wrong is found by a reader of events.
  class Finder final : public nlohmann::json_sax<Json> {
   public:
    bool null() override { return true; }
    bool boolean(bool /*value*/) override { return true; }
    bool number_integer(number_integer_t /*value*/) override { return true; }
    bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
    bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
    bool string(string_t& /*value*/) override { return true; }
    bool binary(binary_t& /*value*/) override { return true; }
    bool start_object(size_t /*elements*/) override { return true; }
    bool key(string_t& /*value*/) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t /*elements*/) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t position,
                     const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
      at = position;
      return false;
    }
    size_t at = 0;
  };
  // Nothing of ours is nested as deep: what is takes no memory.
  constexpr int kDeepest = 16;
  const auto keeps = [](int depth, Json::parse_event_t /*event*/, const Json& /*value*/) {
    return depth <= kDeepest;
  };
  Json json = Json::parse(text, keeps, false);
  if (json.is_discarded()) {
    Finder finder;
    static_cast<void>(Json::sax_parse(text, &finder));
    return malformed("no JSON from byte " + std::to_string(finder.at) + " on");
  }
  return json;
}

bool is_utf8(const std::string& text) {
  // What is left out makes it shorter.
  const auto length = [&](Json::error_handler_t what) {
    return Json(text).dump(-1, ' ', false, what).size();
  };
  return length(Json::error_handler_t::ignore) == length(Json::error_handler_t::replace);
}

std::string to_string(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_readable_text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

ho::Result<const Json*> member(const Json& object, const char* name, const std::string& where) {
  if (!object.is_object()) {
    return malformed(where + " is no object");
  }
  const auto found = object.find(name);
  if (found == object.end()) {
    return malformed(where + " has no \"" + name + "\"");
  }
  return &*found;
}

ho::Result<uint64_t> count_at(const Json& object, const char* name, const std::string& where) {
  HORING_ASSIGN(const Json* const value, member(object, name, where));
  if (!value->is_number_unsigned()) {
    return malformed(where + ": \"" + name + "\" is no whole number from 0 up");
  }
  return value->get<uint64_t>();
}

ho::Result<double> number_at(const Json& object, const char* name, const std::string& where) {
  HORING_ASSIGN(const Json* const value, member(object, name, where));
  if (!value->is_number()) {
    return malformed(where + ": \"" + name + "\" is no number");
  }
  return value->get<double>();
}

ho::Result<std::string> text_at(const Json& object, const char* name, const std::string& where) {
  HORING_ASSIGN(const Json* const value, member(object, name, where));
  if (!value->is_string()) {
    return malformed(where + ": \"" + name + "\" is no text");
  }
  return value->get<std::string>();
}

ho::Result<const Json*> array_at(const Json& object, const char* name, const std::string& where) {
  HORING_ASSIGN(const Json* const value, member(object, name, where));
  if (!value->is_array()) {
    return malformed(where + ": \"" + name + "\" is no list");
  }
  return value;
}

ho::Result<std::vector<uint64_t>> counts_at(const Json& object,
                                            const char* name,
                                            const std::string& where) {
  HORING_ASSIGN(const Json* const values, array_at(object, name, where));
  std::vector<uint64_t> counts;
  for (const Json& value : *values) {
    if (!value.is_number_unsigned()) {
      return malformed(where + ": \"" + name + "\" is no list of whole numbers from 0 up");
    }
    counts.push_back(value.get<uint64_t>());
  }
  return counts;
}

}  // namespace paro::checkpoint
