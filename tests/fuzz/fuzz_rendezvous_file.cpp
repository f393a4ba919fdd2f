// The contents of a rendezvous file, and HORING_RENDEZVOUS.
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = fuzz::text(data, size);
  if (const auto file = ho::parse_rendezvous_file(text); file.ok()) {
    fuzz::require(*ho::parse_rendezvous_file(ho::rendezvous_file_text(*file)) == *file);
  }
  if (const auto address = ho::parse_rendezvous_endpoint(text);
      address.ok() && address->path.empty()) {
    fuzz::require(*ho::parse_host_port(address->tcp.to_string()) == address->tcp);
  }
  return 0;
}
