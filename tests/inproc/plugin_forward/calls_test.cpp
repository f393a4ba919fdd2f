// What reaches a plugin of each version, call by call, and what comes back.
#include <spdlog/sinks/ostream_sink.h>

#include <array>
#include <cstring>
#include <sstream>

#include "base/log.hpp"
#include "base/logger.hpp"
#include "catch.hpp"
#include "core/collnet/coll_net.hpp"
#include "fake_plugin.hpp"

namespace ho::plugin::forward_test {
namespace {

using nccl_abi::Result;

// With a driver over a fake table of every version: check(table, driver).
template <typename Check>
void for_each_version(const Check& check) {
  const auto one = [&](auto table) {
    using Net = decltype(table);
    INFO("net v" << forward::kVersion<Net>);
    forward::TableDriver<Net> driver({}, table, "a file");
    check(table, driver);
  };
  one(make_fake_table<nccl_abi::v8::Net>());
  one(make_fake_table<nccl_abi::v9::Net>());
  one(make_fake_table<nccl_abi::v10::Net>());
  one(make_fake_table<nccl_abi::v11::Net>());
  one(make_fake_table<nccl_abi::v12::Net>());
}
template <typename Net>
constexpr int version_of(const Net& /*table*/) {
  return forward::kVersion<Net>;
}

void* open(NetDriver& driver, uint64_t comm_id = 1, int32_t traffic_class = kNoTrafficClass) {
  void* context = nullptr;
  REQUIRE(driver.open({comm_id, traffic_class, {}}, &context) == Reply::kSuccess);
  REQUIRE(context != nullptr);
  return context;
}

void connect(NetDriver& driver, void* context, int32_t traffic_class) {
  std::array<std::byte, kHandleBytes> handle{};
  void* comm = nullptr;
  REQUIRE(driver.connect(context, 0, traffic_class, handle.data(), &comm, nullptr) ==
          Reply::kSuccess);
  REQUIRE(comm == &journal());
}

size_t count_of(const std::string& call) {
  return static_cast<size_t>(std::count(journal().calls.begin(), journal().calls.end(), call));
}

TEST_CASE("forward: a plugin gets a context per communicator, or one init for the process") {
  for_each_version([](const auto& table, NetDriver& driver) {
    const bool has_contexts = version_of(table) >= 11;
    void* const one = open(driver, 21);
    void* const two = open(driver, 22);
    REQUIRE(one != two);
    REQUIRE(journal().inits ==
            (has_contexts ? std::vector<uint64_t>{21, 22} : std::vector<uint64_t>{0}));
    std::array<std::byte, kHandleBytes> handle{};
    void* listener = nullptr;
    REQUIRE(driver.listen(two, 0, handle.data(), &listener) == Reply::kSuccess);
    REQUIRE(driver.listen(one, 0, handle.data(), &listener) == Reply::kSuccess);
    if (has_contexts) {
      REQUIRE(reinterpret_cast<uintptr_t>(journal().contexts.at(0)) == 2);
      REQUIRE(reinterpret_cast<uintptr_t>(journal().contexts.at(1)) == 1);
    }
    REQUIRE(driver.close(one) == Reply::kSuccess);
    REQUIRE(driver.close(one) == Reply::kInvalidArgument);
    REQUIRE(driver.listen(one, 0, handle.data(), &listener) == Reply::kInvalidArgument);
    REQUIRE(driver.close(two) == Reply::kSuccess);
    REQUIRE(count_of("finalize") == (has_contexts ? 2 : 0));
    REQUIRE(journal().open_contexts.empty());
  });
}

TEST_CASE("forward: a driver that goes finalizes what is open") {
  for_each_version([](const auto& table, NetDriver& /*driver*/) {
    auto copy = table;
    {
      forward::TableDriver<decltype(copy)> driver({}, copy, "a file");
      open(driver);
      connect(driver, open(driver), 8);
    }
    REQUIRE(journal().open_contexts.empty());
    REQUIRE(count_of("finalize") == (version_of(table) >= 11 ? 3 : 0));
  });
}

TEST_CASE("forward: the traffic class of a communicator or a connection reaches the plugin") {
  for_each_version([](const auto& table, NetDriver& driver) {
    void* const plain = open(driver, 1);
    void* const classed = open(driver, 2, 40);
    connect(driver, plain, kNoTrafficClass);
    connect(driver, classed, kNoTrafficClass);
    connect(driver, plain, 96);
    connect(driver, plain, 96);
    connect(driver, classed, 96);
    connect(driver, classed, 40);
    if (version_of(table) == 10) {
      REQUIRE(journal().classes_of_connects == std::vector<int>{-1, 40, 96, 96, 96, 40});
    }
    if (version_of(table) >= 11) {
      // Contexts 1 and 2 as opened, 3 and 4 for class 96 of each.
      REQUIRE(journal().classes_of_inits == std::vector<int>{-1, 40, 96, 96});
      REQUIRE(journal().inits == std::vector<uint64_t>{1, 2, 1, 2});
      std::vector<uintptr_t> numbers;
      for (void* const context : journal().contexts) {
        numbers.push_back(reinterpret_cast<uintptr_t>(context));
      }
      REQUIRE(numbers == std::vector<uintptr_t>{1, 2, 3, 3, 4, 2});
      REQUIRE(driver.close(plain) == Reply::kSuccess);
      REQUIRE(journal().open_contexts.size() == 2);
    }
  });
}

TEST_CASE("forward: sizes that an int does not hold are refused where it must") {
  for_each_version([](const auto& table, NetDriver& driver) {
    open(driver);
    const bool narrow = version_of(table) == 8;
    constexpr size_t kLarge = size_t{3} << 30U;
    void* request = nullptr;
    const Reply wanted = narrow ? Reply::kInvalidArgument : Reply::kSuccess;
    REQUIRE(driver.isend(nullptr, {nullptr, kLarge, 0, nullptr, nullptr}, &request) == wanted);
    REQUIRE(journal().sent_bytes == (narrow ? 0 : kLarge));
    constexpr size_t kMax = (size_t{1} << 31U) - 1;
    REQUIRE(driver.isend(nullptr, {nullptr, kMax, 0, nullptr, nullptr}, &request) ==
            Reply::kSuccess);
    REQUIRE(journal().sent_bytes == kMax);
    std::array<void*, 3> data{};
    const std::array<size_t, 3> buffers{1, kMax, kLarge};
    const std::array<int32_t, 3> tags{};
    REQUIRE(driver.irecv(nullptr,
                         {2, data.data(), buffers.data(), tags.data(), data.data(), nullptr},
                         &request) == Reply::kSuccess);
    REQUIRE(journal().buffers == std::vector<size_t>{1, kMax});
    REQUIRE(driver.irecv(nullptr,
                         {3, data.data(), buffers.data(), tags.data(), data.data(), nullptr},
                         &request) == wanted);
    REQUIRE(journal().buffers.size() == (narrow ? 2 : 3));
    REQUIRE(driver.irecv(nullptr,
                         {65, data.data(), buffers.data(), tags.data(), data.data(), nullptr},
                         &request) == Reply::kInvalidArgument);
  });
}

TEST_CASE(
    "forward: requests, profiles and optional completions are passed as the version has them") {
  for_each_version([](const auto& table, NetDriver& driver) {
    open(driver);
    std::array<void*, 1> data{};
    const size_t buffer = 1;
    const int32_t tag = 0;
    void* request = reinterpret_cast<void*>(kOptionalCompletion);  // NOLINT: NCCL's mark
    REQUIRE(driver.irecv(nullptr,
                         {1, data.data(), &buffer, &tag, data.data(), nullptr},
                         &request) == Reply::kSuccess);
    REQUIRE(request == &journal());
    REQUIRE(reinterpret_cast<uintptr_t>(journal().request_before) ==
            (version_of(table) == 8 ? 0 : kOptionalCompletion));
    REQUIRE(journal().profiles_read == (version_of(table) >= 10));
    int profile = 0;
    REQUIRE(driver.isend(nullptr, {nullptr, 1, 0, nullptr, &profile}, &request) == Reply::kSuccess);
    REQUIRE(journal().profile == (version_of(table) >= 10 ? &profile : nullptr));
  });
}

TEST_CASE("forward: properties of any version are read, with NCCL's defaults for what it lacks") {
  for_each_version([](const auto& table, NetDriver& driver) {
    open(driver);
    const int version = version_of(table);
    DeviceProperties got;
    REQUIRE(driver.properties(3, &got) == Reply::kSuccess);
    REQUIRE(got.name == "fake0");
    REQUIRE(got.pci_path == "/sys/devices/fake");
    REQUIRE(got.guid == 7);
    REQUIRE(got.memory_kinds == (kHostMemory | kCudaMemory | kDmaBufMemory));
    REQUIRE(got.registration_is_global);
    REQUIRE(got.speed_mbps == 400000);
    REQUIRE(got.port == 2);
    REQUIRE(got.latency_us == 1.5F);
    REQUIRE(got.max_comms == 1003);
    REQUIRE(got.max_recvs == 16);
    REQUIRE(got.device_type == 1);
    REQUIRE(got.device_version == 9);
    REQUIRE(got.force_flush == (version >= 9));
    REQUIRE(got.parts == (version >= 9 ? std::vector<int32_t>{4, 5} : std::vector<int32_t>{}));
    REQUIRE(got.max_p2p_bytes == (version >= 9 ? 1000 : size_t{1} << 30U));
    REQUIRE(got.max_collective_bytes == (version >= 9 ? 2000 : size_t{1} << 29U));
    REQUIRE(got.max_multi_request_count == (version >= 11 ? 3 : 1));
    REQUIRE(got.rail_id == (version >= 12 ? 11 : -1));
    REQUIRE(got.plane_id == (version >= 12 ? 12 : -1));
  });
}

TEST_CASE("forward: what a plugin need not have is offered where it has it") {
  for_each_version([](auto& table, NetDriver& driver) {
    void* const context = open(driver);
    const int version = version_of(table);
    NetDriver::Extras extras = driver.extras();
    REQUIRE(extras.device_memory);
    REQUIRE(extras.consumption);
    REQUIRE(extras.virtual_devices == (version >= 9));
    REQUIRE(extras.attributes == (version >= 11));
    void* memory = nullptr;
    REQUIRE(driver.device_memory(nullptr, nullptr, &memory) == Reply::kSuccess);
    REQUIRE(driver.consumed(nullptr, 1, nullptr) == Reply::kSuccess);
    REQUIRE(driver.register_dma_buf(nullptr, {nullptr, 1, 1, 0, -1}, &memory) == Reply::kSuccess);
    REQUIRE(driver.set_attributes(context, nullptr) ==
            (version >= 11 ? Reply::kSuccess : Reply::kInvalidUsage));
    REQUIRE(count_of("getDeviceMr") + count_of("irecvConsumed") + count_of("regMrDmaBuf") == 3);
  });
}

TEST_CASE("forward: a plugin may lack what it need not have") {
  for_each_version([](auto& table, NetDriver& driver) {
    table.getDeviceMr = nullptr;
    table.irecvConsumed = nullptr;
    table.regMrDmaBuf = nullptr;
    table.iflush = nullptr;
    if constexpr (requires { table.makeVDevice; }) {
      table.makeVDevice = nullptr;
    }
    if constexpr (requires { table.finalize; }) {
      table.finalize = nullptr;
      table.setNetAttr = nullptr;
    }
    void* const context = open(driver);
    const NetDriver::Extras extras = driver.extras();
    REQUIRE_FALSE((extras.device_memory || extras.consumption || extras.virtual_devices ||
                   extras.attributes));
    void* pointer = nullptr;
    int32_t number = 0;
    REQUIRE(driver.device_memory(nullptr, nullptr, &pointer) == Reply::kInvalidUsage);
    REQUIRE(driver.consumed(nullptr, 1, nullptr) == Reply::kInvalidUsage);
    REQUIRE(driver.register_dma_buf(nullptr, {nullptr, 1, 1, 0, -1}, &pointer) ==
            Reply::kInvalidUsage);
    REQUIRE(driver.iflush(nullptr, {0, nullptr, nullptr, nullptr}, &pointer) ==
            Reply::kInvalidUsage);
    REQUIRE(driver.make_virtual_device(&number, 1, &number) == Reply::kInvalidUsage);
    REQUIRE(driver.set_attributes(context, nullptr) == Reply::kInvalidUsage);
    DeviceProperties properties;
    REQUIRE(driver.properties(0, &properties) == Reply::kSuccess);
    REQUIRE(properties.memory_kinds == (kHostMemory | kCudaMemory));  // nobody registers DMA-BUFs
    REQUIRE(driver.close(context) == Reply::kSuccess);
  });
}

TEST_CASE("forward: a plugin that lacks what it must have is not opened") {
  for_each_version([](auto& table, NetDriver& driver) {
    table.irecv = nullptr;
    void* context = &table;
    REQUIRE(driver.open({}, &context) == Reply::kInternalError);
    REQUIRE(context == nullptr);
    REQUIRE(journal().open_contexts.empty());
    table.init = nullptr;
    if (version_of(table) >= 11) {
      REQUIRE(driver.open({}, &context) == Reply::kInvalidUsage);
    }
  });
}

TEST_CASE("forward: replies pass through as they are") {
  for_each_version([](const auto& /*table*/, NetDriver& driver) {
    journal().init_reply = Result::kSystemError;
    void* context = &driver;
    REQUIRE(driver.open({}, &context) == Reply::kSystemError);
    REQUIRE(context == nullptr);
    journal().init_reply = static_cast<Result>(77);
    REQUIRE(driver.open({}, &context) == static_cast<Reply>(77));
    journal().init_reply = Result::kSuccess;
    open(driver);  // a later try may go well
    journal().test_reply = Result::kRemoteError;
    int32_t done = 0;
    REQUIRE(driver.test(nullptr, &done, nullptr) == Reply::kRemoteError);
    REQUIRE(done == 1);
    journal().device_count = 0;
    int32_t count = -1;
    REQUIRE(driver.device_count(&count) == Reply::kSuccess);
    REQUIRE(count == 0);
  });
}

TEST_CASE("forward: a device of several is made once, whoever asks") {
  for_each_version([](const auto& table, NetDriver& driver) {
    open(driver);
    if (version_of(table) < 9) {
      return;
    }
    const std::array<int32_t, 9> parts{0, 1, 2, 3, 4, 5, 6, 7, 8};
    int32_t first = 0;
    int32_t again = 0;
    int32_t other = 0;
    REQUIRE(driver.make_virtual_device(parts.data(), 2, &first) == Reply::kSuccess);
    REQUIRE(driver.make_virtual_device(parts.data(), 2, &again) == Reply::kSuccess);
    REQUIRE(driver.make_virtual_device(parts.data(), 4, &other) == Reply::kSuccess);
    REQUIRE(first == 102);
    REQUIRE(again == first);
    REQUIRE(other == 114);
    REQUIRE(driver.make_virtual_device(parts.data(), 9, &other) == Reply::kInvalidArgument);
    REQUIRE(count_of("makeVDevice") == 2);
  });
}

void log_of_nccl(nccl_abi::LogLevel, unsigned long, const char*, int, const char*, ...) {}
Result profiler_of_nccl(void**, int, void*, int64_t, void*) {
  return Result::kSuccess;
}

TEST_CASE("forward: NCCL's functions reach the plugin, also where a later caller has none") {
  for_each_version([](const auto& table, NetDriver& driver) {
    NetDriver::Opening opening;
    opening.host.log = reinterpret_cast<HostFunction>(&log_of_nccl);
    opening.host.profiler = reinterpret_cast<HostFunction>(&profiler_of_nccl);
    void* context = nullptr;
    REQUIRE(driver.open(opening, &context) == Reply::kSuccess);
    open(driver);
    REQUIRE(journal().log == &log_of_nccl);
    if (version_of(table) >= 10) {
      REQUIRE(journal().profiler == &profiler_of_nccl);
    }
  });
}

// What is logged from info on while this object lives.
class LogText {
 public:
  LogText()
      : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)), before_(logger().level()) {
    logger().sinks().push_back(sink_);
    logger().set_level(spdlog::level::info);
  }
  LogText(const LogText&) = delete;
  LogText& operator=(const LogText&) = delete;
  ~LogText() {
    logger().sinks().pop_back();
    logger().set_level(before_);
  }
  [[nodiscard]] std::vector<std::string> lines_with(const std::string& part) const {
    std::vector<std::string> found;
    std::istringstream lines(text_.str());
    for (std::string line; std::getline(lines, line);) {
      if (line.find(part) != std::string::npos) {
        found.push_back(line);
      }
    }
    return found;
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::sinks::sink> sink_;
  spdlog::level::level_enum before_;
};

TEST_CASE("forward: a plugin that is given no log writes into ours") {
  const LogText text;
  for_each_version([](const auto& /*table*/, NetDriver& driver) {
    open(driver);
    journal().log(nccl_abi::LogLevel::kWarn, nccl_abi::kLogNet, "f", 1, "%d of %s", 3, "four");
  });
  REQUIRE(text.lines_with("3 of four").size() == 5);
}

TEST_CASE("CollNet leaves devices alone that move GPU memory, and says so once") {
  for_each_version([](const auto& /*table*/, NetDriver& driver) {
    const LogText text;
    CollNet coll_net(driver, {});
    void* context = nullptr;
    REQUIRE(coll_net.open(1, kNoTrafficClass, &context) == Reply::kSuccess);
    int32_t count = -1;
    REQUIRE(coll_net.device_count(&count) == Reply::kSuccess);
    REQUIRE(count == 0);
    REQUIRE(coll_net.device_count(&count) == Reply::kSuccess);
    REQUIRE(count == 0);
    REQUIRE(text.lines_with("HORING_COLLNET_HOST=1 prefers CollNet").size() == 1);
    REQUIRE(text.lines_with("fake0 of Fake moves GPU memory").size() == 1);
    REQUIRE(coll_net.close(context) == Reply::kSuccess);
  });
}

TEST_CASE("CollNet on host memory, where that is wanted, says what is true of it") {
  for_each_version([](const auto& table, NetDriver& driver) {
    CollNet::Settings settings;
    settings.host_memory_wanted = true;
    CollNet coll_net(driver, settings);
    void* context = nullptr;
    REQUIRE(coll_net.open(1, kNoTrafficClass, &context) == Reply::kSuccess);
    int32_t count = -1;
    REQUIRE(coll_net.device_count(&count) == Reply::kSuccess);
    REQUIRE(count == 1);
    DeviceProperties got;
    REQUIRE(coll_net.properties(0, &got) == Reply::kSuccess);
    REQUIRE(got.name == "fake0");
    REQUIRE(got.memory_kinds == kHostMemory);
    REQUIRE_FALSE(got.registration_is_global);
    REQUIRE_FALSE(got.force_flush);
    REQUIRE(got.device_type == 0);
    REQUIRE(got.max_collective_bytes == size_t{1} << 40U);
    REQUIRE(coll_net.has_virtual_devices() == (version_of(table) >= 9));
    REQUIRE(coll_net.close(context) == Reply::kSuccess);
  });
}

}  // namespace
}  // namespace ho::plugin::forward_test
