// What rank 0 sets under its key of a store, and whoever else can write there.
#include "bootstrap/rendezvous/store_value.hpp"
#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto value = ho::parse_store_value(fuzz::text(data, size));
  if (value.ok()) {
    fuzz::require(*ho::parse_store_value(ho::store_value_text(*value)) == *value);
  }
  return 0;
}
