#include "state_cases.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace paro::device_suite {

using ho::DType;

constexpr size_t kSpare = 64;  // behind a range: nobody writes there

// The same bytes in the device's memory and in the host's, from an address on that is a multiple of
// 64, or `shift` bytes further.
class Twin {
 public:
  Twin(DeviceStateMemory& memory, std::vector<std::byte> bytes, size_t shift = 0)
      : memory_(memory), host_(std::move(bytes)), shift_(shift) {
    host_.resize(host_.size() + kSpare, std::byte{0x5a});
    device_memory_ = static_cast<std::byte*>(memory.allocate(host_.size() + shift));
    host_memory_.resize(host_.size() + shift + kSpare);
    std::memcpy(on_host(), host_.data(), host_.size());
    memory.operations().store(host_, device_memory_ + shift);
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  ~Twin() { memory_.release(device_memory_, host_.size() + shift_); }

  template <typename T = void>
  [[nodiscard]] T* on_device() const {
    return reinterpret_cast<T*>(device_memory_ + shift_);
  }
  template <typename T = void>
  [[nodiscard]] T* on_host() {
    const auto address = std::bit_cast<uintptr_t>(host_memory_.data());
    return reinterpret_cast<T*>(host_memory_.data() + (kSpare - address % kSpare) % kSpare +
                                shift_);
  }
  void put(std::span<const std::byte> bytes) {
    std::memcpy(on_host(), bytes.data(), bytes.size());
    memory_.operations().store(bytes, on_device());
  }
  // "" or from which byte on.
  [[nodiscard]] std::string difference(const std::string& what) {
    std::vector<std::byte> device;
    memory_.operations().fetch(on_device(), host_.size(), device);
    if (const ho::Status status = memory_.operations().finish(); !status.ok()) {
      return what + ": " + status.to_string();
    }
    const auto* const want = on_host<std::byte>();
    for (size_t i = 0; i < device.size(); ++i) {
      if (device[i] != want[i]) {
        return what + ": differs from byte " + std::to_string(i) + " on";
      }
    }
    return "";
  }

 private:
  DeviceStateMemory& memory_;
  std::vector<std::byte> host_;
  std::vector<std::byte> host_memory_;
  size_t shift_;
  std::byte* device_memory_ = nullptr;
};

namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

enum class Numbers : uint8_t { kAny, kFinite };

// Every kind of pattern: subnormals, large and small numbers and, of kAny, infinities and NaN.
std::vector<std::byte> patterns(DType dtype, uint64_t count, uint64_t seed, Numbers numbers) {
  std::mt19937_64 random(seed * 977 + count);
  const size_t element = ho::size_bytes(dtype);
  std::vector<std::byte> bytes(count * element);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    const uint64_t exponent = dtype == DType::kFloat16    ? 0x7c00
                              : dtype == DType::kBfloat16 ? 0x7f80
                                                          : 0x7f800000;
    if (i % 11 == 3) {
      bits &= ~exponent;  // zero or subnormal
    } else if (numbers == Numbers::kAny && i % 97 == 5) {
      bits |= exponent;
    } else if ((bits & exponent) == exponent) {
      bits &= ~(exponent & (exponent >> 1));  // finite
    }
    if (numbers == Numbers::kFinite && i % 11 != 3) {  // near 1
      const uint64_t sign_and_mantissa = bits & ~exponent;
      bits = sign_and_mantissa | (exponent & (exponent >> 1));
    }
    std::memcpy(bytes.data() + i * element, &bits, element);
  }
  return bytes;
}

std::string dtype_text(DType dtype) {
  return std::string(ho::to_string(dtype));
}
std::string sized(const std::string& what, uint64_t count) {
  return what + " of " + std::to_string(count) + " elements";
}

