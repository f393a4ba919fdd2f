// hwloc 2.9 expects that objects with CPUs have all four of their sets and crashes if one is
// missing, so this is checked here.
#include "topo/xml_shape.hpp"

#include "topo/xml_scan.hpp"

namespace ho {
namespace {

// "0x000000ff", "0x3,0xffffffff"
bool is_set(std::string_view value) {
  return value.starts_with("0x") &&
         value.find_first_not_of("0123456789abcdefABCDEFx,.") == std::string_view::npos;
}

std::optional<std::string> object_fault(const XmlElement& object) {
  const std::string_view type = object.attribute("type").value_or("");
  if (type == "Bridge" || type == "PCIDev" || type == "OSDev" || type == "Misc") {
    return std::nullopt;  // devices have no sets
  }
  for (const char* set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
    if (!is_set(object.attribute(set).value_or(""))) {
      return "the object of type '" + std::string(type.substr(0, 40)) + "' has no valid " + set;
    }
  }
  for (const char* set : {"allowed_cpuset", "allowed_nodeset"}) {
    if (!is_set(object.attribute(set).value_or("0x1"))) {
      return std::string(set) + " is not valid";
    }
  }
  return std::nullopt;
}

std::optional<std::string> version_fault(const XmlElement& topology) {
  const std::string_view version = topology.attribute("version").value_or("");
  if (version.starts_with("2.")) {
    return std::nullopt;
  }
  const std::string how = version.starts_with("3.")
                              ? "; of hwloc 3, `lstopo --of xml --export-xml-flags V2 FILE` does"
                              : "";
  return "<topology> is not of version 2, which `lstopo --of xml FILE` of hwloc 2 writes" + how;
}

std::optional<std::string> element_fault(const XmlElement& element) {
  if (element.name == "object") {
    return object_fault(element);
  }
  return element.name == "topology" ? version_fault(element) : std::nullopt;
}

}  // namespace

std::optional<std::string> xml_fault(std::string_view text) {
  return scan_xml(text, "topology", element_fault, [] {});
}

}  // namespace ho
