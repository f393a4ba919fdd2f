// Where a program of ours finds the NCCL plugin that was built or installed with it.
#pragma once

#include <filesystem>
#include <string>

namespace ho {

// "" where there is none. libdir: the installation's, relative to its prefix.
inline std::string own_plugin(const char* libdir) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto above = program.parent_path().parent_path();
  for (const auto& folder : {above / "plugin", above / libdir}) {
    const auto file = std::filesystem::weakly_canonical(folder / "libnccl-net-horing.so", error);
    if (!error && std::filesystem::exists(file, error)) {
      return file.string();
    }
  }
  return "";
}

}  // namespace ho
