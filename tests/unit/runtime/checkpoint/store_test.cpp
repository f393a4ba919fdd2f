// A folder of checkpoints: what counts as one, what replaces one, and what goes.
#include "checkpoint/store.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/text_file.hpp"
#include "catch.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/part_file.hpp"
#include "checkpoint/reader.hpp"
#include "checkpoint/safetensors.hpp"
#include "has.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using namespace paro::checkpoint;
using ho::test::TemporaryFolder;

namespace {

void publish(const Path& folder, uint64_t step, uint32_t keep, const std::string& text = "{}") {
  auto lock = StoreLock::take(folder, step);
  INFO(lock.status().message());
  REQUIRE(lock.ok());
  const Path manifest = saving_folder(folder, step) / kManifestName;
  std::ofstream(manifest) << text;
  // What is older is known by the file's time, which is coarser than this test is fast.
  static int published = 0;
  const auto when =
      std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++published);
  std::filesystem::last_write_time(manifest, when);
  const ho::Status status = lock->publish();
  INFO(status.message());
  REQUIRE(status.ok());
  lock->prune(keep);
}

// A checkpoint of two units, written by two ranks that cut the first after 6 of 10 elements.
class Written {
 public:
  // `more` is added to all values: another step's are of the same sizes.
  explicit Written(float more = 0) : more_(more) {
    manifest_.states = {"master", "exp_avg"};
    manifest_.units = {{"a", 10, 3}, {"b", 4, 0}};
    write(0, {0, 6}, {0, 4}, {0, 3});
    write(1, {6, 10}, {4, 4}, {3, 3});
    finish();
  }
  [[nodiscard]] const Path& path() const { return folder_.root(); }
  [[nodiscard]] Manifest& manifest() { return manifest_; }

  void write(uint32_t rank, Range first, Range second, Range frozen) {
    Snapshot snapshot;
    const auto values = [this](Range range, float from) {
      PartValues part;
      if (range.count() > 0) {
        part.ranges = {range};
      }
      for (uint64_t i = range.begin; i < range.end; ++i) {
        const float value = from + more_ + static_cast<float>(i);
        const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
        part.bytes.insert(part.bytes.end(), bytes, bytes + sizeof value);
      }
      return part;
    };
    snapshot.units = {{{values(first, 0), values(first, 100)}, values(frozen, 200)},
                      {{values(second, 300), values(second, 400)}, values({0, 0}, 0)}};
    const Path file = path() / part_file_name(rank);
    std::filesystem::remove(file);
    const auto written = write_part_file(file, parts_of(snapshot), manifest_.states, {});
    REQUIRE(written.ok());
    manifest_.files.resize(2);
    manifest_.files[rank] = *written;
  }
  void finish() { std::ofstream(path() / kManifestName) << to_json(manifest_); }

 private:
  float more_;
  TemporaryFolder folder_;
  Manifest manifest_;
};

std::vector<float> read(const Reader& reader, uint32_t unit, const char* state, Range range) {
  std::vector<float> values(range.count());
  const ho::Status status =
      reader.read(unit, state, range, std::as_writable_bytes(std::span(values)));
  INFO(status.message());
  REQUIRE(status.ok());
  return values;
}

}  // namespace

TEST_CASE("a checkpoint is there when it has its name") {
  const TemporaryFolder folder;
  const Path root = folder.root() / "new" / "one";
  CHECK(!find_checkpoint(root).ok());
  publish(root, 5, 2);
  publish(root, 20, 2);
  CHECK(*find_checkpoint(root) == root / "step-20");
  CHECK(*find_checkpoint(root / "step-5") == root / "step-5");
  publish(root, 100, 2);
  CHECK(*steps_in(root) == std::vector<uint64_t>{20, 100});
  publish(root, 7, 2);  // the job has gone back: that is the one to go on from
  CHECK(*steps_in(root) == std::vector<uint64_t>{7, 100});
  CHECK(*find_checkpoint(root) == root / "step-7");
  publish(root, 8, 2);
  CHECK(*steps_in(root) == std::vector<uint64_t>{7, 8});
  publish(root, 101, 0);
  CHECK(steps_in(root)->size() == 3);
  std::filesystem::remove(root / "latest");
  CHECK(*find_checkpoint(root) == root / "step-101");
  publish(root, 102, 1);
  CHECK(*steps_in(root) == std::vector<uint64_t>{102});
}

