#include "cli/fetcher/helper_program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/os/descriptor.h"
#include "base/text.h"
#include "cli/process/child_process.h"
#include "cli/process/isolated.h"

namespace weightfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPassedVariables = std::to_array<const char*>(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR",
     // The session of the user, with its keyring.
     "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY",
     "WAYLAND_DISPLAY", "GNUPGHOME", "PASSWORD_STORE_DIR", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE",
     // Profiles of clouds, and files with their keys.
     "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
     "AWS_SDK_LOAD_CONFIG", "AWS_ECR_CACHE_DIR", "AWS_ECR_DISABLE_CACHE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME",
     "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
     "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CA_BUNDLE", "GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG",
     "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_AUTHORITY_HOST", "AZURE_FEDERATED_TOKEN_FILE",
     // The network.
     "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy",
     "NO_PROXY"});

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child.
[[noreturn]] void execute(const std::string& path, int in, int out) {
  std::vector<std::string> words = {path, "get"}, variables = helper_environment();
  const std::vector<char*> arguments = pointers_of(words), environment = pointers_of(variables);
  ::setsid();  // no terminal, and a group to kill
  close_standard_descriptors();
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  close_all_but({});
  for (const int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) std::signal(number, SIG_DFL);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  die_with_parent();
  if (::chdir("/") == 0) ::execve(path.c_str(), arguments.data(), environment.data());
  std::_Exit(127);
}

int milliseconds_left(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

// Reads what is in the pipe. False if it is too much.
bool read_some(int pipe, std::string& text, bool& has_ended) {
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = ::read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    has_ended |= got == 0;
    if (got <= 0) return true;
    text.append(part.data(), static_cast<size_t>(got));
    if (text.size() > kMaxHelperOutput) return false;
  }
}

// Until the program has ended: what it has started may keep the pipe open.
HelperRun::End read_output(int pipe, int process, Clock::time_point end, std::string& text) {
  for (bool has_ended = false;;) {
    std::array<pollfd, 2> waiting{pollfd{process, POLLIN, 0}, pollfd{has_ended ? -1 : pipe, POLLIN, 0}};
    const int ready = ::poll(waiting.data(), waiting.size(), milliseconds_left(end));
    if (ready < 0 && errno != EINTR) return HelperRun::End::not_run;
    if (ready == 0) return HelperRun::End::timed_out;
    if (ready < 0) continue;
    if (!has_ended && !read_some(pipe, text, has_ended)) return HelperRun::End::too_long;
    if (waiting[0].revents != 0) return HelperRun::End::exited;
  }
}

// The session has a group of the same number. A process that cannot be killed is not waited for.
void kill_session(pid_t child, int process) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);  // which may not have a session yet
  pollfd waiting{process, POLLIN, 0};
  ::poll(&waiting, 1, 500);
}

}  // namespace

std::vector<std::string> helper_environment() {
  std::vector<std::string> variables;
  for (const std::string_view name : kPassedVariables) {
    const char* const value = std::getenv(name.data());
    const bool is_proxy = name.ends_with("_proxy") || name.ends_with("_PROXY");
    if (value == nullptr || (is_proxy && std::string_view(value).find('@') != std::string_view::npos)) continue;
    variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

HelperRun run_helper(const std::string& path, std::string_view input, std::chrono::milliseconds timeout) {
  std::array<int, 2> in{}, out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) return {};
  Descriptor child_in(in[0]), to_child(in[1]);
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return {};
  Descriptor from_child(out[0]), child_out(out[1]);
  if (::write(to_child.number(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) return {};
  to_child = Descriptor();
  ::fcntl(from_child.number(), F_SETFL, O_NONBLOCK);
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) execute(path, child_in.number(), child_out.number());
  child_in = Descriptor();
  child_out = Descriptor();
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  HelperRun run;
  run.end = read_output(from_child.number(), process.number(), Clock::now() + timeout, run.text);
  if (run.end != HelperRun::End::exited) kill_session(child, process.number());
  int status = 0;
  const bool is_reaped = ::waitpid(child, &status, WNOHANG) == child;
  if (run.end != HelperRun::End::exited) return {.end = run.end};
  if (!is_reaped || !WIFEXITED(status)) return {};
  run.status = WEXITSTATUS(status);
  return run;
}

}  // namespace weightfs
