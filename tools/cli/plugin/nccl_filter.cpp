#include "cli/plugin/nccl_filter.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "auth/printable.hpp"

namespace ho {
namespace {

constexpr nccl_abi::Version kFirstPerFunction{2, 24, 0};

struct Function {
  const char* printed;
  const char* in_settings;
  std::vector<std::string_view> algorithms;        // that go through CollNet
  std::vector<std::string_view> without_nvswitch;  // that NCCL can take on such nodes
};

const std::array<Function, 3>& functions() {
  static const std::array<Function, 3> all{
      Function{"all_reduce",
               "allreduce",
               {"collnetdirect", "collnetchain", "nvls"},
               {"tree", "ring", "collnetchain"}},
      Function{"all_gather", "allgather", {"collnetdirect", "nvls"}, {"ring", "pat"}},
      Function{"reduce_scatter", "reducescatter", {"collnetdirect", "nvls"}, {"ring", "pat"}}};
  return all;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) {
      parts.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool list_leaves(std::string_view list, std::string_view name) {
  const bool excludes = list.starts_with('^');
  const auto names = split(excludes ? list.substr(1) : list, ',');
  const bool listed = std::find(names.begin(), names.end(), name) != names.end();
  return listed != excludes;
}

// The words of all lists in the setting that are not among `known`.
std::vector<std::string> unknown_words(const std::string& setting,
                                       std::span<const std::string_view> known) {
  std::vector<std::string> unknown;
  const std::string text = lower(setting);
  for (const std::string_view part : split(text, ';')) {
    std::string_view list = part.substr(part.find(':') == part.npos ? 0 : part.find(':') + 1);
    list.remove_prefix(list.starts_with('^') ? 1 : 0);
    for (const std::string_view word : split(list, ',')) {
      if (std::find(known.begin(), known.end(), word) == known.end()) {
        unknown.emplace_back(word);
      }
    }
  }
  return unknown;
}

constexpr size_t kMaxTextBytes = 40;
// Of all releases: an algorithm that one does not have yet is no misspelling.
constexpr std::array<std::string_view, 7> kAlgorithms{
    "tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
constexpr std::array<std::string_view, 3> kProtocols{"ll", "ll128", "simple"};

void append(std::string& list, const std::string& text, const char* separator) {
  list += (list.empty() ? "" : separator) + text;
}

}  // namespace

// Where several lists are for the function the last one counts.
bool setting_leaves(const std::optional<std::string>& setting,
                    bool per_function,
                    std::string_view function,
                    std::string_view name) {
  if (!setting || setting->empty()) {
    return true;
  }
  const std::string text = lower(*setting);
  if (!per_function) {
    return list_leaves(text, name);
  }
  bool left = true;
  for (const std::string_view part : split(text, ';')) {
    const size_t colon = part.find(':');
    const bool for_all = colon == std::string_view::npos;
    if (for_all || part.substr(0, colon) == function) {
      left = list_leaves(for_all ? part : part.substr(colon + 1), name);
    }
  }
  return left;
}

NcclFilter nccl_filter(const nccl_abi::Release& release, const NcclVariables& variables) {
  NcclFilter filter;
  for (const char* const name : {"NCCL_ALGO", "NCCL_PROTO"}) {
    if (const auto value = variables(name); value && !value->empty()) {
      append(filter.names, name, " and ");
      append(filter.text, name + ("=" + *value), ", ");
      const bool algorithms = std::string_view(name) == "NCCL_ALGO";
      const auto known = algorithms ? std::span<const std::string_view>(kAlgorithms)
                                    : std::span<const std::string_view>(kProtocols);
      for (const std::string& word : unknown_words(*value, known)) {
        append(filter.unknown, "'" + printable(word, kMaxTextBytes) + "' in " + name, ", ");
      }
    }
  }
  const bool per_function = !(release.first < kFirstPerFunction);
  const auto algorithms = variables("NCCL_ALGO");
  const auto protocols = variables("NCCL_PROTO");
  for (const Function& function : functions()) {
    const auto leaves = [&](std::string_view algorithm) {
      return setting_leaves(algorithms, per_function, function.in_settings, algorithm);
    };
    const bool any = std::ranges::any_of(function.algorithms, leaves);
    if (any && std::ranges::none_of(function.without_nvswitch, leaves)) {
      append(filter.need_nvswitch, function.printed, ", ");
    }
    if (any && setting_leaves(protocols, per_function, function.in_settings, "simple")) {
      append(filter.with_coll_net, function.printed, ", ");
    }
  }
  return filter;
}

}  // namespace ho
