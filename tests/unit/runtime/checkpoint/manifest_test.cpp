// Manifests: what is written is read, and what cannot be is refused.
#include "checkpoint/manifest.hpp"

#include "catch.hpp"
#include "checkpoint/json.hpp"
#include "has.hpp"

using namespace paro;
using namespace paro::checkpoint;

namespace {

Manifest small() {
  Manifest manifest;
  manifest.step = 120;
  manifest.called_steps = 122;
  manifest.optimizer_steps = 20;
  manifest.loss_scale = {1024, 7};
  manifest.strategy = "IIG";
  manifest.optimizer = "AdamW";
  manifest.states = {"master", "exp_avg", "exp_avg_sq"};
  manifest.frozen_dtype = ho::DType::kBfloat16;
  manifest.units = {{"embedding", 100, 0}, {"block", 50, 20}};
  manifest.tensors = {{"block.weight", 1, false, 10, {5, 8}}, {"block.mask", 1, true, 0, {20}}};
  manifest.job_state = "{\"epoch\": 3}";
  manifest.files = {{4096, {{1, 2}}}, {8192, {{0xffffffffffffffff, 3}}}};
  return manifest;
}

// As whoever changes it on purpose would write it; what is no JSON as it is.
std::string with_its_checksum(const std::string& text) {
  auto json = parse_json(text);
  if (!json.ok() || !json->is_object()) {
    return text;
  }
  json->erase("checksum");
  const std::string rest = to_string(*json);
  (*json)["checksum"] = to_string(checksum_of(rest.data(), rest.size()));
  return to_string(*json);
}

// Of the manifest's text with one part replaced.
std::string refusal(const std::string& from, const std::string& to) {
  std::string text = to_json(small());
  const size_t at_index = text.find(from);
  REQUIRE(at_index != std::string::npos);
  text.replace(at_index, from.size(), to);
  text = with_its_checksum(text);
  const auto manifest = parse_manifest(text);
  REQUIRE(!manifest.ok());
  return manifest.status().message();
}

}  // namespace

TEST_CASE("a manifest is read as it was written") {
  const Manifest wrote = small();
  const auto read = parse_manifest(to_json(wrote));
  INFO(read.status().message());
  REQUIRE(read.ok());
  CHECK(to_json(*read) == to_json(wrote));
  CHECK(read->files[1].header == wrote.files[1].header);
  CHECK(read->loss_scale == wrote.loss_scale);
  CHECK(read->tensors[0].shape == std::vector<uint64_t>{5, 8});
  CHECK(read->tensors[1].frozen);
  CHECK(read->frozen_dtype == ho::DType::kBfloat16);
}

TEST_CASE("manifests that cannot be are refused with what is wrong") {
  CHECK(has(refusal("paro checkpoint", "else"), "not a manifest"));
  CHECK(has(refusal("\"version\": 1", "\"version\": 2"), "version 2"));
  CHECK(has(refusal("\"step\": 120", "\"step\": -1"), "\"step\" is no whole number"));
  CHECK(has(refusal("\"called_steps\": 122", "\"called_steps\": 119"), "numbers of steps"));
  CHECK(has(refusal("\"called_steps\": 122", "\"called_steps\": 18446744073709551615"), "steps"));
  CHECK(has(refusal("\"optimizer_steps\": 20", "\"optimizer_steps\": 121"), "numbers of steps"));
  CHECK(has(refusal("1024.0", "-1.0"), "loss_scale"));
  CHECK(has(refusal("\"master\"", "\"mister\""), "must begin with"));
  CHECK(has(refusal("BF16", "F64"), "frozen_type"));
  CHECK(has(refusal("\"trained\": 50", "\"trained\": 49"), "ends beyond the 49"));
  CHECK(has(refusal("\"unit\": 1", "\"unit\": 2"), "no unit 2"));
  CHECK(has(refusal("\"trained\": 100", "\"trained\": 1000000000000000000"), "more elements"));
  CHECK(has(refusal("\"part\": \"frozen\"", "\"part\": \"f\""), "tensors[1]"));
  CHECK(has(refusal("00000000000000010000", "0000000000000001000x"), "hexadecimal"));
  CHECK(has(refusal("00000000000000010000", "0"), "not 32"));
  CHECK(has(refusal("\"files\"", "\"fils\""), "no \"files\""));
  CHECK(has(refusal("{", "["), "JSON"));
  CHECK(!parse_manifest("").ok());
  CHECK(!parse_manifest(std::string(100'000, '[')).ok());
}

TEST_CASE("a manifest that is not as it was written is refused") {
  const std::string text = to_json(small());
  REQUIRE(parse_manifest(text).ok());
  for (const auto& [from, to] :
       {std::pair<const char*, const char*>{"\"step\": 120", "\"step\": 121"},
        {"\"name\": \"block\"", "\"name\": \"black\""},
        {"epoch", "opoch"},
        {"\"step\": 120", "\"step\": 120, \"step\": 119"}}) {
    std::string damaged = text;
    damaged.replace(damaged.find(from), std::string(from).size(), to);
    CHECK(has(parse_manifest(damaged).status().message(), "checksum is wrong"));
  }
}

TEST_CASE("what JSON cannot hold is refused before it is written") {
  Manifest manifest = small();
  CHECK(check(manifest).ok());
  manifest.job_state = "\xff";
  CHECK(has(check(manifest).message(), "UTF-8"));
  manifest = small();
  manifest.units[0].name = "\xc3";
  CHECK(has(check(manifest).message(), "UTF-8"));
  manifest = small();
  manifest.tensors[0].shape = {uint64_t{1} << 40, uint64_t{1} << 40};
  CHECK(has(check(manifest).message(), "ends beyond"));
}

TEST_CASE("two tensors of one name are refused where they are given, and can be read") {
  Manifest manifest = small();
  CHECK(check_names(manifest).ok());
  manifest.tensors.push_back({"block.weight", 0, false, 3, {2}});
  CHECK(has(check_names(manifest).message(), "two tensors are called \"block.weight\""));
  CHECK(has(check_names(manifest).message(),
            "trained elements from 10 of unit 1 \"block\", and trained elements from 3 of unit 0 "
            "\"embedding\""));
  CHECK(parse_manifest(to_json(manifest)).ok());
}

TEST_CASE("checksums are written as text and read back") {
  const Checksum checksum = checksum_of("abc", 3);
  CHECK(to_string(checksum).size() == 32);
  CHECK(*checksum_from(to_string(checksum)) == checksum);
  CHECK(!(checksum == checksum_of("abd", 3)));
  // As the algorithm's own program prints it.
  CHECK(to_string(checksum) == "06b05ab6733a618578af5f94892f3950");
}
