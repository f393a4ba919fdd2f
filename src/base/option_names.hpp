// How messages name options: as a command line has them, or as the keys of a request in JSON. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace ho {

class OptionNames {
 public:
  static OptionNames as_keys() {
    OptionNames names;
    names.keys_ = true;
    return names;
  }
  [[nodiscard]] bool are_keys() const { return keys_; }

  // Of "micro-batch": "--micro-batch", or "micro_batch".
  [[nodiscard]] std::string operator()(std::string_view name) const {
    if (!keys_) {
      return "--" + std::string(name);
    }
    std::string key(name);
    std::replace(key.begin(), key.end(), '-', '_');
    return key;
  }

 private:
  bool keys_ = false;
};

}  // namespace ho
