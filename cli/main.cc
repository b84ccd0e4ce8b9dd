// weightfs: mounts machine-learning model files as read-only directories.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/console/help.h"
#include "cli/console/usage_error.h"
#include "cli/mount_helper.h"
#include "cli/service/generator.h"
#include "cli/verbs.h"

namespace weightfs {

namespace {

// With TZ unset the C library examines /etc/localtime for every date conversion, and libzip converts a date per member.
void name_time_zone() { ::setenv("TZ", ":/etc/localtime", 0); }

// Every file of every entered model stays open. A model may have thousands of files, a mount thousands of models.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// If the program is started with closed standard descriptors, an opened model file must not become one of them.
void fill_standard_descriptors() {
  int descriptor = 0;
  do descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

// `weightfs help mount` is `weightfs mount --help`.
std::vector<char*> expand_help(int argc, char** argv) {
  static std::string help = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  words.push_back(help.data());
  return words;
}

// CLI11 parses an argument like "[a,b]" as a list, but it may be a file name: ./[a,b] is the same file.
std::vector<std::string> arguments_of(const std::vector<char*>& words) {
  std::vector<std::string> arguments;
  for (size_t i = words.size() - 1; i > 0; --i)
    arguments.push_back(words[i][0] == '[' ? str("./", words[i]) : std::string(words[i]));
  return arguments;  // in reverse order, as CLI11 expects
}

}  // namespace
}  // namespace weightfs

int main(int argc, char** argv) {
  using namespace weightfs;
  // A closed pipe ends `weightfs cat` like cat, even if the parent ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  // A file size limit is a write error of the cache, not a reason to be killed.
  std::signal(SIGXFSZ, SIG_IGN);
  fill_standard_descriptors();
  name_time_zone();
  raise_descriptor_limit();
  if (is_generator(argv[0])) return static_cast<int>(generate(argc, argv));
  if (is_mount_helper(argv[0]) || is_called_by_mount_fuse(argc, argv)) return run_mount_helper(argc, argv);
  CLI::App app("Mount machine-learning model files as read-only directories.", "weightfs");
  // Subcommands inherit these.
  app.formatter(std::make_shared<Help>());
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", "weightfs " WEIGHTFS_VERSION, "print the version");
  app.require_subcommand(1);
  app.footer(kExitStatuses);
  Run run;
  add_mount(app, run);
  add_umount(app, run);
  add_mounts(app, run);
  add_ls(app, run);
  add_cat(app, run);
  add_info(app, run);
  add_verify(app, run);
  add_fetch(app, run);
  add_cache(app, run);
  add_service(app, run);
  add_doctor(app, run);
  add_completion(app, run);
  std::vector<char*> words = expand_help(argc, argv);
  try {
    app.parse(arguments_of(words));
    const Exit status = run();
    // A failed write to standard output is an error of the command.
    if (std::fflush(stdout) != 0) return static_cast<int>(report_error({Code::io, "cannot write to standard output"}));
    return static_cast<int>(status);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return std::cout.flush() ? 0 : static_cast<int>(report_error({Code::io, "cannot write to standard output"}));
    }
    log_to_stderr(usage_error(app, static_cast<int>(words.size()), words.data(), error.what()));
    return static_cast<int>(Exit::usage);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(report_error({Code::io, "out of memory"}));
  } catch (const std::exception& error) {
    return static_cast<int>(report_error({Code::io, error.what()}));
  }
}
