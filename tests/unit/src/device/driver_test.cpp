#include <cstring>
#include <set>
#include <string>

#include "catch.hpp"
#include "device/driver_loader.hpp"
#include "has.hpp"

namespace ho::device {
namespace {

std::string fake(const std::string& name) {
  return std::string(HORING_FAKE_DRIVERS) + "/fake_driver_" + name + ".so";
}

void* address_in(const void* slot) {
  void* address = nullptr;
  std::memcpy(&address, slot, sizeof address);
  return address;
}

}  // namespace

TEST_CASE("A driver that has every call fills the whole table") {
  for (const char* which : {"whole", "old_lookup"}) {
    INFO(which);
    const auto loaded = load_driver(fake(which));
    INFO(loaded.status().message());
    REQUIRE(loaded.ok());
    const Driver& table = loaded.value()->table;
    int version = 0;
    CHECK(table.version(&version) == kSuccess);
    CHECK(version == 12040);
    CHECK(table.kernels.empty());
    // The table is function pointers up to `kernels`: none may be null.
    const auto* const first = reinterpret_cast<const char*>(&table);
    const auto* const end = reinterpret_cast<const char*>(&table.kernels);
    for (const char* slot = first; slot < end; slot += sizeof(void*)) {
      INFO("slot " << (slot - first) / static_cast<long>(sizeof(void*)));
      CHECK(address_in(slot) != nullptr);
    }
    CHECK(driver_calls().size() == static_cast<size_t>(end - first) / sizeof(void*));
  }
}

TEST_CASE("A driver is asked for the version of a call that the table declares") {
  auto library = SharedLibrary::open(fake("whole"));
  REQUIRE(library.ok());
  void* (*first)() = nullptr;
  void* const symbol = library->find("fake_first_memory_allocate");
  std::memcpy(&first, &symbol, sizeof first);
  REQUIRE(first != nullptr);
  const auto loaded = load_driver(fake("whole"));
  REQUIRE(loaded.ok());
  CHECK(address_in(&loaded.value()->table.memory_allocate) != first());
}

TEST_CASE("No call of the driver is listed twice") {
  std::set<std::string> names;
  for (const DriverCall& call : driver_calls()) {
    CHECK(names.insert(call.name).second);
    CHECK(call.version <= kMinDriverVersion);
  }
}

TEST_CASE("A driver that is too old is named with the least version") {
  const Status status = load_driver(fake("too_old")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "fake_driver_too_old.so is of CUDA 11.4"));
  CHECK(has(status, "takes CUDA 12.0 or newer; install a newer NVIDIA driver"));
}

TEST_CASE("A call that a driver lacks is named") {
  const Status status = load_driver(fake("lacks_a_call")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "has no call cuIpcOpenMemHandle of CUDA 11.0; install"));
}

TEST_CASE("A driver that cannot be asked for its calls is refused") {
  const Status status = load_driver(fake("no_lookup")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "has no cuGetProcAddress"));
}

TEST_CASE("Without a driver the error says what to do") {
  const Status status = load_driver(fake("that_is_not_there")).status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "no CUDA driver: "));
  CHECK(has(status, "install NVIDIA's driver, or use host memory"));
}

TEST_CASE("A library that is no driver is told from one") {
  const Status status = load_driver("libm.so.6").status();
  CHECK(status.code() == StatusCode::kUnsupported);
  CHECK(has(status, "libm.so.6 is no CUDA driver"));
}

TEST_CASE("The installed driver is loaded once or refused each time") {
  const auto first = driver();
  const auto second = driver();
  REQUIRE(first.ok() == second.ok());
  if (first.ok()) {
    CHECK(*first == *second);
  } else {
    CHECK(first.status().code() == StatusCode::kUnsupported);
    CHECK(first.status().message() == second.status().message());
  }
}

TEST_CASE("A driver's result becomes a status that says what to do next") {
  Driver table;
  table.error_name = [](DriverResult, const char** name) {
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
    return kSuccess;
  };
  table.error_text = [](DriverResult, const char** text) {
    *text = "an illegal memory access was encountered";
    return kSuccess;
  };
  const Status lost = driver_error(table, "cuMemcpyAsync", kIllegalAddress);
  CHECK(lost.code() == StatusCode::kSystem);
  CHECK(lost.message() ==
        "cuMemcpyAsync: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered): the "
        "context is lost; end this process and start it again");
  const Driver silent;
  CHECK(driver_error(silent, "cuInit", kSuccess).ok());
  CHECK(driver_error(silent, "cuMemAlloc", kOutOfDeviceMemory).code() == StatusCode::kOutOfMemory);
  CHECK(driver_error(silent, "cuInit", kNoDevice).code() == StatusCode::kUnsupported);
  CHECK(driver_error(silent, "cuEventQuery", kInvalidHandle).message() ==
        "cuEventQuery: CUDA error 400");
}

}  // namespace ho::device
