// A device and what belongs to it: owners of its primary context, streams, events and memory.
// Nothing here waits for the device but destructors, which belong to teardown. Making and freeing
// memory, streams and modules may wait inside the driver: set-up and teardown only.
//
// "The context is current" means: a CurrentContext of the device exists on the calling thread. What
// does not say so needs none. Errors name the call and the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/owned.hpp"
#include "base/status.hpp"
#include "device/driver.hpp"

namespace ho::device {

// What the driver says of a device without a context on it.
struct DeviceFacts {
  int ordinal = 0;         // as this process sees it: CUDA_VISIBLE_DEVICES chooses and orders
  std::string name;        // "NVIDIA H100 80GB HBM3"
  std::string pci_bus_id;  // "0000:3b:00.0"
  std::string uuid;        // "GPU-3f0a..." in 36 characters; slices of one GPU (MIG) have their own
  size_t memory_bytes = 0;
};
// How many devices this process sees.
[[nodiscard]] Result<int> device_count(const Driver& driver);
// kInvalidArgument: there is no such device. kUnsupported: there is none at all.
[[nodiscard]] Result<DeviceFacts> device_facts(const Driver& driver, int ordinal);
// The device of the rank with this number among those of its host: ranks beyond the devices begin
// again with the first. kUnsupported where no device is visible.
[[nodiscard]] Result<int> device_of_local_rank(const Driver& driver, uint32_t local_rank);

// Holds the primary context: the one that the CUDA runtime, and so torch, uses.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // The table must outlive the device. The errors are device_facts()'.
  [[nodiscard]] static Result<std::shared_ptr<Device>> open(const Driver& driver, int ordinal);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] int ordinal() const { return facts_.ordinal; }
  [[nodiscard]] const std::string& name() const { return facts_.name; }
  [[nodiscard]] const std::string& pci_bus_id() const { return facts_.pci_bus_id; }
  [[nodiscard]] size_t memory_bytes() const { return facts_.memory_bytes; }
  [[nodiscard]] ContextHandle context() const { return context_; }
  // Status of a call's result: ok, or "device 1: cuMemcpyAsync: ...".
  [[nodiscard]] Status check(std::string_view call, DriverResult result) const;
  // The host is about to read or write pinned memory that work of the device has written or read.
  // For drivers of tests, which compare that with the order of the work.
  void host_reads(std::span<const std::byte> bytes) const {
    if (driver_.host_reads != nullptr) {
      driver_.host_reads(bytes.data(), bytes.size());
    }
  }
  void host_writes(std::span<const std::byte> bytes) const {
    if (driver_.host_writes != nullptr) {
      driver_.host_writes(bytes.data(), bytes.size());
    }
  }
  // Work on the device does not end: to give anything of it back would wait for that for ever. So
  // nothing is, from now on, by no Device of the same context; the log says why, and at the end of
  // each how many bytes. Any thread.
  void leave_behind(const Status& why) const;
  [[nodiscard]] bool is_left_behind() const { return *left_behind_; }
  // For what gives `bytes` of memory back: whether they are left behind.
  [[nodiscard]] bool leaves(size_t bytes) const;

 private:
  Device(const Driver& driver, Ordinal handle, DeviceFacts facts)
      : driver_(driver), handle_(handle), facts_(std::move(facts)) {}
  friend Result<bool> enable_access(const Device& device, const Device& peer);

  const Driver& driver_;
  const Ordinal handle_;
  const DeviceFacts facts_;
  ContextHandle context_ = nullptr;
  std::atomic<bool>* left_behind_ = nullptr;  // of the context, for all its devices
  mutable std::atomic<size_t> left_bytes_ = 0;
};

// Lets copies and kernels of the device reach the peer's memory without the host, to the end of
// the process. False where they cannot.
[[nodiscard]] Result<bool> enable_access(const Device& device, const Device& peer);

// While it lives, what this thread asks of the driver is no reason to refuse it, and to spoil what
// another thread captures into a graph: in the usual mode of captures (torch's too) a look at an
// event, or an allocation, by any thread of the process does both. Calls on a stream that is being
// captured are refused as ever. The last made ends first, on the thread that made it.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  RelaxedCapture(RelaxedCapture&& other) noexcept;
  RelaxedCapture& operator=(RelaxedCapture&&) = delete;
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  const Driver* driver_;  // null: moved from, or the driver has not changed the mode
  int before_ = kCaptureModeRelaxed;
};

// Makes the device's context this thread's for as long as it lives, with a RelaxedCapture. The last
// made ends first, on the thread that made it.
class CurrentContext {
 public:
  [[nodiscard]] static Result<CurrentContext> enter(const Device& device);
  CurrentContext(CurrentContext&& other) noexcept;
  CurrentContext& operator=(CurrentContext&&) = delete;
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  explicit CurrentContext(const Driver& driver) : driver_(&driver), relaxed_(driver) {}
  const Driver* driver_;  // null: moved from
  RelaxedCapture relaxed_;
};

// Of the end of what belongs to a device, where nobody is left to tell: logs an error.
void log_failure(const Status& status);

