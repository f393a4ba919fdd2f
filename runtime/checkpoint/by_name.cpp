#include "checkpoint/by_name.hpp"

#include <algorithm>
#include <set>

#include "checkpoint/json.hpp"
#include "checkpoint/part_file.hpp"
#include "optim/gradients.hpp"

namespace paro::checkpoint {

ho::Status ByName::refuse(const std::string& what) const {
  return ho::invalid(reader_->folder().string() + ": " + what);
}

ho::Result<ByName> ByName::make(const Reader& reader,
                                const std::vector<NamedTensor>& tensors,
                                const std::vector<UnitShape>& units) {
  ByName by_name(reader);
  Manifest model;
  model.units = units;
  model.tensors = tensors;
  for (const ho::Status& status : {check(model), check_names(model)}) {
    if (!status.ok()) {
      return ho::invalid("paro_load_options: " + status.message());
    }
  }
  std::map<std::string, const NamedTensor*> saved;
  for (const NamedTensor& tensor : reader.manifest().tensors) {
    if (!saved.emplace(tensor.name, &tensor).second) {
      return by_name.refuse("it has two tensors called " + escaped(tensor.name));
    }
  }
  for (const NamedTensor& tensor : tensors) {
    const auto found = saved.find(tensor.name);
    if (found == saved.end()) {
      return by_name.refuse("it has no tensor " + escaped(tensor.name) + ", which this model has");
    }
    if (found->second->count() != tensor.count()) {
      return by_name.refuse("its tensor " + escaped(tensor.name) + " has " +
                            std::to_string(found->second->count()) +
                            " elements, this model's has " + std::to_string(tensor.count()));
    }
    const Range range{tensor.first_element, tensor.first_element + tensor.count()};
    if (range.count() > 0) {
      by_name.ranges_[{tensor.unit, tensor.frozen}].push_back({range, *found->second});
    }
  }
  HORING_TRY(by_name.check_coverage(units));
  return by_name;
}

ho::Status ByName::check_coverage(const std::vector<UnitShape>& units) {
  for (uint32_t u = 0; u < units.size(); ++u) {
    for (const bool frozen : {false, true}) {
      std::vector<SavedRange>& saved_ranges = ranges_[{u, frozen}];
      std::sort(
          saved_ranges.begin(), saved_ranges.end(), [](const SavedRange& a, const SavedRange& b) {
            return a.range.begin < b.range.begin;
          });
      uint64_t next = 0;
      for (const SavedRange& saved_range : saved_ranges) {
        if (saved_range.range.begin != next) {
          break;
        }
        next = saved_range.range.end;
      }
      if (next != (frozen ? units[u].frozen : units[u].trained)) {
        return ho::invalid("paro_load_options: " + std::string(frozen ? "frozen" : "trained") +
                           " element " + std::to_string(next) + " of unit " + std::to_string(u) +
                           " (" + units[u].name + ") is in no tensor, or in two");
      }
    }
  }
  return {};
}

ho::Status ByName::read_saved(const NamedTensor& saved,
                              const std::string& state,
                              uint64_t offset,
                              std::span<float> to) const {
  const bool value = state == "master" || state == kFrozen;
  if (saved.frozen && !value) {
    std::fill(to.begin(), to.end(), 0.0F);
    return {};
  }
  const std::string source = saved.frozen ? kFrozen : (value ? "master" : state);
  const ho::DType dtype = reader_->dtype_of(source);
  std::vector<std::byte> bytes(to.size() * ho::size_bytes(dtype));
  const uint64_t first = saved.first_element + offset;
  HORING_TRY(reader_->read(saved.unit, source, {first, first + to.size()}, bytes));
  unscale(dtype, bytes.data(), 1, to);
  return {};
}

ho::Result<std::vector<float>> ByName::read(uint32_t unit,
                                            const std::string& state,
                                            const std::vector<Range>& ranges) const {
  const std::vector<SavedRange>& saved_ranges = ranges_.at({unit, state == kFrozen});
  std::vector<float> values;
  for (const Range& range : ranges) {
    for (const SavedRange& saved_range : saved_ranges) {
      const uint64_t begin = std::max(range.begin, saved_range.range.begin);
      const uint64_t end = std::min(range.end, saved_range.range.end);
      if (begin >= end) {
        continue;
      }
      const size_t before = values.size();
      values.resize(before + (end - begin));
      HORING_TRY(read_saved(saved_range.saved,
                            state,
                            begin - saved_range.range.begin,
                            std::span<float>(values).subspan(before)));
    }
  }
  return values;
}

}  // namespace paro::checkpoint
