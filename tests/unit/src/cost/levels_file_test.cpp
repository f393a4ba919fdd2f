// A cluster of levels as a file: what is read, what is refused and how, and that it comes back.
#include "cost/text/levels_file.hpp"

#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "cost/networks.hpp"
#include "cost/text/json_object.hpp"
#include "has.hpp"

namespace ho::cost {
namespace {

constexpr const char* kPods = R"({
  "levels": [
    {"name": "node", "size": 8, "rate": "450GB", "network": "nvlink", "latency": "2us"},
    {"name": "pod", "size": 16, "rate": "400Gbit", "nics": 8, "start": "9us",
     "share_of_units": [[16, 1], [64, 0.5]]},
    {"name": "site", "size": 4, "rate": "400Gbit", "nics": 128, "oversubscription": 7}],
  "memory": "80GB"})";

TEST_CASE("a file that is deep or long is refused, however deep") {
  for (const size_t depth : {size_t{33}, size_t{1000}, kMaxJsonBytes / 3}) {
    const std::string list = std::string(depth, '[') + std::string(depth, ']');
    for (const std::string& text :
         {R"({"levels": )" + list + "}", R"({"levels": [{"size": )" + list + "}]}"}) {
      CHECK(has(parse_levels(text, "c.json").status().message(),
                "c.json: lists or objects in one another more than 32 deep"));
    }
  }
  const std::string spaces(kMaxJsonBytes, ' ');
  CHECK(has(parse_levels("{" + spaces + "}", "c.json").status().message(), "takes at most 262144"));
}

TEST_CASE("a file of levels is read, and networks fill in what it leaves out") {
  const auto file = parse_levels(kPods, "c.json");
  INFO(file.status().message());
  REQUIRE(file.ok());
  CHECK(file->memory_bytes == 80e9);
  REQUIRE(file->levels.size() == 3);
  const Level& node = file->levels[0];
  CHECK(node.name == "node");
  CHECK(node.size == 8);
  CHECK(node.rate == 450e9);
  CHECK(node.latency_s == 2e-6);  // beside the network's name
  CHECK(node.start_s == find_network("nvlink")->start_s);
  CHECK(node.share_of_bytes.points().size() == 2);
  CHECK(file->levels[1].nics == 8);
  CHECK(file->levels[1].start_s == 9e-6);
  CHECK(file->levels[1].share_of_units.at(64) == 0.5);
  CHECK(file->levels[2].oversubscription == 7);
  CHECK(rank_count(file->levels) == 512);
}

TEST_CASE("a level is a network's as long as nothing of it is given, and comes back as that") {
  const auto network_with = [](const std::string& more) {
    const auto file = parse_levels(
        R"({"levels": [{"size": 8, "rate": "450GB", "network": "nvlink")" + more + "}]}", "c.json");
    INFO(file.status().message());
    REQUIRE(file.ok());
    const auto back = parse_levels(levels_text(*file), "again");
    REQUIRE(back.ok());
    CHECK(back->levels[0].network == file->levels[0].network);
    CHECK(back->levels[0].latency_s == file->levels[0].latency_s);
    return file->levels[0].network;
  };
  CHECK(network_with("") == "nvlink");
  CHECK(network_with(R"(, "name": "node", "nics": 2, "oversubscription": 2)") == "nvlink");
  CHECK(network_with(R"(, "latency": "3.4us")").empty());  // measured, and found to be as much
  CHECK(network_with(R"(, "start": "9us")").empty());
  CHECK(network_with(R"(, "share_of_bytes": [[4096, 0.5]])").empty());
  CHECK(network_with(R"(, "share_of_units": [[16, 1], [64, 0.5]])").empty());
}

TEST_CASE("each field that decisions go by is in the texts that are compared") {
  const Cluster usual = parse_levels(kPods, "c.json")->levels;
  const auto compared_text = [](const Cluster& levels) {
    std::string text;
    for (const ComparedField& field : compared_fields(levels)) {
      text += field.name + "=" + field.value + "\n";
      CHECK(field.value.size() <= kMaxComparedBytes);
    }
    return text;
  };
  CHECK(
      compared_text(usual).starts_with("sizes=8, 16, 4\nrates=450GB, 50GB, 50GB\nnics=1, 8, 128\n"
                                       "latencies=2us, 0us, 0us\nstarts=8.4us, 9us, 0us\n"
                                       "oversubscriptions=1, 1, 7\n"));
  const auto differs = [&](auto change) {
    Cluster levels = usual;
    change(levels[1]);
    return compared_text(levels) != compared_text(usual);
  };
  CHECK(differs([](Level& level) { level.size = 15; }));
  CHECK(differs([](Level& level) { level.rate *= 1 + 1e-15; }));
  CHECK(differs([](Level& level) { level.nics = 1.0 / 3; }));
  CHECK(differs([](Level& level) { level.latency_s = 1e-20; }));
  CHECK(differs([](Level& level) { level.start_s += 1e-15; }));
  CHECK(differs([](Level& level) { level.oversubscription = 1.5; }));
  CHECK(differs([](Level& level) { level.share_of_bytes = LinearTable({{1, 0.5}}); }));
  CHECK(differs([](Level& level) { level.share_of_units = LinearTable(); }));
  CHECK_FALSE(differs([](Level& level) { level.name = "rack"; }));
}

