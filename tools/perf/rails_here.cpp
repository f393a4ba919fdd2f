#include "perf/rails_here.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

namespace ho::perf {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (const auto part = text.substr(0, comma); !part.empty()) {
      parts.push_back(part);
    }
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return parts;
}

socklen_t usable_length(const sockaddr* address) {
  if (address == nullptr) {
    return 0;
  }
  if (address->sa_family == AF_INET) {
    return sizeof(sockaddr_in);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof(v6));
    return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? 0 : sizeof(sockaddr_in6);
  }
  return 0;
}

// One address per interface, IPv4 where there is one.
void add_address(std::vector<RailAddress>& rails, const char* name, const sockaddr* address) {
  const socklen_t length = usable_length(address);
  if (length == 0) {
    return;
  }
  auto rail = std::find_if(
      rails.begin(), rails.end(), [&](const RailAddress& known) { return known.name == name; });
  if (rail == rails.end()) {
    rail = rails.insert(rails.end(), RailAddress{.name = name});
  } else if (rail->address.ss_family == AF_INET) {
    return;
  }
  std::memcpy(&rail->address, address, length);
  rail->length = length;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) {
        return a[i] < b[j];
      }
      ++i;
      ++j;
      continue;
    }
    const auto end_of_digits = [](std::string_view text, size_t from) {
      while (from < text.size() && is_digit(text[from])) {
        ++from;
      }
      return from;
    };
    const size_t i_end = end_of_digits(a, i);
    const size_t j_end = end_of_digits(b, j);
    const auto left = a.substr(i, i_end - i);
    const auto right = b.substr(j, j_end - j);
    if (left != right) {
      return left.size() != right.size() ? left.size() < right.size() : left < right;
    }
    i = i_end;
    j = j_end;
  }
  return a.size() - i < b.size() - j;
}

bool passes_filter(std::string_view name, std::string_view filter) {
  if (filter.empty()) {
    return true;
  }
  const bool exclude = filter.front() == '^';
  if (exclude) {
    filter.remove_prefix(1);
  }
  const bool exact = !filter.empty() && filter.front() == '=';
  if (exact) {
    filter.remove_prefix(1);
  }
  const auto parts = split(filter);
  const bool named = std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return exact ? name == part : name.starts_with(part);
  });
  return named != exclude;
}

std::vector<RailAddress> parse_emulated(std::string_view text) {
  std::vector<RailAddress> rails;
  for (const auto part : split(text)) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, std::string(part.substr(equals + 1)).c_str(), &address.sin_addr) != 1) {
      continue;
    }
    RailAddress rail{.name = std::string(part.substr(0, equals)), .length = sizeof(address)};
    std::memcpy(&rail.address, &address, sizeof(address));
    rails.push_back(std::move(rail));
  }
  return rails;
}

std::vector<RailAddress> rails_here(std::string_view filter, std::string_view emulated) {
  if (!emulated.empty()) {
    return parse_emulated(emulated);
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<RailAddress> rails;
  std::vector<RailAddress> loopback;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if ((entry->ifa_flags & IFF_UP) == 0 ||
        (!is_loopback && !passes_filter(entry->ifa_name, filter))) {
      continue;
    }
    add_address(is_loopback ? loopback : rails, entry->ifa_name, entry->ifa_addr);
  }
  std::sort(rails.begin(), rails.end(), [](const RailAddress& a, const RailAddress& b) {
    return natural_less(a.name, b.name);
  });
  return rails.empty() ? loopback : rails;
}

}  // namespace ho::perf
