// Headers of safetensors files: what is written is read, and nothing else is.
#include "checkpoint/safetensors.hpp"

#include "catch.hpp"
#include "has.hpp"

using namespace paro::checkpoint;

namespace {

TensorHeader two_tensors() {
  TensorHeader header;
  append(header, "weight", ho::DType::kBfloat16, {3, 5});
  append(header, "scalar", ho::DType::kFloat32, {});
  append(header, "none", ho::DType::kInt8, {0, 7});
  header.metadata = {{"step", "12"}, {"quotes", "\"\\\n"}};
  return header;
}

ho::Result<TensorHeader> parsed(const std::string& bytes, uint64_t data_bytes) {
  const auto length = json_bytes(bytes, bytes.size() + data_bytes);
  REQUIRE(length.ok());
  return parse_header(std::string_view(bytes).substr(kLengthBytes, *length), data_bytes);
}

std::string refusal(const std::string& json, uint64_t data_bytes) {
  const auto header = parse_header(json, data_bytes);
  REQUIRE(!header.ok());
  CHECK(header.status().code() == ho::StatusCode::kProtocol);
  return header.status().message();
}

std::string entry(const std::string& name, const std::string& indices, const std::string& shape) {
  return "\"" + name + R"(": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" +
         indices + "}";
}

}  // namespace

TEST_CASE("a header is read as it was written") {
  const std::string bytes = to_bytes(two_tensors());
  CHECK(bytes.size() % 8 == 0);
  const auto header = parsed(bytes, 34);
  INFO(header.status().message());
  REQUIRE(header.ok());
  REQUIRE(header->tensors.size() == 3);
  CHECK(header->tensors[0].name == "weight");
  CHECK(header->tensors[0].dtype == ho::DType::kBfloat16);
  CHECK(header->tensors[0].shape == std::vector<uint64_t>{3, 5});
  CHECK(header->tensors[1].begin == 30);
  CHECK(header->tensors[1].end == 34);
  CHECK(header->tensors[2].size_bytes() == 0);
  CHECK(header->metadata.at("quotes") == "\"\\\n");
}

TEST_CASE("the header's length is checked before it is believed") {
  using namespace std::string_literals;
  CHECK(has(json_bytes("short", 5).status().message(), "truncated"));
  CHECK(has(json_bytes("\x00\xff\xff\xff\xff\xff\xff\xff"s, 100).status().message(), "at most"));
  CHECK(has(json_bytes("\x10\0\0\0\0\0\0\0"s, 23).status().message(), "truncated"));
  CHECK(*json_bytes("\x10\0\0\0\0\0\0\0"s, 24) == 16);
}

TEST_CASE("headers that cannot be are refused, with the tensor's name") {
  CHECK(has(refusal("", 0), "JSON"));
  CHECK(has(refusal("{\"a\": ", 0), "byte 7"));
  CHECK(has(refusal("[]", 0), "no object"));
  CHECK(has(refusal("{\"a\": 3}", 0), "\"a\""));
  CHECK(has(refusal("{\"__metadata__\": {\"a\": 1}}", 0), "no text"));
  CHECK(has(refusal("{" + entry("a", "[0, 8]", "[2]") + "}", 7), "truncated"));
  CHECK(has(refusal("{" + entry("a", "[8, 0]", "[2]") + "}", 8), "place"));
  CHECK(has(refusal("{" + entry("a", "[0, 8]", "[3]") + "}", 8), "shape of 12"));
  CHECK(has(refusal("{" + entry("a", "[0, 8]", "[-2]") + "}", 8), "whole numbers"));
  CHECK(has(refusal("{" + entry("a", "[0, 8]", "[4294967296, 4294967296]") + "}", 8),
            "too many bytes"));
  CHECK(has(refusal("{" + entry("a", "[0, 8]", "[2]") + "}", 12), "of which tensors have 8"));
  CHECK(has(
      refusal("{" + entry("a", "[0, 8]", "[2]") + "," + entry("b", "[12, 16]", "[1]") + "}", 16),
      "\"b\" begins at byte 12"));
  CHECK(
      has(refusal("{" + entry("a", "[0, 8]", "[2]") + "," + entry("b", "[4, 12]", "[2]") + "}", 12),
          "\"b\" begins at byte 4"));
  CHECK(has(refusal(R"({"a": {"dtype": "F33", "shape": [], "data_offsets": [0, 0]}})", 0), "F33"));
  CHECK(has(refusal("{\"\\u001b[2J\": 3}", 0), "\"?[2J\""));
}
