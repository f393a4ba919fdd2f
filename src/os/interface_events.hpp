// The kernel's word that an interface of this network namespace has changed: set down, its cable
// lost, and back (netlink's link group, which needs no privilege).
#pragma once

#include "os/fd.hpp"

namespace ho {

// Readable once something has changed, without blocking. Not valid: the kernel refuses it here, as
// in some containers.
[[nodiscard]] Fd open_interface_events();
// Reads all that there is; whether there was any. What has changed the interfaces themselves say.
bool drain_interface_events(int fd);

}  // namespace ho
