#include "forwarded.hpp"

namespace ho::plugin::forward_test {

std::string file_of(const std::string& name) {
  return std::string(FORWARDED_FOLDER) + "/libnccl-net-" + name + ".so";
}

std::string plugin_of(int version) {
  return file_of("loopback" + std::to_string(version));
}

std::string our_library() {
  return OUR_LIBRARY;
}

}  // namespace ho::plugin::forward_test
