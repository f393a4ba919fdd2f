// NCCL's variables as our env plugin answers for them, so that naming it alone turns everything on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ho::plugin {

class NcclSettings {
 public:
  // library: the path of this plugin's file, which is named as network and tuner too.
  explicit NcclSettings(std::string library) : library_(std::move(library)) {}

  // The environment's value if it is set, even to "none" or 0; otherwise our value for
  // the variables that make NCCL use this plugin; otherwise nullptr. Valid as long as this object,
  // and as the environment's own texts are. Any thread.
  [[nodiscard]] const char* value_of(const char* name) const;

 private:
  std::string library_;
};

// The loader has a file's name as it was opened. From the working folder as it is now; "" and
// null stay "".
[[nodiscard]] std::string absolute_file(const char* loaded_as);

// How the NCCL of this process searches for a tuner.
struct TunerSearch {
  std::vector<std::string> files;    // the first that opens is taken; "": the program itself
  std::vector<std::string> symbols;  // of a tuner; a file that has none of them leaves NCCL without
  bool then_network = false;         // where no file opens: the network's library, which is ours
};
// Of the loader: the file that has one of the symbols where `file` is opened, "" where none has.
// Nothing: it does not open.
using OpenTuner = std::function<std::optional<std::string>(
    const std::string& file, const std::vector<std::string>& symbols)>;

// The tuner that NCCL takes in this process: "ours", "none" or "another (libother.so)". own: this
// plugin's file.
[[nodiscard]] std::string tuner_taken(const TunerSearch& search,
                                      const OpenTuner& open,
                                      const std::string& own);
// OpenTuner of the real loader. Opens the library, as NCCL is about to.
[[nodiscard]] std::optional<std::string> open_tuner(const std::string& file,
                                                    const std::vector<std::string>& symbols);

// The file that the calling code was loaded from, as an absolute path: NCCL looks a plugin up when
// the program may be in another folder. "" where the loader does not have it.
[[nodiscard]] std::string own_library_path();

}  // namespace ho::plugin
