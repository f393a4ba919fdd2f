#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/json.hpp"

namespace paro::checkpoint {
namespace {

constexpr uint64_t kDataAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  ho::DType dtype;
  std::string_view name;
};
constexpr std::array<TypeName, 12> kTypeNames{{{ho::DType::kInt8, "I8"},
                                               {ho::DType::kUint8, "U8"},
                                               {ho::DType::kInt32, "I32"},
                                               {ho::DType::kUint32, "U32"},
                                               {ho::DType::kInt64, "I64"},
                                               {ho::DType::kUint64, "U64"},
                                               {ho::DType::kFloat16, "F16"},
                                               {ho::DType::kBfloat16, "BF16"},
                                               {ho::DType::kFloat32, "F32"},
                                               {ho::DType::kFloat64, "F64"},
                                               {ho::DType::kFloat8E4m3, "F8_E4M3"},
                                               {ho::DType::kFloat8E5m2, "F8_E5M2"}}};

// Bytes of a tensor; an error where there are more than fit a number.
ho::Result<uint64_t> bytes_of(const Tensor& tensor) {
  uint64_t bytes = ho::size_bytes(tensor.dtype);
  for (const uint64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return malformed("tensor " + escaped(tensor.name) + ": a shape of too many bytes");
    }
  }
  return bytes;
}

ho::Result<ho::DType> dtype_of(std::string_view name, const std::string& where) {
  for (const TypeName& type : kTypeNames) {
    if (type.name == name) {
      return type.dtype;
    }
  }
  return malformed(where + ": type " + escaped(name) + " is not known");
}

ho::Result<Tensor> parse_tensor(const std::string& name, const Json& json, uint64_t data_bytes) {
  const std::string where = "tensor " + escaped(name);
  Tensor tensor;
  tensor.name = name;
  HORING_ASSIGN(const std::string type, text_at(json, "dtype", where));
  HORING_ASSIGN(tensor.dtype, dtype_of(type, where));
  HORING_ASSIGN(tensor.shape, counts_at(json, "shape", where));
  HORING_ASSIGN(const std::vector<uint64_t> offsets, counts_at(json, "data_offsets", where));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return malformed(where + ": its place is not inside the file's " + std::to_string(data_bytes) +
                     " bytes of data (truncated?)");
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  HORING_ASSIGN(const uint64_t bytes, bytes_of(tensor));
  if (bytes != tensor.size_bytes()) {
    return malformed(where + ": " + std::to_string(tensor.size_bytes()) + " bytes for a shape of " +
                     std::to_string(bytes));
  }
  return tensor;
}

ho::Status parse_metadata(const Json& json, TensorHeader& header) {
  if (!json.is_object()) {
    return malformed("__metadata__ is no object");
  }
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) {
      return malformed("__metadata__: " + escaped(name) + " is no text");
    }
    header.metadata.emplace(name, value.get<std::string>());
  }
  return {};
}

// One after the other, from the first byte of data to the last.
ho::Status check_offsets(const TensorHeader& header, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.begin != end) {
      return malformed("tensor " + escaped(tensor.name) + " begins at byte " +
                       std::to_string(tensor.begin) + " of data, where " + std::to_string(end) +
                       " is expected");
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return malformed(std::to_string(data_bytes) + " bytes of data, of which tensors have " +
                     std::to_string(end));
  }
  return {};
}

}  // namespace

std::string_view tensor_type_name(ho::DType dtype) {
  const auto* const found = std::find_if(kTypeNames.begin(),
                                         kTypeNames.end(),
                                         [&](const TypeName& type) { return type.dtype == dtype; });
  return found == kTypeNames.end() ? std::string_view() : found->name;
}

void append(TensorHeader& header, std::string name, ho::DType dtype, std::vector<uint64_t> shape) {
  const uint64_t begin = header.tensors.empty() ? 0 : header.tensors.back().end;
  uint64_t bytes = ho::size_bytes(dtype);
  for (const uint64_t extent : shape) {
    bytes *= extent;
  }
  header.tensors.push_back({std::move(name), dtype, std::move(shape), begin, begin + bytes});
}

std::string to_bytes(const TensorHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) {
    json[kMetadata] = header.metadata;
  }
  for (const Tensor& tensor : header.tensors) {
    json[tensor.name] = {{"dtype", tensor_type_name(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = to_string(json);
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  std::string bytes;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<char>(text.size() >> (8 * i) & 0xffU));
  }
  return bytes + text;
}

ho::Result<uint64_t> json_bytes(std::string_view first_bytes, uint64_t file_bytes) {
  if (first_bytes.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return malformed("a file of " + std::to_string(file_bytes) +
                     " bytes has no header (truncated?)");
  }
  uint64_t length = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return malformed("a header of " + std::to_string(length) + " bytes; at most " +
                     std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (length > file_bytes - kLengthBytes) {
    return malformed("a header of " + std::to_string(length) + " bytes in a file of " +
                     std::to_string(file_bytes) + " (truncated?)");
  }
  return length;
}

ho::Result<TensorHeader> parse_header(std::string_view text, uint64_t data_bytes) {
  HORING_ASSIGN(const Json json, parse_json(text));
  if (!json.is_object()) {
    return malformed("the header is no object");
  }
  TensorHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      HORING_TRY(parse_metadata(value, header));
      continue;
    }
    HORING_ASSIGN(Tensor tensor, parse_tensor(name, value, data_bytes));
    header.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  HORING_TRY(check_offsets(header, data_bytes));
  return header;
}

}  // namespace paro::checkpoint
