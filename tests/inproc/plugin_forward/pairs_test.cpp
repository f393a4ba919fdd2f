// Data through our library as NCCL loads it, to another plugin: every version of ours that NCCL may
// take, with every version that the other plugin may have. Each pair is a process, since a process
// has one network.
#include <cstdlib>

#include "catch.hpp"
#include "core/forward/forward.hpp"
#include "forwarded.hpp"
#include "net_conformance.hpp"

namespace ho::plugin::forward_test {
namespace {

using conformance::check_pattern;
using conformance::End;
using conformance::Pair;
using conformance::pattern;

Status expect(bool holds, const std::string& what) {
  return holds ? Status() : Status(StatusCode::kInternal, "expected: " + what);
}

Status send_all(End& end, const std::vector<size_t>& sizes) {
  std::vector<std::vector<std::byte>> data;
  std::vector<void*> requests;
  for (size_t i = sizes.size(); i-- > 0;) {  // not in the order of the receives' tags
    data.push_back(pattern(i, sizes[i]));
    HORING_ASSIGN(void* const request,
                  end.send(data.back().data(), sizes[i], static_cast<int32_t>(i)));
    requests.push_back(request);
  }
  for (void* const request : requests) {
    HORING_TRY(end.finish(request).status());
  }
  return {};
}

Status receive_all(End& end, const std::vector<size_t>& sizes) {
  std::vector<std::vector<std::byte>> buffers(sizes.size());
  std::vector<conformance::Part> parts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    buffers[i].resize(sizes[i] + 5);
    parts.push_back({buffers[i].data(), buffers[i].size(), static_cast<int32_t>(i)});
  }
  HORING_ASSIGN(void* const request, end.receive(parts));
  HORING_ASSIGN(const auto got, end.finish(request, sizes.size()));
  HORING_TRY(expect(got == sizes, "the sizes of all messages"));
  for (size_t i = 0; i < sizes.size(); ++i) {
    HORING_TRY(check_pattern(i, buffers[i].data(), sizes[i]));
  }
  return {};
}

Status check_devices(NetDriver& net) {
  int32_t count = 0;
  HORING_TRY(conformance::as_status(net.device_count(&count), "devices"));
  HORING_TRY(expect(count == 2, "two devices"));
  for (int32_t device = 0; device < count; ++device) {
    DeviceProperties got;
    HORING_TRY(conformance::as_status(net.properties(device, &got), "getProperties"));
    HORING_TRY(expect(got.name == "loop" + std::to_string(device), "the plugin's names"));
    HORING_TRY(expect(got.speed_mbps == (device == 0 ? 10000 : 25000), "the plugin's speeds"));
    HORING_TRY(expect(got.memory_kinds == kHostMemory && got.max_recvs == 8, "its properties"));
    HORING_TRY(expect(got.parts.empty() || got.parts == std::vector<int32_t>{device},
                      "a device that consists of itself"));
  }
  return {};
}

Status move_data(NetDriver& net, bool class_arrives) {
  Pair pair(net);
  pair.opening.comm_id = 77;
  pair.opening.host.log = reinterpret_cast<HostFunction>(&log_as_nccl);
  pair.traffic_class = 104;
  HORING_TRY(pair.connect());
  HORING_TRY(expect((sockets_of_class(104) > 0) == class_arrives,
                    class_arrives ? "the traffic class on the plugin's socket"
                                  : "no traffic class on the plugin's sockets"));
  HORING_TRY(check_devices(net));
  char memory_of_ours = 0;
  void* memory = nullptr;
  HORING_TRY(conformance::as_status(
      net.register_memory(pair.send, &memory_of_ours, 1, kHostMemory, &memory), "regMr"));
  HORING_TRY(expect(memory != nullptr, "a handle of the plugin's"));
  HORING_TRY(conformance::as_status(net.deregister(pair.send, memory), "deregMr"));
  HORING_TRY(expect(net.register_memory(pair.send, &memory_of_ours, 1, kCudaMemory, &memory) ==
                        Reply::kInvalidUsage,
                    "the plugin's own reply"));
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{1'000'003}, {0}, {5, 0, 70'000, 1, 2, 3, 4, 100'000}}) {
    const std::string errors = conformance::run_both(
        [&] {
          End end(net, pair.send);
          return send_all(end, sizes);
        },
        [&] {
          End end(net, pair.receive);
          return receive_all(end, sizes);
        });
    HORING_TRY(expect(errors.empty(), errors));
  }
  return {};
}

// The plugin's table says "HO-Ring" like ours, since its code is.
Status check_line(int ours, int theirs) {
  const std::string wanted = "horing plugin: NCCL took net v" + std::to_string(ours) +
                             "; network HO-Ring (net v" + std::to_string(theirs) + " of " +
                             plugin_of(theirs) + ") on loop0 (10000 Mbit/s), loop1 (25000 Mbit/s)";
  const size_t at = reported().find(wanted);
  HORING_TRY(expect(at != std::string::npos, "'" + wanted + "' in: " + reported()));
  return expect(reported().find(wanted, at + 1) == std::string::npos,
                "one such line: " + reported());
}

std::string run_pair(int ours, int theirs) {
  ::setenv("HORING_NET_FORWARD", plugin_of(theirs).c_str(), 1);
  ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);
  auto host = forward::forward_to(our_library(), ours);
  if (!host.ok()) {
    return host.status().message();
  }
  const bool class_arrives = ours >= 10 && theirs >= 10;
  Status status = move_data(**host, class_arrives);
  if (status.ok()) {
    status = move_data(**host, class_arrives);  // another communicator
  }
  if (status.ok()) {
    status = check_line(ours, theirs);
  }
  return status.message();
}

TEST_CASE("data moves through each version of ours to each version of another plugin") {
  for (const int ours : {8, 9, 10, 11, 12}) {
    for (const int theirs : {8, 9, 10, 11, 12}) {
      INFO("NCCL took v" << ours << " of ours, the other plugin has v" << theirs);
      CHECK(in_a_process([&] { return run_pair(ours, theirs); }) == "");
    }
  }
}

// What an init of our library answers, and what it says: it succeeds where peers can be told why
// not.
std::string refusal_of(const std::string& forwarded) {
  ::setenv("HORING_NET_FORWARD", forwarded.c_str(), 1);
  ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);
  auto host = forward::forward_to(our_library());
  if (!host.ok()) {
    return host.status().message();
  }
  NetDriver::Opening opening;
  opening.host.log = reinterpret_cast<HostFunction>(&log_as_nccl);
  void* context = nullptr;
  const Reply reply = (*host)->open(opening, &context);
  return std::to_string(static_cast<int>(reply)) + ": " + reported();
}

TEST_CASE("our library does not forward to itself, nor to what is not there") {
  const auto starts = [](const std::string& text, const std::string& start) {
    INFO(text);
    return text.find(start) == 0;
  };
  const std::string ours = our_library();
  REQUIRE(starts(in_a_process([&] { return refusal_of(ours); }),
                 "0: horing plugin: not usable: HORING_NET_FORWARD=" + ours + ": " + ours +
                     " is this plugin itself"));
  REQUIRE(starts(in_a_process([] { return refusal_of("nowhere"); }),
                 "0: horing plugin: not usable: HORING_NET_FORWARD=nowhere: no such plugin"));
}

}  // namespace
}  // namespace ho::plugin::forward_test
