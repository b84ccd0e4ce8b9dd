#include "formats/common/compromise.h"

#include "base/os/system_error.h"

#ifdef WEIGHTFS_TEST_HOOKS

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>

namespace weightfs {
namespace {

bool open_for(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  return file >= 0;
}

bool run(const std::string& path) {
  std::string word = path;
  std::array<char*, 2> words{word.data(), nullptr};
  return ::execv(path.c_str(), words.data()) == 0;
}

bool connect_to(const std::string& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))));
  ::inet_pton(AF_INET, place.substr(0, place.rfind(':')).c_str(), &address.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool connect_to_local(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool fork_once() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  return child > 0;
}

bool touch_open_file(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  return file >= 0 && ::futimens(file, nullptr) == 0;
}

bool allow_core_dumps() {
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  return ::setrlimit(RLIMIT_CORE, &unlimited) == 0;
}

bool run_from_memory() {
  const int file = ::memfd_create("program", 0);
  if (file < 0 || ::write(file, "#!/bin/true\n", 12) != 12) return false;
  std::array<char, 8> word{"program"};
  std::array<char*, 2> words{word.data(), nullptr};
  return ::fexecve(file, words.data(), environ) == 0;
}

bool make_executable() {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED && ::mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;
}

bool serve_on_loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket, 1) == 0;
}

bool read_memory_of(pid_t process) {
  std::array<char, 8> here{};
  const iovec to{here.data(), here.size()};
  return ::process_vm_readv(process, &to, 1, &to, 1, 0) >= 0;
}

bool watch(const std::string& directory) {
  const int events = ::inotify_init1(IN_CLOEXEC);
  return events >= 0 && ::inotify_add_watch(events, directory.c_str(), IN_CREATE) >= 0;
}

bool filter_socket() {
  sock_filter all{0x06, 0, 0, UINT32_MAX};  // BPF_RET
  const sock_fprog program{1, &all};
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// Sends an open file to a socket of another process.
bool pass_file(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  iovec part{control.data(), 1};
  msghdr message{&address, sizeof address, &part, 1, control.data(), CMSG_LEN(sizeof(int)), 0};
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));  // standard input
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::sendmsg(socket, &message, 0) >= 0;
}

bool send_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  return socket >= 0 && ::sendto(socket, "", 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 1;
}

bool list(const std::string& path) {
  std::array<char, 4096> entries{};
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return directory >= 0 && ::syscall(SYS_getdents64, directory, entries.data(), entries.size()) > 0;
}

bool lock_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) == 0;
}

bool set_clock() {
  timespec now{};
  return ::clock_gettime(CLOCK_REALTIME, &now) == 0 && ::clock_settime(CLOCK_REALTIME, &now) == 0;
}

// Arguments of system calls that need structures: zero but for a first number.
struct Structure {
  explicit Structure(uint32_t first = 0) { numbers[0] = first; }
  std::array<uint32_t, 64> numbers{};
};

using Attempt = std::function<bool(const std::string& object)>;

const std::map<std::string, Attempt>& attempts_at_files() {
  static const std::map<std::string, Attempt> all = {
      {"open", [](const std::string& path) { return open_for(path, O_RDONLY); }},
      {"write", [](const std::string& path) { return open_for(path, O_WRONLY | O_CREAT); }},
      {"truncate", [](const std::string& path) { return ::truncate(path.c_str(), 0) == 0; }},
      {"unlink", [](const std::string& path) { return ::unlinkat(AT_FDCWD, path.c_str(), 0) == 0; }},
      {"chmod", [](const std::string& path) { return ::chmod(path.c_str(), 0777) == 0; }},
      {"chown", [](const std::string& path) { return ::chown(path.c_str(), ::geteuid(), ::getegid()) == 0; }},
      {"xattr", [](const std::string& path) { return ::setxattr(path.c_str(), "user.test", "", 0, 0) == 0; }},
      {"times", [](const std::string& path) { return ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0; }},
      {"times-of-open-file", [](const std::string& path) { return touch_open_file(path.c_str()); }},
      {"mknod", [](const std::string& path) { return ::mknod(path.c_str(), S_IFIFO | 0600, 0) == 0; }},
      {"mount", [](const std::string& path) { return ::mount("none", path.c_str(), "tmpfs", 0, nullptr) == 0; }},
      {"fsopen", [](const std::string&) { return ::syscall(SYS_fsopen, "tmpfs", 0) >= 0; }},
      {"umount", [](const std::string& path) { return ::umount2(path.c_str(), MNT_DETACH) == 0; }},
      {"chroot", [](const std::string& path) { return ::chroot(path.c_str()) == 0; }},
      {"name_to_handle",
       [](const std::string& path) {
         Structure handle(128);
         int mount = 0;
         return ::syscall(SYS_name_to_handle_at, AT_FDCWD, path.c_str(), handle.numbers.data(), &mount, 0) == 0;
       }},
      {"open_by_handle",
       [](const std::string&) {
         Structure handle(8);
         return ::syscall(SYS_open_by_handle_at, AT_FDCWD, handle.numbers.data(), O_RDONLY) >= 0;
       }},
  };
  return all;
}