// Without timing: all that is asked of one is whether it has passed.
class Event {
 public:
  [[nodiscard]] static Result<Event> create(const Device& device);
  [[nodiscard]] EventHandle handle() const { return event_->handle; }
  // Stands for all that the stream was given so far. The stream is one of this device; the context
  // is current.
  [[nodiscard]] Status record(StreamHandle stream) const;
  // Whether what the last record stands for is done. True before the first one. The context is
  // current.
  [[nodiscard]] Result<bool> passed() const;

 private:
  struct Resource {
    std::shared_ptr<const Device> device;
    EventHandle handle;
    void release() const noexcept;
  };
  explicit Event(Resource event) : event_(std::move(event)) {}
  Owned<Resource> event_;
};

// Independent of the default stream, and of the greatest priority. What it is given runs in order,
// after the call has returned. Its end waits for that.
class Stream {
 public:
  [[nodiscard]] static Result<Stream> create(const Device& device);
  [[nodiscard]] StreamHandle handle() const { return stream_->handle; }
  // For each of these the context is current.
  // Both are device memory, of any device, or pinned. Pageable memory would be copied at once.
  [[nodiscard]] Status copy(void* to, const void* from, size_t bytes) const;
  // What follows waits for what the event's last record stands for. The event may be another
  // device's.
  [[nodiscard]] Status wait(const Event& event) const;
  [[nodiscard]] Status wait(EventHandle event) const;
  // Called on a thread of the driver, after what was given before. It must not block, and not call
  // the driver.
  [[nodiscard]] Status call_on_host(HostFunction function, void* argument) const;

 private:
  struct Resource {
    std::shared_ptr<const Device> device;
    StreamHandle handle;
    void release() const noexcept;
  };
  explicit Stream(Resource stream) : stream_(std::move(stream)) {}
  Owned<Resource> stream_;
};

// Host memory that devices reach at the same address, all of them. Zeroed. When it goes nothing
// uses it any more, as with DeviceMemory.
class PinnedMemory {
 public:
  PinnedMemory() = default;  // of no bytes
  [[nodiscard]] static Result<PinnedMemory> create(const Device& device, size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const {
    return memory_ ? memory_->bytes : std::span<std::byte>();
  }

 private:
  struct Resource {
    std::shared_ptr<const Device> device;
    std::span<std::byte> bytes;
    void release() const noexcept;
  };
  explicit PinnedMemory(Resource memory) : memory_(std::move(memory)) {}
  Owned<Resource> memory_;
};

// Memory of the device. Not zeroed.
class DeviceMemory {
 public:
  DeviceMemory() = default;  // of no bytes
  [[nodiscard]] static Result<DeviceMemory> create(const Device& device, size_t bytes);
  [[nodiscard]] DeviceAddress address() const { return memory_ ? memory_->address : 0; }
  // The same as a pointer, for calls that take either kind of memory. The host must not read it.
  [[nodiscard]] void* pointer() const;
  [[nodiscard]] size_t size() const { return memory_ ? memory_->size : 0; }

 private:
  struct Resource {
    std::shared_ptr<const Device> device;
    DeviceAddress address;
    size_t size;
    void release() const noexcept;
  };
  explicit DeviceMemory(Resource memory) : memory_(std::move(memory)) {}
  Owned<Resource> memory_;
};

// What the driver knows about a pointer.
struct PointerFacts {
  enum class Kind : uint8_t { kPageable, kPinned, kDevice, kManaged };
  Kind kind = Kind::kPageable;
  int ordinal = -1;        // kDevice: whose memory it is
  DeviceAddress base = 0;  // kDevice: of the allocation that it lies in, and how long that is
  size_t bytes = 0;
  // kDevice: not of cudaMalloc. It may be one of several that were mapped one after the other, as
  // torch's expandable segments are, and then base and bytes are those of this one.
  bool mapped = false;
};
// Of freed device memory, of which the driver knows nothing any more: kPageable, like ordinary
// memory.
[[nodiscard]] Result<PointerFacts> facts_of(const Device& device, const void* pointer);
// How many bytes from the pointer on are memory of its device, of which these are the facts: up to
// the end of the allocation or, of mapped memory, of the last one of those that follow each other.
// It does not look further than `wanted`.
[[nodiscard]] Result<size_t> bytes_from(const Device& device,
                                        const void* pointer,
                                        const PointerFacts& facts,
                                        size_t wanted);

// Makes ordinary memory of the program's own pinned memory, and ordinary again.
[[nodiscard]] Status pin(const Device& device, void* memory, size_t bytes);
[[nodiscard]] Status unpin(const Device& device, void* memory);

// Whether work of this device may be ordered against the stream: kInvalidArgument for a stream of
// another context, kUnsupported for one that is captured into a graph. Null is the default stream.
[[nodiscard]] Status check_stream(const Device& device, StreamHandle stream);
// The second part alone, of a stream of any device.
[[nodiscard]] Status check_not_captured(const Device& device, StreamHandle stream);

}  // namespace ho::device