// A job went back to step 6, and step 10 is of what it left behind.
TEST_CASE("a damaged latest is refused with what is there and what to do") {
  const TemporaryFolder folder;
  const Path& root = folder.root();
  const Path latest = root / "latest";
  publish(root, 10, 0);
  publish(root, 6, 0);
  std::filesystem::create_directory(root / "step-8");
  const auto refusal = [&] {
    const auto found = find_checkpoint(root);
    CHECK_FALSE(found.ok());
    const std::string text = found.status().message();
    INFO(text);
    CHECK(text.find("There are step-6, step-10: load one of them by its folder") !=
          std::string::npos);
    CHECK(text.find("or remove " + latest.string()) != std::string::npos);
    return text.substr(0, text.find(": it has to name"));
  };
  struct Row {
    std::string holds;
    std::string said;
  };
  for (const Row& row :
       std::vector<Row>{{"", "is empty"},
                        {"\n", "holds '\\x0a'"},
                        {"garbage\x1b[2J", "holds 'garbage\\x1b[2J'"},
                        {"step-6\nstep-10\n", "holds 'step-6\\x0astep-10\\x0a'"},
                        {"step-06\n", "holds 'step-06\\x0a'"},
                        {"step-7\n", "names step-7, which is not there"},
                        {"step-8\n", "names step-8, which has no manifest.json"},
                        {std::string(2000, 's'), "cannot be read (is larger than 1 KiB)"}}) {
    std::ofstream(latest, std::ios::trunc) << row.holds;
    CHECK(refusal() == latest.string() + " " + row.said);
  }
  std::filesystem::remove(latest);
  std::filesystem::create_symlink("step-6", latest);
  CHECK(refusal() == latest.string() + " is no regular file");
  CHECK(*find_checkpoint(root / "step-6") == root / "step-6");
  std::filesystem::remove(latest);
  CHECK(*find_checkpoint(root) == root / "step-10");
}

TEST_CASE("other things in the folder are left alone and are no checkpoints") {
  const TemporaryFolder folder;
  for (const char* name : {"step-", "step-1x", "step-03", "other", "step--1", "step-9"}) {
    std::filesystem::create_directory(folder.root() / name);
  }
  std::ofstream(folder.root() / "step-03" / kManifestName) << "{}";
  std::ofstream(folder.path("step-4")) << "a file";
  publish(folder.root(), 3, 1);
  CHECK(*steps_in(folder.root()) == std::vector<uint64_t>{3});
  CHECK(std::filesystem::exists(folder.root() / "step-03" / kManifestName));
  CHECK(std::filesystem::exists(folder.path("step-9")));
}

TEST_CASE("a folder of torch.distributed.checkpoint is told from one without a checkpoint") {
  const TemporaryFolder folder;
  CHECK(has(find_checkpoint(folder.root()).status(), "has no checkpoint"));
  std::ofstream(folder.root() / ".metadata") << "pickled";
  CHECK(has(find_checkpoint(folder.root()).status(), "was saved by torch.distributed.checkpoint"));
}

TEST_CASE("where the one saved last has lost its manifest, no other stands in for it") {
  const TemporaryFolder folder;
  publish(folder.root(), 3, 0);
  publish(folder.root(), 4, 0);
  std::filesystem::remove(folder.path("step-4/manifest.json"));
  const auto found = find_checkpoint(folder.root());
  CHECK(has(found.status(), "latest names step-4, which has no manifest.json"));
  std::filesystem::remove_all(folder.path("step-4"));
  CHECK(has(find_checkpoint(folder.root()).status(), "names step-4, which is not there"));
}

TEST_CASE("an unfinished save goes with the next, or when it is given up") {
  const TemporaryFolder folder;
  publish(folder.root(), 1, 2);
  std::filesystem::create_directory(saving_folder(folder.root(), 2));
  std::ofstream(saving_folder(folder.root(), 2) / "rank-00000.safetensors") << "half";
  CHECK(*find_checkpoint(folder.root()) == folder.root() / "step-1");
  {
    auto lock = StoreLock::take(folder.root(), 3);
    REQUIRE(lock.ok());
    CHECK(!std::filesystem::exists(saving_folder(folder.root(), 2)));
    lock->give_up();
  }
  CHECK(!std::filesystem::exists(saving_folder(folder.root(), 3)));
  CHECK(*steps_in(folder.root()) == std::vector<uint64_t>{1});
}

TEST_CASE("what is no checkpoint is not replaced") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.root() / "step-1");
  std::ofstream(folder.path("step-1/mine")) << "dear";
  std::ofstream(folder.path("step-2")) << "dear";
  std::ofstream(folder.path(".saving-my-thesis")) << "dear";
  for (const uint64_t step : {1U, 2U}) {
    CHECK(has(StoreLock::take(folder.root(), step).status(), "no checkpoint"));
  }
  publish(folder.root(), 3, 1);
  CHECK(std::filesystem::exists(folder.path("step-1/mine")));
  CHECK(std::filesystem::exists(folder.path(".saving-my-thesis")));
}

TEST_CASE("the same step once more replaces what was there") {
  const TemporaryFolder folder;
  publish(folder.root(), 1, 2, "old");
  publish(folder.root(), 1, 2, "new");
  CHECK(*ho::read_text_file((folder.root() / "step-1" / kManifestName).string(), 10) == "new");
  CHECK(!std::filesystem::exists(saving_folder(folder.root(), 1)));
}

