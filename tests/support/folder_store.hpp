// A key-value store in a folder, for ranks that are processes: a file for each key.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

namespace ho::test {

class FolderStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) const {
    const std::string path = path_of(key);
    const std::string temporary = path + "." + std::to_string(::getpid());
    std::ofstream(temporary) << value;
    std::filesystem::rename(temporary, path);
  }
  // False: it is not there after that time.
  [[nodiscard]] bool wait(const std::string& key, std::chrono::milliseconds timeout) const {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(path_of(key))) {
      if (std::chrono::steady_clock::now() >= end) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  [[nodiscard]] std::optional<std::string> get(const std::string& key) const {
    std::ifstream file(path_of(key));
    return file ? std::optional(std::string{std::istreambuf_iterator<char>(file), {}})
                : std::nullopt;
  }

 private:
  [[nodiscard]] std::string path_of(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '_');
    return folder_ / key;
  }

  std::filesystem::path folder_;
};

}  // namespace ho::test
