#include "topo/nccl_topology.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/quantity.hpp"
#include "topo/address.hpp"
#include "topo/xml_scan.hpp"

namespace ho {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr size_t kDigitsPerWord = 8;
constexpr uint32_t kBitsPerDigit = 4;
constexpr size_t kMaxAffinityDigits = 16384;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

bool is_hex(std::string_view text, size_t least, size_t most) {
  return text.size() >= least && text.size() <= most &&
         text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

// "0000:3b:00.0" of that or of a longer domain; nothing for what is no PCI name.
std::optional<std::string> bus_id(std::string_view text) {
  constexpr size_t kAfterDomain = 8;  // ":3b:00.0"
  const std::string name = lower(text);
  if (name.size() <= kAfterDomain) {
    return std::nullopt;
  }
  const std::string_view location = std::string_view(name).substr(name.size() - kAfterDomain);
  std::string domain = name.substr(0, name.size() - kAfterDomain);
  const bool formed = location[0] == ':' && location[3] == ':' && location[6] == '.' &&
                      is_hex(location.substr(1, 2), 2, 2) && is_hex(location.substr(4, 2), 2, 2) &&
                      is_hex(location.substr(7, 1), 1, 1) && is_hex(domain, 4, kDigitsPerWord);
  if (!formed) {
    return std::nullopt;
  }
  while (domain.size() > 4 && domain.front() == '0') {
    domain.erase(0, 1);
  }
  return domain + std::string(location);
}

// "0000ffff,0000ffff": words of 32 CPUs, the last ones first.
std::optional<std::vector<uint32_t>> cpus_of(std::string_view affinity) {
  std::string digits;
  while (!affinity.empty()) {
    const std::string word = lower(take_until(affinity, ','));
    if (!is_hex(word, 1, kDigitsPerWord) || digits.size() >= kMaxAffinityDigits) {
      return std::nullopt;
    }
    digits += std::string(kDigitsPerWord - word.size(), '0') + word;
  }
  std::vector<uint32_t> cpus;
  for (size_t i = 0; i < digits.size(); ++i) {
    const auto value = static_cast<uint32_t>(kHexDigits.find(digits[digits.size() - 1 - i]));
    for (uint32_t bit = 0; bit < kBitsPerDigit; ++bit) {
      if ((value >> bit & 1U) != 0) {
        cpus.push_back(static_cast<uint32_t>(i) * kBitsPerDigit + bit);
      }
    }
  }
  return cpus;
}

class Reader {
 public:
  std::optional<std::string> open(const XmlElement& element) {
    open_.push_back(open_.empty() ? Location{} : open_.back());
    Location& location = open_.back();
    location.own_pci = false;
    if (element.name == "system") {
      return open_system(element);
    }
    if (element.name == "cpu") {
      return open_cpu(element, location);
    }
    if (element.name == "pci") {
      return open_pci(element, location);
    }
    if (element.name == "gpu") {
      add_gpu(element.attribute("dev").value_or(""), location);
    } else if (element.name == "net") {
      return add_net(element, location);
    }
    return std::nullopt;
  }

  // What a <pci> is shows in what it has in it, or by its class where that is nothing.
  void close() {
    const Location location = std::move(open_.back());
    open_.pop_back();
    if (!location.own_pci || location.pci == last_device_) {
      return;
    }
    if (location.is_gpu) {
      add_gpu("", location);
    } else if (location.is_nic) {
      add_interface(location.pci, 0, location);
    }
  }

  Topology take() && {
    std::ranges::sort(topology_.gpus, [](const auto& a, const auto& b) { return a.pci < b.pci; });
    auto& interfaces = topology_.interfaces;
    std::ranges::sort(interfaces,
                      [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
    return std::move(topology_);
  }

 private:
  // Where in the file the scan is.
  struct Location {
    int32_t numa_node = -1;
    std::vector<std::string> bridges;  // the <cpu> first, then each <pci> around this one
    std::string pci;                   // the innermost <pci>
    bool own_pci = false;              // this element is that
    bool is_gpu = false;               // by its class, as is_nic
    bool is_nic = false;
  };

  static std::optional<std::string> open_system(const XmlElement& element) {
    const std::string_view version = element.attribute("version").value_or("");
    return version == "1"
               ? std::nullopt
               : std::optional("NCCL's topology files have version=\"1\", and this one '" +
                               std::string(version.substr(0, 40)) + "'");
  }

  std::optional<std::string> open_cpu(const XmlElement& element, Location& location) {
    const auto node = whole_number<int32_t>(element.attribute("numaid").value_or(""));
    const auto cpus = cpus_of(element.attribute("affinity").value_or(""));
    if (!node || *node < -1 || !cpus) {
      return "<cpu> has no valid numaid and affinity";
    }
    const std::string host(element.attribute("host_hash").value_or(""));
    if (topology_.cpu_count > 0 && host != host_) {
      return "<cpu> is of another host than the ones before it, and a topology is of one host";
    }
    host_ = host;
    location.numa_node = *node;
    location.bridges = {"cpu" + std::to_string(*node)};
    topology_.cpu_count += static_cast<uint32_t>(cpus->size());
    if (*node >= 0) {
      topology_.numa_nodes.push_back({static_cast<uint32_t>(*node), 0, *cpus});
    }
    return std::nullopt;
  }

  static std::optional<std::string> open_pci(const XmlElement& element, Location& location) {
    const std::string_view text = element.attribute("busid").value_or("");
    const auto name = bus_id(text);
    if (!name) {
      return "<pci> has the busid '" + std::string(text.substr(0, 40)) +
             "', which is no PCI name such as 0000:3b:00.0";
    }
    if (!location.pci.empty()) {
      location.bridges.push_back(location.pci);
    }
    const std::string_view kind = element.attribute("class").value_or("");
    const std::string vendor = lower(element.attribute("vendor").value_or(""));
    const bool makes_gpus = vendor.empty() || vendor == "0x10de" || vendor == "0x1002";
    location.pci = *name;
    location.own_pci = true;
    location.is_gpu = kind.starts_with("0x03") && makes_gpus;
    location.is_nic = kind.starts_with("0x02");
    return std::nullopt;
  }

  void add_gpu(std::string_view number, const Location& location) {
    // NCCL's number is the one of NVIDIA's management library.
    topology_.gpus.push_back({number.empty() ? location.pci : "nvml" + std::string(number),
                              location.pci,
                              location.numa_node,
                              location.bridges});
    last_device_ = location.pci;
  }

  std::optional<std::string> add_net(const XmlElement& element, const Location& location) {
    const std::string_view name = element.attribute("name").value_or("");
    const auto speed = whole_number<uint64_t>(element.attribute("speed").value_or("0"));
    if (name.empty() || !speed) {
      return "<net> has no name, or a speed that is no whole number of Mbit/s";
    }
    add_interface(std::string(name), *speed, location);
    return std::nullopt;
  }

  void add_interface(const std::string& name, uint64_t speed_mbit, const Location& location) {
    NetworkInterface interface;
    interface.name = name;
    interface.pci = location.pci;
    interface.numa_node = location.numa_node;
    interface.pci_path = location.bridges;
    interface.speed_mbit = speed_mbit;
    interface.operstate = "unknown";  // NCCL does not store it
    topology_.interfaces.push_back(std::move(interface));
    last_device_ = location.pci;
  }

  Topology topology_;
  std::vector<Location> open_;
  std::string host_;         // of all <cpu>, where NCCL says it
  std::string last_device_;  // the <pci> that was found to be one
};

}  // namespace

Result<Topology> read_nccl_topology(std::string_view text) {
  Reader reader;
  const auto fault = scan_xml(
      text,
      "system",
      [&](const XmlElement& element) { return reader.open(element); },
      [&] { reader.close(); });
  if (fault) {
    return invalid(*fault);
  }
  return std::move(reader).take();
}

}  // namespace ho