constexpr uint64_t kCounts[] = {0, 1, 3, 8, 255, 4097, 70'001};

std::string moves_bytes(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  for (const uint64_t bytes : {0U, 1U, 15U, 64U, 333U, 70'001U}) {
    for (const size_t shift : {0U, 2U, 4U, 7U}) {
      Twin from(memory, patterns(DType::kFloat16, bytes, shift, Numbers::kAny), shift);
      Twin to(memory, std::vector<std::byte>(2 * bytes + 8, std::byte{3}));
      host.copy(to.on_host<std::byte>() + 1, from.on_host(), bytes);
      device.copy(to.on_device<std::byte>() + 1, from.on_device(), bytes);
      host.zero(from.on_host(), bytes);
      device.zero(from.on_device(), bytes);
      for (Twin* const twin : {&from, &to}) {
        if (auto text = twin->difference(sized("a move", bytes)); !text.empty()) {
          return text;
        }
      }
    }
  }
  return "";
}

std::string adds(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  for (const DType dtype : kTypes) {
    for (const DType sum : {DType::kFloat32, dtype}) {
      for (const uint64_t count : kCounts) {
        for (const size_t shift : {size_t{0}, ho::size_bytes(dtype)}) {
          // Of two NaN a device keeps the first one, and so does x86.
          Twin sums(memory, patterns(sum, count, 1, Numbers::kAny));
          Twin from(memory, patterns(dtype, count, 2, Numbers::kFinite), shift);
          host.add(sum, sums.on_host(), dtype, from.on_host(), count);
          device.add(sum, sums.on_device(), dtype, from.on_device(), count);
          auto text =
              sums.difference(sized(dtype_text(dtype) + " added to " + dtype_text(sum), count));
          if (!text.empty()) {
            return text;
          }
        }
      }
    }
  }
  return "";
}

std::string rounds(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  for (const DType dtype : kTypes) {
    for (const uint64_t count : kCounts) {
      Twin masters(memory, patterns(DType::kFloat32, count, 3, Numbers::kAny), 4);
      Twin rounded(memory, std::vector<std::byte>(count * 4), ho::size_bytes(dtype));
      host.round(dtype, masters.on_host<float>(), rounded.on_host(), count);
      device.round(dtype, masters.on_device<float>(), rounded.on_device(), count);
      host.round_in_place(dtype, masters.on_host(), count);
      device.round_in_place(dtype, masters.on_device(), count);
      // What is behind the results is left to chance.
      Twin both(memory, std::vector<std::byte>(count * ho::size_bytes(dtype)));
      host.copy(both.on_host(), masters.on_host(), count * ho::size_bytes(dtype));
      device.copy(both.on_device(), masters.on_device(), count * ho::size_bytes(dtype));
      for (Twin* const twin : {&rounded, &both}) {
        if (auto text = twin->difference(sized("rounded to " + dtype_text(dtype), count));
            !text.empty()) {
          return text;
        }
      }
    }
  }
  return "";
}

// Of several ranges in turn, one of them longer than a section.
std::string norms(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  for (const DType dtype : kTypes) {
    for (const Numbers numbers : {Numbers::kFinite, Numbers::kAny}) {
      Twin sums(memory, std::vector<std::byte>(sizeof(GradientSums)));
      uint64_t first_index = 0;
      const uint64_t section = uint64_t{32} * 16 * 4096;
      for (const uint64_t count :
           {uint64_t{1}, uint64_t{0}, uint64_t{4095}, uint64_t{70'001}, section + 5000}) {
        const size_t shift = ho::size_bytes(dtype);
        Twin values(memory, patterns(dtype, count, 4, numbers), shift);
        const double factor = numbers == Numbers::kFinite ? 1.0 / 3 : 1e-30;
        host.norm(
            dtype, values.on_host(), count, factor, first_index, sums.on_host<GradientSums>());
        device.norm(
            dtype, values.on_device(), count, factor, first_index, sums.on_device<GradientSums>());
        if (auto text = sums.difference(sized("the norm of " + dtype_text(dtype), count));
            !text.empty()) {
          return text;
        }
        first_index += count;
      }
      if ((sums.on_host<GradientSums>()->not_finite > 0) != (numbers == Numbers::kAny)) {
        return "the numbers are not what the case is about";
      }
    }
  }
  return "";
}

std::string decides(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  const double infinity = std::numeric_limits<double>::infinity();
  Twin control(memory, std::vector<std::byte>(sizeof(StepControl)));
  for (const double max_norm : {0.0, 0.5, 1e9}) {
    for (const GradientSums& sums : {GradientSums{2.0 / 3, 0, 0, 0},
                                     GradientSums{0, 0, 0, 0},
                                     GradientSums{1, 2, 7, 1},
                                     GradientSums{infinity, 0, 0, 0},
                                     GradientSums{std::nan(""), 0, 0, 0},
                                     GradientSums{1e300, 0, 0, 0}}) {
      StepControl now;
      std::memcpy(&now, control.on_host(), sizeof now);
      now.sums = sums;
      now.steps = now.steps * 3 + 1;
      control.put(std::as_bytes(std::span(&now, 1)));
      const StepLimits limits{1.0 / 7, max_norm, 0.9, 0.999};
      host.decide(limits, control.on_host<StepControl>());
      device.decide(limits, control.on_device<StepControl>());
      if (auto text = control.difference("the decision on a squared norm of " +
                                         std::to_string(sums.squared));
          !text.empty()) {
        return text;
      }
    }
  }
  return "";
}

std::string updates(DeviceStateMemory& memory, const Rule& rule) {
  for (const DType dtype : kTypes) {
    for (const uint64_t count : {1U, 5U, 4099U}) {
      TrainedUnit unit(memory, rule, dtype, count);
      for (uint64_t step = 0; step < 4; ++step) {
        unit.put_gradients(step, step == 2);
        unit.step();
        ho::Status status;
        const StepControl control = unit.finish(status);
        if (!status.ok()) {
          return status.to_string();
        }
        if ((control.left_out != 0) != (step == 2) ||
            control.steps != (step < 2 ? step + 1 : step)) {
          return "step " + std::to_string(step) + ": " + std::to_string(control.steps) +
                 " steps were taken";
        }
        if (auto text = unit.difference(); !text.empty()) {
          return sized(std::string(to_string(rule)) + ", " + dtype_text(dtype), count) + ", step " +
                 std::to_string(step) + ": " + text;
        }
      }
    }
  }
  return "";
}

std::string updates_by_adamw(DeviceStateMemory& memory) {
  return updates(memory, AdamW{.learning_rate = 3e-3, .weight_decay = 0.1});
}
std::string updates_by_sgd(DeviceStateMemory& memory) {
  return updates(memory, Sgd{.learning_rate = 0.1, .weight_decay = 0.01});
}
std::string updates_by_momentum(DeviceStateMemory& memory) {
  return updates(memory, Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
}

// The index of the first that is not finite, of a second range that is noted after a first one.
std::optional<uint64_t> noted(const Operations& operations,
                              DType dtype,
                              const void* values,
                              uint64_t count,
                              GradientSums* sums) {
  GradientSums found = {};
  operations.zero(sums, sizeof found);
  operations.note_not_finite(dtype, values, count, 1000, sums);
  operations.note_not_finite(dtype, values, count, 1000 + count, sums);
  operations.fetch_later(sums, std::as_writable_bytes(std::span(&found, 1)));
  return operations.finish().ok() ? first_not_finite_of(found) : std::nullopt;
}

std::string hashes_and_finds(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  const auto control = ControlMemory::make(memory);
  if (!control.ok()) {
    return control.status().message();
  }
  const ControlMemory& on_device = *control;
  GradientSums on_host = {};
  for (const DType dtype : kTypes) {
    const size_t element = ho::size_bytes(dtype);
    for (const uint64_t count : kCounts) {
      for (const size_t shift : {size_t{0}, element, 3 * element}) {
        for (const Numbers numbers : {Numbers::kAny, Numbers::kFinite}) {
          Twin values(memory, patterns(dtype, count, 6, numbers), shift);
          const std::string what = sized(dtype_text(dtype), count);
          if (device.hash(values.on_device(), count * element) !=
              host.hash(values.on_host(), count * element)) {
            return what + ": another hash";
          }
          const auto got = device.first_not_finite(dtype, values.on_device(), count);
          const auto want = host.first_not_finite(dtype, values.on_host(), count);
          if (got.has_value() != want.has_value() ||
              (want && (got->index != want->index || got->nan != want->nan))) {
            return what + ": another first number that is not finite";
          }
          if (noted(device, dtype, values.on_device(), count, on_device.own()) !=
              noted(host, dtype, values.on_host(), count, &on_host)) {
            return what + ": noted another number that is not finite";
          }
        }
      }
    }
  }
  return "";
}

std::string fetches_and_stores(DeviceStateMemory& memory) {
  const Operations& device = memory.operations();
  const HostOperations host;
  for (const DType dtype : kTypes) {
    for (const uint64_t count : kCounts) {
      const std::string what = sized(dtype_text(dtype), count);
      Twin values(memory, patterns(dtype, count, 7, Numbers::kAny), ho::size_bytes(dtype));
      std::vector<float> got(count);
      std::vector<float> want(count);
      device.fetch(dtype, values.on_device(), 0.3, got);
      host.fetch(dtype, values.on_host(), 0.3, want);
      if (count > 0 && std::memcmp(got.data(), want.data(), count * sizeof(float)) != 0) {
        return what + ": fetched another way";
      }
      std::vector<float> numbers(count);
      const auto bits = patterns(DType::kFloat32, count, 8, Numbers::kAny);
      std::ranges::copy(bits, std::as_writable_bytes(std::span(numbers)).begin());
      host.store(dtype, numbers, values.on_host());
      device.store(dtype, numbers, values.on_device());
      std::fill(numbers.begin(), numbers.end(), 0.0F);  // which it does not need any more
      if (auto text = values.difference(what + " stored"); !text.empty()) {
        return text;
      }
      std::vector<std::byte> later(count * ho::size_bytes(dtype));
      device.fetch_later(values.on_device(), later);
      device.zero(values.on_device(), later.size());  // comes after it
      if (!device.finish().ok() ||
          (count > 0 && std::memcmp(later.data(), values.on_host(), later.size()) != 0)) {
        return what + ": not there after finish()";
      }
    }
  }
  return "";
}

constexpr StateCase kCases[] = {
    {"bytes are zeroed and copied at any size and alignment", moves_bytes},
    {"gradients are added in each type, and widened", adds},
    {"fp32 is rounded to each type, and in place", rounds},
    {"norms go on from one another with the host's bits", norms},
    {"decisions have the host's bits", decides},
    {"AdamW steps have the host's bits, and one left out changes nothing", updates_by_adamw},
    {"SGD steps have the host's bits, and one left out changes nothing", updates_by_sgd},
    {"SGD steps with momentum have the host's bits", updates_by_momentum},
    {"hashes are the host's, and so is what is not finite", hashes_and_finds},
    {"what is fetched and stored is the host's", fetches_and_stores},
};

}  // namespace

std::span<const StateCase> state_cases() {
  return kCases;
}

struct TrainedUnit::Twins {
  Twins(DeviceStateMemory& memory_of_states, Rule updated_by, DType dtype, uint64_t elements)
      : memory(memory_of_states),
        rule(updated_by),
        type(dtype),
        count(elements),
        master(memory, patterns(DType::kFloat32, count, 1, Numbers::kFinite)),
        first(memory, std::vector<std::byte>(count * sizeof(float)), 4),
        second(memory, std::vector<std::byte>(count * sizeof(float))),
        sums(memory, std::vector<std::byte>(count * sizeof(float))),
        parameter(memory, std::vector<std::byte>(count * ho::size_bytes(dtype))),
        control(memory, std::vector<std::byte>(sizeof(StepControl))) {}

  // Once for each place: the same calls.
  void step(const Operations& operations, bool on_host) {
    const auto at = [on_host](Twin& twin) { return on_host ? twin.on_host() : twin.on_device(); };
    auto* const step_control = static_cast<StepControl*>(at(control));
    const StepLimits limits{0.25, 1, 0.9, 0.999};
    operations.zero(&step_control->sums, sizeof(GradientSums));
    operations.norm(DType::kFloat32, at(sums), count, 0.25, 0, &step_control->sums);
    operations.decide(limits, step_control);
    UpdatedElements elements;
    elements.master = static_cast<float*>(at(master));
    elements.rule = {static_cast<float*>(at(first)), static_cast<float*>(at(second))};
    elements.gradient = at(sums);
    elements.parameter_dtype = type;
    elements.parameter = at(parameter);
    elements.count = count;
    operations.update(rule, step_control, elements);
  }

  DeviceStateMemory& memory;
  Rule rule;
  DType type;
  uint64_t count;
  Twin master;
  Twin first;
  Twin second;
  Twin sums;
  Twin parameter;
  Twin control;
  HostOperations host;
  StepControl fetched;
};

TrainedUnit::TrainedUnit(DeviceStateMemory& memory, Rule rule, DType dtype, uint64_t elements)
    : twins_(std::make_unique<Twins>(memory, rule, dtype, elements)) {}

TrainedUnit::~TrainedUnit() = default;

// Sums of two micro-batches of the unit's type.
void TrainedUnit::put_gradients(uint64_t seed, bool left_out) {
  Twins& t = *twins_;
  const Operations& device = t.memory.operations();
  const uint64_t bytes = t.count * sizeof(float);
  t.host.zero(t.sums.on_host(), bytes);
  device.zero(t.sums.on_device(), bytes);
  for (uint64_t batch = 0; batch < 2; ++batch) {
    Twin one(t.memory, patterns(t.type, t.count, 10 * seed + batch, Numbers::kFinite));
    t.host.add(DType::kFloat32, t.sums.on_host(), t.type, one.on_host(), t.count);
    device.add(DType::kFloat32, t.sums.on_device(), t.type, one.on_device(), t.count);
  }
  if (left_out) {
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(t.sums.on_host<float>() + t.count / 2, &infinity, sizeof infinity);
    device.store(std::as_bytes(std::span(&infinity, 1)), t.sums.on_device<float>() + t.count / 2);
  }
}

void TrainedUnit::step() {
  Twins& t = *twins_;
  t.step(t.memory.operations(), false);
  t.memory.operations().fetch_later(t.control.on_device(),
                                    std::as_writable_bytes(std::span(&t.fetched, 1)));
  t.step(t.host, true);
}

StepControl TrainedUnit::finish(ho::Status& status) {
  status = twins_->memory.operations().finish();
  return twins_->fetched;
}

std::string TrainedUnit::difference() {
  Twins& t = *twins_;
  const std::pair<Twin*, const char*> all[] = {{&t.master, "master"},
                                               {&t.first, "first state"},
                                               {&t.second, "second state"},
                                               {&t.parameter, "parameter"},
                                               {&t.control, "control"}};
  for (const auto& [twin, name] : all) {
    if (auto text = twin->difference(name); !text.empty()) {
      return text;
    }
  }
  return "";
}

}  // namespace paro::device_suite