TEST_CASE("elements are read across files and pieces") {
  Written written;
  const auto reader = Reader::open(written.path());
  INFO(reader.status().message());
  REQUIRE(reader.ok());
  CHECK(read(*reader, 0, "master", {0, 10}) == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(read(*reader, 0, "exp_avg", {5, 7}) == std::vector<float>{105, 106});
  CHECK(read(*reader, 0, "frozen", {1, 3}) == std::vector<float>{201, 202});
  CHECK(read(*reader, 1, "master", {3, 3}).empty());
  CHECK(reader->verify().ok());
  std::vector<std::byte> space(8);
  CHECK(!reader->read(0, "master", {9, 11}, space).ok());
  CHECK(!reader->read(2, "master", {0, 2}, space).ok());
  CHECK(!reader->read(0, "momentum", {0, 2}, space).ok());
  CHECK(!reader->read(0, "master", {0, 1}, space).ok());
}

TEST_CASE("files that miss or repeat elements are refused") {
  Written written;
  const auto refused = [&](const std::string& part) {
    written.finish();
    const auto reader = Reader::open(written.path());
    REQUIRE(!reader.ok());
    INFO(reader.status().message());
    CHECK(has(reader.status(), part));
  };
  written.write(1, {7, 10}, {4, 4}, {3, 3});
  refused("elements 6 to 6 are in no file");
  written.write(1, {5, 10}, {4, 4}, {3, 3});
  refused("elements 5 to 5 are in several files");
  written.write(1, {6, 9}, {4, 4}, {3, 3});
  refused("9 elements of 10");
  written.write(1, {6, 10}, {3, 4}, {3, 3});
  refused("several files");
  written.write(1, {6, 10}, {4, 4}, {3, 3});
  written.manifest().units.pop_back();
  refused("no such unit");
  written.manifest().units.push_back({"b", 5, 0});
  refused("4 elements of 5");
  written.manifest().units.back().trained = 4;
  written.manifest().frozen_dtype = ho::DType::kFloat16;
  refused("another type");
}

TEST_CASE("a rank's file of another step is refused, though it is whole and of the same size") {
  const Written written;
  const Written later(1000);
  for (const uint32_t rank : {0U, 1U}) {
    const Path file = written.path() / part_file_name(rank);
    const Path other = later.path() / part_file_name(rank);
    REQUIRE(std::filesystem::file_size(file) == std::filesystem::file_size(other));
    const Path kept = written.path() / "kept";
    std::filesystem::rename(file, kept);
    std::filesystem::copy_file(other, file);
    const auto reader = Reader::open(written.path());
    CHECK(reader.status().code() == ho::StatusCode::kProtocol);
    CHECK(has(reader.status(), part_file_name(rank)));
    CHECK(has(reader.status(), "of another checkpoint"));
    std::filesystem::rename(kept, file);
  }
  CHECK(Reader::open(written.path()).ok());
}

TEST_CASE("whole tensors are exported under their names") {
  Written written;
  written.manifest().tensors = {{"head", 0, false, 0, {2, 2}},
                                {"tail", 0, false, 4, {6}},
                                {"fixed", 0, true, 0, {3}},
                                {"b", 1, false, 0, {4}}};
  written.finish();
  const auto reader = Reader::open(written.path());
  REQUIRE(reader.ok());
  const TemporaryFolder out;
  const Path file = out.path("model.safetensors");
  const auto size = export_tensors(*reader, file, {ho::DType::kBfloat16, true, false});
  INFO(size.status().message());
  REQUIRE(size.ok());
  const std::string bytes = *ho::read_text_file(file.string(), 1 << 20);
  CHECK(bytes.size() == *size);
  const uint64_t length = *json_bytes(bytes, bytes.size());
  const auto header = parse_header(std::string_view(bytes).substr(kLengthBytes, length),
                                   bytes.size() - kLengthBytes - length);
  REQUIRE(header.ok());
  REQUIRE(header->tensors.size() == 7);
  CHECK(header->tensors[0].name == "head");
  CHECK(header->tensors[0].dtype == ho::DType::kBfloat16);
  CHECK(header->tensors[1].name == "head.exp_avg");
  CHECK(header->tensors[1].dtype == ho::DType::kFloat32);
  CHECK(header->tensors[4].name == "fixed");
  // 5 in bfloat16 is 0x40a0: the second element of "tail".
  const size_t tail = kLengthBytes + length + header->tensors[2].begin;
  CHECK(bytes.substr(tail + 2, 2) == "\xa0\x40");
  CHECK(has(export_tensors(*reader, file, {}).status(), "there already"));
  CHECK(export_tensors(*reader, file, {ho::DType::kFloat32, false, true}).ok());
  std::filesystem::create_directory(out.root() / "taken");
  CHECK(has(
      export_tensors(*reader, out.root() / "taken", {ho::DType::kFloat32, false, true}).status(),
      "no regular file"));
  std::filesystem::remove(out.root() / "taken");
  written.manifest().tensors[1].name = "head";
  written.finish();
  CHECK(has(export_tensors(*Reader::open(written.path()), out.path("x"), {}).status(),
            "two tensors"));
  CHECK(std::distance(std::filesystem::directory_iterator(out.root()),
                      std::filesystem::directory_iterator()) == 1);
}
