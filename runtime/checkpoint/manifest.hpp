// What a checkpoint is of, and which files it needs: one manifest per checkpoint. Pure.
//
// The manifest has a checksum of its own, and names every file by its length and its header's
// checksum; the headers name every piece of data by its checksum. So any damage is noticed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "layout/unit_layout.hpp"
#include "optim/loss_scale.hpp"

namespace paro::checkpoint {

// A tensor of the framework's: elements of a unit that lie one after the other.
struct NamedTensor {
  std::string name;
  uint32_t unit = 0;
  bool frozen = false;
  uint64_t first_element = 0;
  std::vector<uint64_t> shape;
  [[nodiscard]] uint64_t count() const;
};

// XXH3, 128 bits.
struct Checksum {
  std::array<uint64_t, 2> words{};
  friend bool operator==(const Checksum&, const Checksum&) = default;
};
[[nodiscard]] Checksum checksum_of(const void* bytes, size_t count);
[[nodiscard]] std::string to_string(const Checksum& checksum);  // 32 hexadecimal digits
[[nodiscard]] ho::Result<Checksum> checksum_from(std::string_view text);

// One per rank that saved, in the order of the ranks.
struct PartFile {
  uint64_t bytes = 0;
  Checksum header;
};

struct Manifest {
  uint64_t step = 0;             // steps applied
  uint64_t called_steps = 0;     // with those that were left out
  uint64_t optimizer_steps = 0;  // applied since the optimizer's state began
  LossScaleState loss_scale;
  std::string strategy;             // as it was when saved; loading does not need it
  std::string optimizer;            // "AdamW"
  std::vector<std::string> states;  // "master", then what the optimizer keeps
  ho::DType frozen_dtype = ho::DType::kFloat32;
  std::vector<UnitShape> units;
  std::vector<NamedTensor> tensors;
  std::string job_state;  // whatever the framework keeps once for all ranks
  std::vector<PartFile> files;
};

inline constexpr const char* kManifestName = "manifest.json";
// "rank-00003.safetensors"
[[nodiscard]] std::string part_file_name(size_t rank);

[[nodiscard]] std::string to_json(const Manifest& manifest);
// An error names what is wrong and where.
[[nodiscard]] ho::Result<Manifest> parse_manifest(std::string_view text);
// That names and the job's state are UTF-8, which JSON takes only, and tensors lie in their units.
[[nodiscard]] ho::Status check(const Manifest& manifest);
// That no two tensors have one name. Used for what a caller gives, not for what is read: a
// checkpoint whose names are not unique can still be loaded by its units.
[[nodiscard]] ho::Status check_names(const Manifest& manifest);

}  // namespace paro::checkpoint
