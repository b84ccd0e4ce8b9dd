#include "cli/sandbox/seccomp.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <type_traits>

#include "base/os/kernel.h"
#include "base/os/system_error.h"
#include "base/text.h"
#include "fs/fuse/passthrough.h"

namespace weightfs::sandbox {
namespace {

// Permitted with any arguments; docs/security.md has the reason of each group, and a test compares the two. Landlock
// restricts file access; calls that it does not restrict, such as chmod, are not listed.
constexpr int kAllowed[] = {
    // Bytes of open files.
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(preadv2), SCMP_SYS(write), SCMP_SYS(pwrite64), SCMP_SYS(writev),
    SCMP_SYS(lseek), SCMP_SYS(fallocate), SCMP_SYS(ftruncate), SCMP_SYS(fsync), SCMP_SYS(syncfs), SCMP_SYS(fadvise64),
    SCMP_SYS(flock),
    // Descriptors.
    SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(pipe2), SCMP_SYS(eventfd2),
    SCMP_SYS(memfd_create), SCMP_SYS(poll), SCMP_SYS(ppoll),
    // Names of files.
    SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs),
    SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getdents64), SCMP_SYS(getcwd), SCMP_SYS(getxattr), SCMP_SYS(fgetxattr),
    SCMP_SYS(chdir),
    // Files of the cache and of an export.
    SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(unlinkat), SCMP_SYS(renameat), SCMP_SYS(symlinkat),
    // Memory.
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
    // Threads.
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(exit), SCMP_SYS(exit_group),
    SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    // Signals, and the end of the broker.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(restart_syscall), SCMP_SYS(wait4), SCMP_SYS(setsid),
    // The process and the machine.
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(getrandom),
    // Time.
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(clock_nanosleep),
    // Open sockets; socket(2), setsockopt(2) and sendmsg(2) are restricted below.
    SCMP_SYS(connect), SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(shutdown),
    SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(getsockopt)};

// Directories that are followed. Landlock does not restrict watches.
constexpr int kWatching[] = {SCMP_SYS(inotify_init1), SCMP_SYS(inotify_add_watch), SCMP_SYS(inotify_rm_watch)};

// For an HTTP server, whose sockets listen already.
constexpr int kServing[] = {SCMP_SYS(accept4),    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl),
                            SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),   SCMP_SYS(sendfile)};

// Fail with EPERM, as without the privilege, instead of ENOSYS.
constexpr int kRefused[] = {SCMP_SYS(execve),
                            SCMP_SYS(execveat),
                            SCMP_SYS(fork),
                            SCMP_SYS(vfork),
                            SCMP_SYS(ptrace),
                            SCMP_SYS(process_vm_readv),
                            SCMP_SYS(process_vm_writev),
                            SCMP_SYS(mount),
                            SCMP_SYS(umount2),
                            SCMP_SYS(open_tree),
                            SCMP_SYS(move_mount),
                            SCMP_SYS(fsopen),
                            SCMP_SYS(fsmount),
                            SCMP_SYS(fsconfig),
                            SCMP_SYS(fspick),
                            SCMP_SYS(mount_setattr),
                            SCMP_SYS(pivot_root),
                            SCMP_SYS(chroot),
                            SCMP_SYS(setns),
                            SCMP_SYS(bpf),
                            SCMP_SYS(perf_event_open),
                            SCMP_SYS(userfaultfd),
                            SCMP_SYS(io_uring_setup),
                            SCMP_SYS(io_uring_enter),
                            SCMP_SYS(io_uring_register),
                            SCMP_SYS(keyctl),
                            SCMP_SYS(add_key),
                            SCMP_SYS(request_key),
                            SCMP_SYS(init_module),
                            SCMP_SYS(finit_module),
                            SCMP_SYS(delete_module),
                            SCMP_SYS(kexec_load),
                            SCMP_SYS(kexec_file_load),
                            SCMP_SYS(open_by_handle_at),
                            SCMP_SYS(name_to_handle_at),
                            SCMP_SYS(chmod),
                            SCMP_SYS(fchmod),
                            SCMP_SYS(fchmodat),
                            SCMP_SYS(chown),
                            SCMP_SYS(lchown),
                            SCMP_SYS(fchown),
                            SCMP_SYS(fchownat),
                            SCMP_SYS(setxattr),
                            SCMP_SYS(lsetxattr),
                            SCMP_SYS(fsetxattr),
                            SCMP_SYS(utimensat),
                            SCMP_SYS(futimesat),
                            SCMP_SYS(utimes),
                            SCMP_SYS(utime),
                            SCMP_SYS(mknod),
                            SCMP_SYS(mknodat),
                            SCMP_SYS(pidfd_open),
                            SCMP_SYS(pidfd_getfd),
                            SCMP_SYS(pidfd_send_signal),
                            SCMP_SYS(tkill),
                            SCMP_SYS(rt_sigqueueinfo),
                            SCMP_SYS(rt_tgsigqueueinfo),
                            SCMP_SYS(setuid),
                            SCMP_SYS(setgid),
                            SCMP_SYS(setreuid),
                            SCMP_SYS(setregid),
                            SCMP_SYS(setresuid),
                            SCMP_SYS(setresgid),
                            SCMP_SYS(setgroups),
                            SCMP_SYS(setfsuid),
                            SCMP_SYS(setfsgid),
                            SCMP_SYS(capset),
                            SCMP_SYS(personality),
                            SCMP_SYS(bind),
                            SCMP_SYS(listen),
                            SCMP_SYS(accept),
                            SCMP_SYS(accept4),
                            SCMP_SYS(sendmsg),
                            SCMP_SYS(sendmmsg),
                            SCMP_SYS(setsockopt),
                            SCMP_SYS(inotify_init1),
                            SCMP_SYS(inotify_add_watch),
                            SCMP_SYS(shmget),
                            SCMP_SYS(shmat),
                            SCMP_SYS(pkey_mprotect),
                            SCMP_SYS(remap_file_pages)};