TEST_CASE("levels are written as they are read") {
  LevelsFile file = *parse_levels(kPods, "c.json");
  file.levels[0].rate = 450e9 / 7;  // of no round figure
  file.levels[1].latency_s = 1e-5 / 3;
  file.slowdown = 0.3;
  const auto back = parse_levels(levels_text(file), "again");
  INFO(levels_text(file) << back.status().message());
  REQUIRE(back.ok());
  CHECK(back->memory_bytes == file.memory_bytes);
  CHECK(back->slowdown == file.slowdown);
  REQUIRE(back->levels.size() == file.levels.size());
  for (size_t at = 0; at < file.levels.size(); ++at) {
    const Level& a = file.levels[at];
    const Level& b = back->levels[at];
    CHECK(a.name == b.name);
    CHECK(a.size == b.size);
    CHECK(a.rate == b.rate);
    CHECK(a.nics == b.nics);
    CHECK(a.oversubscription == b.oversubscription);
    CHECK(a.latency_s == b.latency_s);
    CHECK(a.start_s == b.start_s);
    CHECK(a.share_of_bytes.at(5000) == b.share_of_bytes.at(5000));
    CHECK(a.share_of_units.at(40) == b.share_of_units.at(40));
  }
  CHECK(levels_text(*back) == levels_text(file));
}

TEST_CASE("files of levels that cannot be are told with file, level, field and value") {
  const auto one = [](const std::string& fields) {
    return R"({"levels": [{"name": "node", "size": 8, "rate": "1GB"}, {"name": "pod")" + fields +
           "}]}";
  };
  const std::vector<std::pair<std::string, const char*>> cases{
      {"{", "c.json: is not JSON at byte"},
      {"[]", "c.json: takes one JSON object with levels, memory"},
      {"{}", "c.json: \"levels\" null: takes one object or more in [..], the innermost first"},
      {R"({"slowdown": 2})", "c.json: \"slowdown\" 2: takes a number from 0 to 1"},
      {R"({"levels": []})", "c.json: \"levels\" []: takes one object or more"},
      {R"({"levels": [{"name": "", "size": 2}]})",
       "c.json: level 0: \"name\" \"\": takes a text that is not empty"},
      {R"({"levels": [8]})", "c.json: level 0 8: takes an object with name, size, rate"},
      {R"({"levels": [{"size": 2, "rate": "1GB"}], "nodes": 4})",
       "c.json: \"nodes\" is not known; takes levels, memory"},
      {R"({"levels": [{"size": 2, "rate": "1GB"}], "memory": 80})",
       "c.json: \"memory\" 80: takes a text with a unit"},
      {one(R"(, "rate": "1GB")"), "c.json: level 1 (\"pod\"): \"size\" is missing"},
      {one(R"(, "size": 2)"), "c.json: level 1 (\"pod\"): \"rate\" is missing"},
      {one(R"(, "size": 2, "rate": "0GB")"), "level 1 (\"pod\"): \"rate\" '0GB': takes a rate"},
      {one(R"(, "size": 2, "rate": 4)"), "level 1 (\"pod\"): \"rate\" 4: takes a text with a unit"},
      {one(R"(, "size": 0, "rate": "1GB")"), "level 1 (\"pod\"): \"size\" 0: takes a whole number"},
      {one(R"(, "size": 1000000000000000000, "rate": "1GB")"),
       "\"size\" 1000000000000000000: takes a whole number from 1 to 4294967295"},
      {one(R"(, "size": 2, "rate": "1GB", "nics": 1000000000)"),
       "c.json: level 1 (pod): nics 1000000000: takes a number from 1e-06 to 1000000"},
      {one(R"(, "size": 4000000000, "rate": "1GB")"),
       "c.json: level 1 (pod): size 4000000000: with the levels below more than 16777216 ranks"},
      {one(R"(, "size": 2, "rate": "1GB", "nics": 0)"), "\"nics\" 0: takes a number above 0"},
      {one(R"(, "size": 2, "rate": "1GB", "oversubscription": 0.5)"),
       "c.json: level 1 (pod): oversubscription 0.5: takes 1"},
      {one(R"(, "size": 2, "rate": "1GB", "latency": "2")"), "\"latency\" '2': takes"},
      {one(R"(, "size": 2, "rate": "1GB", "speed": 2)"),
       "\"speed\" is not known; takes name, size"},
      {one(R"(, "size": 2, "size": 4, "rate": "1GB")"), "c.json: \"size\" is given twice"},
      {one(R"(, "size": 2, "rate": "1GB", "share_of_bytes": [4])"),
       "\"share_of_bytes\" [..]: takes pairs of numbers"},
      {one(R"(, "size": 2, "rate": "1GB", "share_of_bytes": [[4, 2]])"),
       "c.json: level 1 (pod): share of the rate at bytes 4: 2: takes shares"},
      {one(R"(, "size": 2, "rate": "1GB", "network": "nvlnk")"),
       "level 1 (\"pod\"): \"network\" \"nvlnk\": is not known; near it: nvlink"},
      {one(R"(, "size": 2, "rate": "1GB", "network": "zz")"),
       "is not known; takes nvlink, pcie, infiniband, roce, efa, tcp"},
  };
  for (const auto& [text, message] : cases) {
    const auto refused = parse_levels(text, "c.json");
    INFO(text << ": " << refused.status().message());
    REQUIRE_FALSE(refused.ok());
    CHECK(has(refused.status(), message));
  }
  CHECK(has(read_levels_file("--cluster", "/no/such/file").status(),
            "--cluster /no/such/file: cannot be read ("));
}

}  // namespace
}  // namespace ho::cost
