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
#include <sys/syscall.h>
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

// A command whose end is not known yet.
struct Command {
  pid_t process = 0;
  int handle = -1;  // pidfd_open(2)
  int report = -1;  // the pipe for its process and status
};

Command start(Request& request, const std::vector<Command>& running) {
  const pid_t process = ::fork();
  if (process < 0) fail("fork");
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, 0);
    std::signal(SIGPIPE, SIG_DFL);
    // A pipe has ended when no process has it open.
    for (const Command& other : running) {
      ::close(other.report);
      ::close(other.handle);
    }
    run(request);
  }
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (handle < 0) fail("pidfd_open");
  for (size_t i = 0; i < kDescriptors - 1; ++i) ::close(request.descriptors[i]);
  ::dprintf(request.descriptors.back(), "%d\n", process);
  return {process, handle, request.descriptors.back()};
}

void end(const Command& command) {
  int status = 0;
  if (::waitpid(command.process, &status, 0) != command.process) fail("waitpid");
  ::dprintf(command.report, "%d\n", status);
  ::close(command.report);
  ::close(command.handle);
}

int serve() {
  constexpr int kHour = 3'600'000;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);  // of a caller that reads no status
  std::vector<Command> running;
  Request request;
  while (true) {
    std::vector<pollfd> events{{STDIN_FILENO, POLLIN, 0}};
    for (const Command& command : running) events.push_back({command.handle, POLLIN, 0});
    if (::poll(events.data(), events.size(), kHour) <= 0) return 0;
    for (size_t i = running.size(); i > 0; --i) {
      if (events[i].revents == 0) continue;
      end(running[i - 1]);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    if (events[0].revents == 0) continue;
    if (!receive(request)) return 0;
    running.push_back(start(request, running));
  }
}

}  // namespace
}  // namespace weightfs::test::commands

int main() { return weightfs::test::commands::serve(); }
