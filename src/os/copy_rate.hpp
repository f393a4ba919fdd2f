// Which way of moving a large payload between two processes of this host is faster here: one copy
// by the kernel (process_vm_readv, which looks up and pins every page) or two copies through a
// small ring that stays in cache. It depends on kernel and virtualisation by factors, so it is
// measured.
#pragma once

namespace ho {

// Takes about a millisecond. false also where the kernel forbids the single copy.
[[nodiscard]] bool single_copy_is_faster();

}  // namespace ho
