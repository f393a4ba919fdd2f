// Files of named arrays, as safetensors has them: 8 bytes for the length of the header (little
// endian), the header (JSON: name -> type, shape, place; "__metadata__" -> texts), then the arrays
// one after the other without gaps. Other programs read them too. Pure: text and numbers only.
//
// A header is read from a disk that may be damaged, or written by another program: every number in
// it is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"

namespace paro::checkpoint {

struct Tensor {
  std::string name;
  ho::DType dtype = ho::DType::kUint8;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // place in the file's data
  uint64_t end = 0;
  [[nodiscard]] uint64_t size_bytes() const { return end - begin; }
};

struct TensorHeader {
  std::vector<Tensor> tensors;  // in the order of their places
  std::map<std::string, std::string> metadata;
};

inline constexpr uint64_t kLengthBytes = 8;
// Longer headers are refused; readers elsewhere take no longer ones either.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// The type's name there ("BF16"); nothing for a type that the format does not have.
[[nodiscard]] std::string_view tensor_type_name(ho::DType dtype);

// Appends a tensor behind those that are there.
void append(TensorHeader& header, std::string name, ho::DType dtype, std::vector<uint64_t> shape);

// The file's first bytes, length and JSON, filled up with blanks so that data begins at a multiple
// of 8.
[[nodiscard]] std::string to_bytes(const TensorHeader& header);

// How long the JSON is, from the file's first 8 bytes. An error where the file is too short for it.
[[nodiscard]] ho::Result<uint64_t> json_bytes(std::string_view first_bytes, uint64_t file_bytes);

// `json`: that many bytes from the eighth on. An error names the tensor and what is wrong: types
// that are not known, shapes that do not fit the places, gaps, overlaps, data missing or left over.
[[nodiscard]] ho::Result<TensorHeader> parse_header(std::string_view json, uint64_t data_bytes);

}  // namespace paro::checkpoint
