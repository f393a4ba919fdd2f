// NCCL's variables as our env plugin answers for them, so that naming it alone turns everything on.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ho::plugin {

class NcclSettings {
 public:
  // library: the path of this plugin's file, which is named as network and tuner too.
  explicit NcclSettings(std::string library) : library_(std::move(library)) {}

  // What the environment says, where it says something, be it "none" or 0; otherwise our value for
  // the variables that make NCCL use this plugin; otherwise nullptr. Valid as long as this object,
  // and as the environment's own texts are. Any thread.
  [[nodiscard]] const char* value_of(const char* name) const;

 private:
  std::string library_;
};

// The loader names a file as whoever opened it did. From the working folder as it is now; "" and
// null stay "".
[[nodiscard]] std::string absolute_file(const char* loaded_as);

// The tuner that NCCL takes in this process: "ours", "none" or "another (libother.so)". setting: of
// NCCL_TUNER_PLUGIN, as NCCL sees it. file_of: the file that the loader opens by that name, "" for
// none. own: this plugin's file, where NCCL looks when it finds no other.
[[nodiscard]] std::string tuner_taken(const std::optional<std::string>& setting,
                                      const std::function<std::string(const std::string&)>& file_of,
                                      const std::string& own);
// file_of() of the real loader. Opens the library, as NCCL is about to.
[[nodiscard]] std::string file_opened_by(const std::string& name);

// The file that the calling code was loaded from, as an absolute path: NCCL looks a plugin up when
// the program may be in another folder. "" where the loader does not know.
[[nodiscard]] std::string own_library_path();

}  // namespace ho::plugin
