#include "cli/service/systemctl.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace weightfs {

int run_systemctl(std::vector<std::string> arguments) {
  std::string program = "systemctl";
  std::vector<char*> words = {program.data()};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  if (::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words.data(), environ) != 0) return -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace weightfs
