// Who came to a listener and was sent away, for the message of a wait that ends without whom it was
// for. Anybody can come as often as he likes, so memory is bounded. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ho {

class Refusals {
 public:
  static constexpr size_t kMaxReasons = 4;

  void note(std::string_view from, std::string_view why);
  void clear();
  // "3 connections came and were sent away: 2 times, at last 10.1.0.1: ...; 10.1.0.7: ..."; "" for
  // none.
  [[nodiscard]] std::string text() const;

 private:
  struct Reason {
    std::string why;
    std::string from;  // the last one
    uint64_t count = 0;
  };
  std::vector<Reason> reasons_;
  uint64_t others_ = 0;  // for reasons that are not kept
};

}  // namespace ho
