// What ranks answer `horing status`, also those of other hosts: the lines of the one that was asked
// for them, and each report in all that is printed of it.
#include "cli/status/metrics.hpp"
#include "fuzz.hpp"
#include "status/others.hpp"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<ho::RankReply> replies{
      {{1, 0, 2}, 2, ho::RankAnswer::kAnswered, text},
      {{1, 1, 0}, 0, ho::RankAnswer::kAnswered, text, true},
      {{1, 2, 3}, 3, ho::RankAnswer::kAnswered, text},
  };
  if (const auto line = ho::parse_other_rank(text)) {
    replies[1].answer = line->second;
  }
  const ho::JobView view = ho::view_of(replies);
  fuzz::require(!ho::job_table(view, &view).empty());
  fuzz::require(!ho::job_json(view).empty());
  fuzz::require(!ho::metrics_text({view}).empty());
  return 0;
}
