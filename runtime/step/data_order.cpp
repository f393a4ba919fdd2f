#include "step/data_order.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "step/accesses.hpp"

namespace paro {
namespace {

struct Users {
  StepActionNumber writer = kNoAction;
  std::vector<StepActionNumber> readers{};  // since
};

}  // namespace

DataOrder::DataOrder(const StepPlan& plan) : plan_(plan) {
  std::array<StepActionNumber, kTrackCount> last{};
  last.fill(kNoAction);
  before_.assign(2 * plan.actions.size(), last);
  std::map<Buffer, Users> users_of;
  const auto accesses = accesses_of(plan);
  for (StepActionNumber at = 0; at < size(); ++at) {
    come_after(at, std::exchange(last[track_of(at)], at));
    for (const Access& access : accesses[at % plan.actions.size()]) {
      Users& users = users_of[access.buffer];
      come_after(at, users.writer);
      if (!access.writes) {
        users.readers.push_back(at);
        continue;
      }
      for (const StepActionNumber reader : users.readers) {
        come_after(at, reader);
      }
      users = {at};
    }
  }
}

void DataOrder::come_after(StepActionNumber at, StepActionNumber earlier) {
  if (earlier == kNoAction || earlier == at) {
    return;
  }
  StepActionNumber& last = before_[at][track_of(earlier)];
  last = last == kNoAction ? earlier : std::max(last, earlier);
}

}  // namespace paro
