// Slurm's node lists.
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto host = ho::first_host_of(fuzz::text(data, size));
  if (host.ok()) {
    fuzz::require(!host->empty() && host->size() <= 255);
    fuzz::require(*ho::first_host_of(*host) == *host);
  }
  return 0;
}
