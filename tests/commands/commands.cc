// Runs command lines of weightfs for Python tests, each in a child of this process, which has the program in memory:
// starting a program with sanitizers takes half a second. Everything but execve(2) is as for the program: arguments,
// environment, working directory, standard streams, signals, sandbox.
//
// Standard input is a socket of packets (SOCK_SEQPACKET). A packet has the words DIRECTORY, COUNT, ARGUMENT...,
// VARIABLE=VALUE..., each with a zero byte behind it, and four descriptors: standard input, output and error of the
// command, and a pipe for two lines: the process, and its status as wait(2) gives it. Without a packet in an hour, or
// when the socket is closed, it ends.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

int weightfs_main(int argc, char** argv);  // cli/main.cc

namespace weightfs::test::commands {
namespace {

constexpr size_t kMaxPacket = 200'000;
constexpr size_t kDescriptors = 4;

struct Request {
  std::vector<std::string> words;
  std::array<int, kDescriptors> descriptors{};
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  ::_exit(125);
}

std::vector<std::string> split(std::string_view packet) {
  std::vector<std::string> words;
  while (!packet.empty()) {
    const size_t end = packet.find('\0');
    words.emplace_back(packet.substr(0, end));
    packet.remove_prefix(std::min(packet.size(), end + 1));
  }
  return words;
}

// False at the end of the socket.
bool receive(Request& request) {
  std::string packet(kMaxPacket, '\0');
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof request.descriptors)> control{};
  iovec part{packet.data(), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof request.descriptors) ||
      (message.msg_flags & MSG_TRUNC) != 0)
    fail("commands: a request is too long, or lacks descriptors");
  std::memcpy(request.descriptors.data(), CMSG_DATA(header), sizeof request.descriptors);
  request.words = split(std::string_view(packet).substr(0, static_cast<size_t>(size)));
  return true;
}

[[noreturn]] void run(Request& request) {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number)
    ::dup2(request.descriptors[static_cast<size_t>(number)], number);
  if (::chdir(request.words[0].c_str()) != 0) fail("chdir");
  const size_t count = std::stoul(request.words[1]);
  std::vector<char*> arguments;
  for (size_t i = 2; i < 2 + count; ++i) arguments.push_back(request.words[i].data());
  arguments.push_back(nullptr);
  ::clearenv();
  for (size_t i = 2 + count; i < request.words.size(); ++i) ::putenv(request.words[i].data());
  std::exit(weightfs_main(static_cast<int>(count), arguments.data()));
}

// The parent of a command, which tells its process and its end.
[[noreturn]] void supervise(Request& request) {
  std::signal(SIGCHLD, SIG_DFL);
  const pid_t command = ::fork();
  if (command < 0) fail("fork");
  if (command == 0) run(request);
  for (size_t i = 0; i < kDescriptors - 1; ++i) ::close(request.descriptors[i]);
  ::dprintf(request.descriptors.back(), "%d\n", command);
  int status = 0;
  if (::waitpid(command, &status, 0) != command) fail("waitpid");
  ::dprintf(request.descriptors.back(), "%d\n", status);
  ::_exit(0);
}

bool is_asked() {
  constexpr int kHour = 3'600'000;
  pollfd socket{STDIN_FILENO, POLLIN, 0};
  return ::poll(&socket, 1, kHour) > 0;
}

int serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGCHLD, SIG_IGN);  // supervisors are not waited for
  Request request;
  while (is_asked() && receive(request)) {
    const pid_t supervisor = ::fork();
    if (supervisor < 0) fail("fork");
    if (supervisor == 0) {
      ::prctl(PR_SET_PDEATHSIG, 0);
      supervise(request);
    }
    for (const int descriptor : request.descriptors) ::close(descriptor);
  }
  return 0;
}

}  // namespace
}  // namespace weightfs::test::commands

int main() { return weightfs::test::commands::serve(); }