// ioctl(2) of FUSE, sockets and terminals.
constexpr unsigned long kControls[] = {
    FIONREAD, FIONBIO, TCGETS, kernel::kTerminalAttributes, TIOCGWINSZ, kernel::kClone, kernel::kCloneRange};

constexpr int kDescriptorCommands[] = {F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL,
                                       F_SETFL,         36,      37,      38};  // 36: F_OFD_GETLK

constexpr int kNameMemory = 0x53564d41;  // PR_SET_VMA: newer C libraries name their memory

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), seccomp_release) {
    if (context_ == nullptr) error_ = -ENOMEM;
    set(SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    set(SCMP_FLTATR_CTL_TSYNC, 1);
    set(SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree, not a chain
  }

  template <class... Conditions>
  void allow(int call, Conditions... conditions) {
    add(SCMP_ACT_ALLOW, call, conditions...);
  }
  void refuse(int call) { add(SCMP_ACT_ERRNO(EPERM), call); }

  /// 0, or a negative number of an error.
  int load() {
    if (error_ == 0) error_ = seccomp_load(context_.get());
    return error_;
  }

 private:
  void set(scmp_filter_attr attribute, uint32_t value) {
    if (error_ == 0) error_ = seccomp_attr_set(context_.get(), attribute, value);
  }

  // Negative numbers are calls that this architecture does not have.
  template <class... Conditions>
  void add(uint32_t action, int call, Conditions... conditions) {
    if (error_ != 0 || call < 0) return;
    const scmp_arg_cmp all[] = {conditions..., scmp_arg_cmp{}};
    error_ = seccomp_rule_add_array(context_.get(), action, call, sizeof...(conditions), all);
  }

  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
};

scmp_arg_cmp is(unsigned argument, uint64_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }
scmp_arg_cmp bits_are(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

void allow_memory(Filter& filter) {
  filter.allow(SCMP_SYS(mmap), bits_are(2, PROT_EXEC, 0));
  filter.allow(SCMP_SYS(mprotect), bits_are(2, PROT_EXEC, 0));
}

// A filter cannot inspect the flags of clone3(2), so it gets ENOSYS and the C library falls back to clone(2).
void allow_threads(Filter& filter) {
  constexpr uint64_t kThread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  constexpr uint64_t kNamespaces =
      CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  filter.allow(SCMP_SYS(clone), bits_are(0, kThread | kNamespaces, kThread));
  filter.allow(SCMP_SYS(unshare), is(0, CLONE_FILES));
  const auto process = static_cast<uint64_t>(::getpid());
  filter.allow(SCMP_SYS(kill), is(0, process));
  filter.allow(SCMP_SYS(tgkill), is(0, process));
  filter.allow(SCMP_SYS(prlimit64), is(0, 0));
  // The priority of the calling thread.
  filter.allow(SCMP_SYS(setpriority), is(0, PRIO_PROCESS), is(1, 0));
  filter.allow(SCMP_SYS(ioprio_set), is(0, kernel::kIoPriorityOfThread), is(1, 0));
  for (const int option : {PR_SET_NAME, kNameMemory})
    filter.allow(SCMP_SYS(prctl), is(0, static_cast<uint64_t>(option)));
}

void allow_files(Filter& filter) {
  for (const unsigned long request : kControls) filter.allow(SCMP_SYS(ioctl), bits_are(1, UINT32_MAX, request));
  for (const int command : kDescriptorCommands) filter.allow(SCMP_SYS(fcntl), is(1, static_cast<uint64_t>(command)));
}

struct SocketOption {
  int level, name;
};

constexpr SocketOption kServingOptions[] = {{IPPROTO_TCP, TCP_NODELAY}, {SOL_SOCKET, SO_LINGER}};
// Set by libcurl, and by the resolver of the C library.
constexpr SocketOption kDownloadOptions[] = {
    {IPPROTO_TCP, TCP_NODELAY}, {SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_KEEPIDLE},  {IPPROTO_TCP, TCP_KEEPINTVL},
    {IPPROTO_TCP, TCP_KEEPCNT}, {IPPROTO_IP, IP_RECVERR},   {IPPROTO_IPV6, IPV6_RECVERR}, {IPPROTO_IPV6, IPV6_V6ONLY}};

void allow_option(Filter& filter, const SocketOption& option) {
  filter.allow(SCMP_SYS(setsockopt), is(1, static_cast<uint64_t>(option.level)),
               is(2, static_cast<uint64_t>(option.name)));
}

// syslog(3) and sd_notify(3) send datagrams to local sockets. Local streams lead to other services (D-Bus, Docker), so
// these are refused; socketpair(2) leads nowhere. Only the internet's protocols that Landlock restricts, and UDP, are
// permitted: multipath TCP would connect where TCP may not.
void allow_sockets(Filter& filter, const PermittedCalls& permitted) {
  constexpr uint64_t kType = 0xF;  // without SOCK_CLOEXEC and SOCK_NONBLOCK
  const auto allow_socket = [&](int family, int type, int protocol) {
    filter.allow(SCMP_SYS(socket), is(0, static_cast<uint64_t>(family)),
                 bits_are(1, kType, static_cast<uint64_t>(type)), is(2, static_cast<uint64_t>(protocol)));
  };
  allow_socket(AF_UNIX, SOCK_DGRAM, 0);
  filter.allow(SCMP_SYS(socketpair), is(0, AF_UNIX));
  // A filter cannot see whether a message has open files.
  if (permitted.passes_files) filter.allow(SCMP_SYS(sendmsg));
  if (permitted.accepts)
    for (const SocketOption& option : kServingOptions) allow_option(filter, option);
  if (permitted.network == Network::none) return;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const int protocol : {0, int{IPPROTO_TCP}}) allow_socket(family, SOCK_STREAM, protocol);
    for (const int protocol : {0, int{IPPROTO_UDP}}) allow_socket(family, SOCK_DGRAM, protocol);
  }
  for (const SocketOption& option : kDownloadOptions) allow_option(filter, option);
  filter.allow(SCMP_SYS(sendmmsg));  // getaddrinfo(3) asks for both kinds of addresses at once
  // getaddrinfo(3) reads the addresses of the machine.
  filter.allow(SCMP_SYS(socket), is(0, AF_NETLINK), is(2, kernel::kNetlinkRoute));
}

