#include "optim/bounds.hpp"

#include <cmath>
#include <sstream>

namespace paro {

ho::Status check_bounds(std::string_view owner,
                        std::string_view name,
                        double value,
                        const Bounds& bounds) {
  const bool above = bounds.least_excluded ? value > bounds.least : value >= bounds.least;
  const bool below = bounds.most_excluded ? value < bounds.most : value <= bounds.most;
  if (std::isfinite(value) && above && below) {
    return {};
  }
  std::ostringstream text;
  text.precision(17);  // a value just outside does not print as the bound
  text << owner << ": " << name << " is " << value;
  text.precision(8);
  text << "; allowed is " << (bounds.least_excluded ? '(' : '[') << bounds.least << ", "
       << bounds.most << (bounds.most_excluded ? ')' : ']');
  return ho::invalid(text.str());
}

}  // namespace paro
