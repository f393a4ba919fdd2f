// Runs a program to which the kernel says nothing of links that change, as in a sandbox.
//
// usage: without_link_events PROGRAM [ARGUMENT..]
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace {

// Lower half of an argument of the call, in little endian.
constexpr uint32_t argument(uint32_t index) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * index;
}

// Netlink sockets that do not block: what asks for addresses (getifaddrs) blocks, and stays.
bool refuse_link_events() {
  std::array<sock_filter, 8> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument(1)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SOCK_NONBLOCK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: without_link_events PROGRAM [ARGUMENT..]\n", stderr);
    return 2;
  }
  if (!refuse_link_events()) {
    std::perror("without_link_events: seccomp");
    return 1;
  }
  if (::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE) >= 0 || errno != EPERM) {
    std::fputs("without_link_events: the kernel refuses no link events\n", stderr);
    return 1;
  }
  ::execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 127;
}