// libfuse binds the thread of each ring to its processor.
void allow_rings(Filter& filter) {
  for (const int call : {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register)})
    filter.allow(call);
  filter.allow(SCMP_SYS(sched_setaffinity), is(0, 0));
}

Result<void> loaded(Filter& filter) {
  const int error = filter.load();
  if (error == 0) return {};
  return failure(io_error("seccomp", -error));
}

bool is_of_io_uring(int call) {
  return call == SCMP_SYS(io_uring_setup) || call == SCMP_SYS(io_uring_enter) || call == SCMP_SYS(io_uring_register);
}

// Whether a refused call is permitted to this process, with some arguments at least. bind(2) is for the netlink socket
// of getaddrinfo(3); Landlock refuses it for TCP.
bool is_granted(const PermittedCalls& permitted, int call) {
  const bool downloads = permitted.network == Network::connect;
  if (call == SCMP_SYS(bind) || call == SCMP_SYS(sendmmsg)) return downloads;
  if (call == SCMP_SYS(setsockopt)) return downloads || permitted.accepts;
  if (call == SCMP_SYS(accept4)) return permitted.accepts;
  if (call == SCMP_SYS(sendmsg)) return permitted.passes_files;
  if (is_of_io_uring(call)) return permitted.rings;
  return permitted.watches && std::ranges::count(kWatching, call) > 0;
}

}  // namespace

Result<void> filter_broker_of_backing_files() {
  if (!has_seccomp()) return failure(Code::unsupported, "seccomp: not available");
  Filter filter;
  for (const int call :
       {SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(fstatfs),
        SCMP_SYS(faccessat2), SCMP_SYS(close), SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
        SCMP_SYS(futex), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall)})
    filter.allow(call);
  filter.allow(SCMP_SYS(mmap), bits_are(2, PROT_EXEC, 0));
  filter.allow(SCMP_SYS(fcntl), is(1, F_GETFL));
  for (const unsigned long command : fuse::backing_file_commands())
    filter.allow(SCMP_SYS(ioctl), bits_are(1, UINT32_MAX, command));
  return loaded(filter);
}

bool has_seccomp() { return ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0; }

Result<void> filter_system_calls(const PermittedCalls& permitted) {
  if (!has_seccomp()) return failure(Code::unsupported, "seccomp: not available");
  Filter filter;
  for (const int call : kAllowed) filter.allow(call);
  for (const int call : kRefused)
    if (!is_granted(permitted, call)) filter.refuse(call);
  if (permitted.accepts)
    for (const int call : kServing) filter.allow(call);
  if (permitted.watches)
    for (const int call : kWatching) filter.allow(call);
  if (permitted.network == Network::connect) filter.allow(SCMP_SYS(bind));
  allow_memory(filter);
  allow_threads(filter);
  allow_files(filter);
  allow_sockets(filter, permitted);
  if (permitted.rings) allow_rings(filter);
  return loaded(filter);
}

}  // namespace weightfs::sandbox
