// A checkpoint file's header, with what its first 8 bytes say of it.
#include "checkpoint/part_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paro::checkpoint;
  const std::string_view file = fuzz::text(data, size);
  const auto length = json_bytes(file, size);
  if (!length.ok()) {
    return 0;
  }
  fuzz::require(*length <= size - kLengthBytes);
  const uint64_t data_bytes = size - kLengthBytes - *length;
  const auto header = parse_header(file.substr(kLengthBytes, *length), data_bytes);
  if (!header.ok()) {
    const ho::Status status = header.status();
    fuzz::require(status.message().size() < 400);
    fuzz::require(status.message().find_first_of(std::string_view("\0\n\x1b", 3)) ==
                  std::string::npos);
    return 0;
  }
  uint64_t end = 0;
  for (const Tensor& tensor : header->tensors) {
    fuzz::require(tensor.begin == end && tensor.end <= data_bytes);
    end = tensor.end;
    const auto piece = piece_from(tensor.name);
    fuzz::require(!piece.ok() || piece_from(to_string(*piece)).ok());
  }
  fuzz::require(end == data_bytes);
  // What is read can be written, and is then the same.
  const std::string again = to_bytes(*header);
  const auto second = parse_header(std::string_view(again).substr(kLengthBytes), data_bytes);
  fuzz::require(second.ok() && second->tensors.size() == header->tensors.size());
  return 0;
}