const std::map<std::string, Attempt>& attempts_at_names() {
  static std::array<char, 4096> out;
  static const std::map<std::string, Attempt> all = {
      {"list", list},
      {"lock", lock_file},
      {"descriptor", [](const std::string& number) { return ::fcntl(std::stoi(number), F_GETFD) >= 0; }},
      {"stat", [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }},
      {"readlink", [](const std::string& path) { return ::readlink(path.c_str(), out.data(), out.size()) > 0; }},
      {"getxattr",
       [](const std::string& path) { return ::getxattr(path.c_str(), "user.test", out.data(), out.size()) > 0; }},
      {"path", [](const std::string& path) { return open_for(path, O_PATH); }},
      {"mkdir", [](const std::string& path) { return ::mkdir(path.c_str(), 0700) == 0; }},
      {"rename", [](const std::string& path) { return ::rename(path.c_str(), (path + ".new").c_str()) == 0; }},
      {"link", [](const std::string& path) { return ::link(path.c_str(), (path + ".new").c_str()) == 0; }},
      {"symlink", [](const std::string& path) { return ::symlink("/", (path + ".new").c_str()) == 0; }},
      {"watch-all", [](const std::string&) { return ::syscall(SYS_fanotify_init, 0, O_RDONLY) >= 0; }},
      {"swap", [](const std::string& path) { return ::syscall(SYS_swapon, path.c_str(), 0) == 0; }},
      {"account", [](const std::string& path) { return ::syscall(SYS_acct, path.c_str()) == 0; }},
      {"change-directory", [](const std::string& path) { return ::chdir(path.c_str()) == 0; }},
  };
  return all;
}

