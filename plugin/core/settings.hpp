// NCCL's variables as our env plugin answers for them, so that naming it alone turns everything on.
#pragma once

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

// The file that the calling code was loaded from, as an absolute path: NCCL looks a plugin up when
// the program may be in another folder. "" where the loader does not know.
[[nodiscard]] std::string own_library_path();

}  // namespace ho::plugin
