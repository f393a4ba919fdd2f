#include "bench/train_gpt/text.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "base/text_file.hpp"

namespace paro::gpt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "/usr/share/common-licenses";

ho::Status failed(const std::string& message) {
  return ho::invalid(message);
}

// Links are other names of files that are there too.
ho::Result<std::vector<std::string>> default_files() {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(kDefaultFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_symlink() && entry->is_regular_file()) {
      files.push_back(entry->path());
    }
  }
  if (files.empty()) {
    return failed(std::string("no text under ") + kDefaultFolder + ": name files with --text");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

ho::Result<Text> Text::read(std::vector<std::string> files, uint64_t least) {
  if (files.empty()) {
    HORING_ASSIGN(files, default_files());
  }
  Text text;
  for (const std::string& name : files) {
    const auto read = ho::read_text_file(name, std::numeric_limits<size_t>::max());
    if (!read.ok()) {
      return failed("--text " + name + ": cannot be read (" + read.status().message() +
                    "); give files, of a folder those in it");
    }
    text.bytes_ += *read;
  }
  if (text.size() < least) {
    return failed("--text: " + std::to_string(text.size()) + " bytes in all, one sample takes " +
                  std::to_string(least) + ": give more text or a smaller --context");
  }
  return text;
}

uint64_t Text::hash() const {
  return XXH3_64bits(bytes_.data(), bytes_.size());
}

void Text::append_sample(uint64_t seed,
                         uint64_t index,
                         uint32_t length,
                         std::vector<int64_t>& samples) const {
  const std::array<uint64_t, 2> number{seed, index};
  const uint64_t starts = bytes_.size() - length + 1;
  const uint64_t first = XXH3_64bits(number.data(), sizeof number) % starts;
  for (uint64_t i = first; i < first + length; ++i) {
    samples.push_back(static_cast<unsigned char>(bytes_[i]));
  }
}

}  // namespace paro::gpt
