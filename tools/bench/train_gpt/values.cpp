#include "bench/train_gpt/values.hpp"

#include <cstring>
#include <limits>
#include <string_view>

#include "base/text_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "reduce/reduce.hpp"

namespace paro::gpt {
namespace {

ho::Status refused(const std::string& file, const std::string& why) {
  return ho::invalid("--from " + file + ": " + why);
}

ho::Result<std::vector<float>> fp32_of(const checkpoint::Tensor& tensor, const char* data) {
  std::vector<float> values(tensor.size_bytes() / ho::size_bytes(tensor.dtype));
  if (tensor.dtype == ho::DType::kFloat32) {
    std::memcpy(values.data(), data, tensor.size_bytes());
  } else if (tensor.dtype == ho::DType::kBfloat16 || tensor.dtype == ho::DType::kFloat16) {
    ho::widen(tensor.dtype, values.data(), data, values.size());
  } else {
    return ho::Status(ho::StatusCode::kUnsupported,
                      tensor.name + " is not of a type to compute in");
  }
  return values;
}

}  // namespace

ho::Result<Values> read_values(const std::string& file) {
  const auto content = ho::read_text_file(file, std::numeric_limits<size_t>::max());
  if (!content.ok()) {
    return refused(file, "cannot be read (" + content.status().message() + ")");
  }
  const std::string_view all = *content;
  const auto length = checkpoint::json_bytes(all.substr(0, checkpoint::kLengthBytes), all.size());
  if (!length.ok()) {
    return refused(file, length.status().message());
  }
  const uint64_t first = checkpoint::kLengthBytes + *length;
  const auto header =
      checkpoint::parse_header(all.substr(checkpoint::kLengthBytes, *length), all.size() - first);
  if (!header.ok()) {
    return refused(file, header.status().message());
  }
  Values values;
  for (const checkpoint::Tensor& tensor : header->tensors) {
    auto read = fp32_of(tensor, all.data() + first + tensor.begin);
    if (!read.ok()) {
      return refused(file, read.status().message());
    }
    values.emplace(tensor.name,
                   Value{{tensor.shape.begin(), tensor.shape.end()}, std::move(read).value()});
  }
  return values;
}

}  // namespace paro::gpt
