#include "checkpoint/export.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>

#include "checkpoint/json.hpp"
#include "checkpoint/part_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "optim/gradients.hpp"

namespace paro::checkpoint {
namespace {

// What one tensor of the new file is made of.
struct Source {
  uint32_t unit = 0;
  std::string state;
  uint64_t first = 0;
  uint64_t count = 0;
  ho::DType dtype = ho::DType::kFloat32;  // in the new file
};

std::vector<NamedTensor> named(const Manifest& manifest) {
  if (!manifest.tensors.empty()) {
    return manifest.tensors;
  }
  std::vector<NamedTensor> tensors;
  for (uint32_t u = 0; u < manifest.units.size(); ++u) {
    const UnitShape& unit = manifest.units[u];
    if (unit.trained > 0) {
      tensors.push_back({unit.name, u, false, 0, {unit.trained}});
    }
    if (unit.frozen > 0) {
      tensors.push_back({unit.name + ".frozen", u, true, 0, {unit.frozen}});
    }
  }
  return tensors;
}

class Exporter {
 public:
  Exporter(const Reader& reader, const ExportOptions& options)
      : reader_(reader), options_(options) {}

  [[nodiscard]] ho::Status collect() {
    for (const NamedTensor& tensor : named(reader_.manifest())) {
      if (tensor.frozen) {
        HORING_TRY(add(tensor, kFrozen, "", reader_.manifest().frozen_dtype));
        continue;
      }
      HORING_TRY(add(tensor, "master", "", options_.dtype));
      for (const std::string& state : reader_.manifest().states) {
        if (options_.with_optimizer && state != "master") {
          HORING_TRY(add(tensor, state, "." + state, ho::DType::kFloat32));
        }
      }
    }
    header_.metadata = {{"format", "pt"}, {"step", std::to_string(reader_.manifest().step)}};
    return {};
  }

  [[nodiscard]] ho::Result<uint64_t> write(File& file, const Progress& progress) const {
    const std::string head = to_bytes(header_);
    if (head.size() > kMaxHeaderBytes) {
      return ho::Status(ho::StatusCode::kUnsupported, "too many tensors for one file's header");
    }
    HORING_TRY(file.write(head));
    const uint64_t all = header_.tensors.empty() ? 0 : header_.tensors.back().end;
    uint64_t done = 0;
    for (const Source& source : sources_) {
      for (uint64_t at = 0; at < source.count; at += kMaxPieceElements) {
        HORING_ASSIGN(const std::vector<std::byte> bytes,
                      piece(source, at, std::min(kMaxPieceElements, source.count - at)));
        HORING_TRY(file.write(bytes));
        done += bytes.size();
        if (progress) {
          progress(done, all);
        }
      }
    }
    HORING_TRY(file.sync());
    return head.size() + all;
  }

 private:
  [[nodiscard]] ho::Status add(const NamedTensor& tensor,
                               const std::string& state,
                               const std::string& suffix,
                               ho::DType dtype) {
    std::string name = tensor.name + suffix;
    if (name == "__metadata__") {
      return malformed("a tensor cannot be called \"__metadata__\" in safetensors");
    }
    if (!names_.insert(name).second) {
      return malformed("two tensors would be called " + escaped(name) +
                       ": give units or tensors names of their own");
    }
    append(header_, std::move(name), dtype, tensor.shape);
    sources_.push_back({tensor.unit, state, tensor.first_element, tensor.count(), dtype});
    return {};
  }

  [[nodiscard]] ho::Result<std::vector<std::byte>> piece(const Source& source,
                                                         uint64_t at,
                                                         uint64_t count) const {
    const ho::DType stored = reader_.dtype_of(source.state);
    std::vector<std::byte> bytes(count * ho::size_bytes(stored));
    const uint64_t first = source.first + at;
    HORING_TRY(reader_.read(source.unit, source.state, {first, first + count}, bytes));
    if (stored == source.dtype) {
      return bytes;
    }
    // Only masters are converted, which are fp32.
    std::vector<std::byte> rounded(count * ho::size_bytes(source.dtype));
    round_to(source.dtype, {reinterpret_cast<const float*>(bytes.data()), count}, rounded.data());
    return rounded;
  }

  const Reader& reader_;
  ExportOptions options_;
  TensorHeader header_;
  std::vector<Source> sources_;
  std::set<std::string> names_;
};

ho::Status taken(const Path& name) {
  return ho::invalid(name.string() + " is there already");
}

// Fails if the name is taken, also by a process that was faster.
ho::Status rename_to_free_name(const Path& from, const Path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return {};
  }
  // Not every file system can; those can link, which fails so too.
  if (errno == EINVAL || errno == ENOSYS) {
    if (::link(from.c_str(), to.c_str()) == 0) {
      ::unlink(from.c_str());
      return {};
    }
  }
  return errno == EEXIST ? taken(to) : ho::system_error("naming " + to.string(), errno);
}

ho::Status publish(const Path& from, const Path& to, bool overwrite) {
  if (!overwrite) {
    HORING_TRY(rename_to_free_name(from, to));
  } else if (::rename(from.c_str(), to.c_str()) != 0) {
    return ho::system_error("naming " + to.string(), errno);
  }
  return sync_folder(to.has_parent_path() ? to.parent_path() : Path("."));
}

}  // namespace

ho::Result<uint64_t> export_tensors(const Reader& reader,
                                    const Path& file,
                                    const ExportOptions& options,
                                    const Progress& progress) {
  std::error_code error;
  const auto there = std::filesystem::symlink_status(file, error);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return ho::Status(ho::StatusCode::kUnsupported,
                      file.string() + " is there and no regular file");
  }
  if (!options.overwrite && std::filesystem::exists(there)) {
    return taken(file);
  }
  Exporter exporter(reader, options);
  HORING_TRY(exporter.collect());
  Path unfinished = file;
  unfinished += ".unfinished-" + std::to_string(::getpid());
  HORING_ASSIGN(File target, File::create(unfinished));
  const auto written = exporter.write(target, progress);
  const ho::Status status =
      written.ok() ? publish(unfinished, file, options.overwrite) : written.status();
  if (!status.ok()) {
    std::filesystem::remove(unfinished, error);
    return status;
  }
  return *written;
}

}  // namespace paro::checkpoint
