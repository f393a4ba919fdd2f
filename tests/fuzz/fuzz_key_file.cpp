// The contents of a job-key file.
#include "auth/key_file.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto secret = ho::secret_in_key_file(fuzz::text(data, size));
  if (secret.ok()) {
    fuzz::require(!secret->empty() && secret->size() <= size);
    fuzz::require(secret->find_first_of("\n") == std::string_view::npos);
    fuzz::require(*ho::secret_in_key_file(*secret) == *secret);
  }
  return 0;
}