const std::map<std::string, Attempt>& attempts_at_processes() {
  static const std::map<std::string, Attempt> all = {
      {"exec", run},
      {"exec-of-memory", [](const std::string&) { return run_from_memory(); }},
      {"fork", [](const std::string&) { return fork_once(); }},
      {"map",
       [](const std::string&) {
         constexpr int kAll = PROT_READ | PROT_WRITE | PROT_EXEC;
         return ::mmap(nullptr, 4096, kAll, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
       }},
      {"protect", [](const std::string&) { return make_executable(); }},
      {"ptrace", [](const std::string& pid) { return ::ptrace(PTRACE_ATTACH, std::stoi(pid), nullptr, nullptr) == 0; }},
      {"memory", [](const std::string& pid) { return read_memory_of(std::stoi(pid)); }},
      {"kill", [](const std::string& pid) { return ::kill(std::stoi(pid), 0) == 0; }},
      {"pidfd", [](const std::string& pid) { return ::syscall(SYS_pidfd_open, std::stoi(pid), 0) >= 0; }},
      {"dumpable", [](const std::string&) { return ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0; }},
      {"core", [](const std::string&) { return allow_core_dumps(); }},
      {"personality", [](const std::string&) { return ::personality(ADDR_NO_RANDOMIZE) >= 0; }},
      {"namespace", [](const std::string&) { return ::unshare(CLONE_NEWUSER) == 0; }},
      {"join-namespace", [](const std::string& pid) { return ::setns(std::stoi(pid), 0) == 0; }},
      {"priority", [](const std::string&) { return ::setpriority(PRIO_PROCESS, 0, -20) == 0; }},
      {"limits-of",
       [](const std::string& pid) {
         rlimit limits{};
         return ::prlimit(std::stoi(pid), RLIMIT_NOFILE, nullptr, &limits) == 0;
       }},
      {"descriptors",
       [](const std::string&) {
         rlimit limits{};
         if (::getrlimit(RLIMIT_NOFILE, &limits) != 0) return false;
         limits.rlim_max += 1;
         return ::setrlimit(RLIMIT_NOFILE, &limits) == 0;
       }},
      {"anonymous-file", [](const std::string&) { return ::memfd_create("file", 0) >= 0; }},
      {"thread",
       [](const std::string&) {
         std::thread([] {}).join();
         return true;
       }},
      {"setuid", [](const std::string&) { return ::syscall(SYS_setresuid, -1, -1, -1) == 0; }},
      {"capset",
       [](const std::string&) {
         Structure header(0x20080522);  // _LINUX_CAPABILITY_VERSION_3
         const Structure none;
         return ::syscall(SYS_capset, header.numbers.data(), none.numbers.data()) == 0;
       }},
  };
  return all;
}

const std::map<std::string, Attempt>& attempts_at_the_kernel() {
  static const std::map<std::string, Attempt> all = {
      {"connect", connect_to},
      {"stream", connect_to_local},
      {"datagram", send_to},
      {"pair",
       [](const std::string&) {
         std::array<int, 2> ends{};
         return ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0;
       }},
      {"udp", [](const std::string&) { return ::socket(AF_INET, SOCK_DGRAM, 0) >= 0; }},
      {"vsock", [](const std::string&) { return ::socket(AF_VSOCK, SOCK_STREAM, 0) >= 0; }},
      {"routes", [](const std::string&) { return ::socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }},
      {"crypto", [](const std::string&) { return ::socket(AF_ALG, SOCK_SEQPACKET, 0) >= 0; }},
      {"clock", [](const std::string&) { return set_clock(); }},
      {"host-name", [](const std::string&) { return ::sethostname("", 0) == 0; }},
      {"kernel-log", [](const std::string&) { return ::syscall(SYS_syslog, 10, nullptr, 0) >= 0; }},
      {"module", [](const std::string&) { return ::syscall(SYS_delete_module, "", 0) == 0; }},
      {"kexec", [](const std::string&) { return ::syscall(SYS_kexec_load, 0, 0, nullptr, 0) == 0; }},
      {"type", [](const std::string&) { return ::ioctl(STDIN_FILENO, TIOCSTI, "") == 0; }},
      {"semaphore", [](const std::string&) { return ::syscall(SYS_semget, 0, 1, 0600) >= 0; }},
      {"message-queue", [](const std::string&) { return ::syscall(SYS_msgget, 0, 0600) >= 0; }},
      {"posix-queue",
       [](const std::string&) { return ::syscall(SYS_mq_open, "/weightfs-test", O_RDONLY, 0, nullptr) >= 0; }},
      {"listen", [](const std::string&) { return serve_on_loopback(); }},
      {"watch", watch},
      {"pass", pass_file},
      {"socket-filter", [](const std::string&) { return filter_socket(); }},
      {"mptcp", [](const std::string&) { return ::socket(AF_INET, SOCK_STREAM, 262) >= 0; }},
      {"udplite", [](const std::string&) { return ::socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE) >= 0; }},
      {"ping", [](const std::string&) { return ::socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP) >= 0; }},
      {"raw", [](const std::string&) { return ::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }},
      {"packet", [](const std::string&) { return ::socket(AF_PACKET, SOCK_DGRAM, 0) >= 0; }},
      {"netfilter", [](const std::string&) { return ::socket(AF_NETLINK, SOCK_RAW, 12) >= 0; }},
      {"io_uring",
       [](const std::string&) { return ::syscall(SYS_io_uring_setup, 1, Structure().numbers.data()) >= 0; }},
      {"bpf", [](const std::string&) { return ::syscall(SYS_bpf, 0, Structure(2).numbers.data(), 72) >= 0; }},
      {"keyctl", [](const std::string&) { return ::syscall(SYS_keyctl, 0, -3, 1) >= 0; }},
      {"userfaultfd", [](const std::string&) { return ::syscall(SYS_userfaultfd, 1) >= 0; }},
      {"perf",
       [](const std::string&) {
         Structure clock(1);  // PERF_TYPE_SOFTWARE
         clock.numbers[1] = 64;
         return ::syscall(SYS_perf_event_open, clock.numbers.data(), 0, -1, -1, 0) >= 0;
       }},
      {"shm", [](const std::string&) { return ::syscall(SYS_shmget, 0, 4096, 0600) >= 0; }},
  };
  return all;
}

bool attempt(const std::string& verb, const std::string& object) {
  errno = EINVAL;
  for (const auto* const attempts :
       {&attempts_at_files(), &attempts_at_names(), &attempts_at_processes(), &attempts_at_the_kernel()})
    if (const auto found = attempts->find(verb); found != attempts->end()) return found->second(object);
  return false;
}

}  // namespace

void compromise_for_test() {
  static std::atomic<bool> tried = false;
  const char* given = std::getenv("WEIGHTFS_TEST_COMPROMISE");
  if (given == nullptr || tried.exchange(true)) return;
  std::istringstream actions(given);
  for (std::string action; actions >> action;) {
    const std::string verb = action.substr(0, action.find(':'));
    const std::string object = action.size() > verb.size() ? action.substr(verb.size() + 1) : "";
    const bool done = attempt(verb, object);
    const std::string result = done ? "done" : errno_text(errno);
    std::fprintf(stderr, "compromise: %s: %s\n", action.c_str(), result.c_str());
  }
}

}  // namespace weightfs

#endif
