// weightfs: shows a machine-learning model container as a read-only directory.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "base/text.h"
#include "cli/verbs.h"

namespace weightfs {

Exit complain(const Error& error) {
  std::fprintf(stderr, "weightfs: %s\n", error.message.c_str());
  return exit_of(error.code);
}

std::string format_names() {
  std::string names;
  for (const Format& format : formats()) names += str(names.empty() ? "" : ", ", format.name);
  return names;
}

bool set_format(Opening& opening, const std::string& name) {
  opening.forced = format_named(name);
  return opening.forced != nullptr;
}

void add_opening_options(CLI::App& verb, Opening& opening) {
  verb.add_option_function<std::string>(
          "--format",
          [&opening](const std::string& name) {
            if (!set_format(opening, name))
              throw CLI::ValidationError("--format", str("no format ", quoted(name), "; there are ", format_names()));
          },
          str("read every source as this format: ", format_names()))
      ->type_name("NAME");
  verb.add_flag("--all", opening.all_files, "in a directory, show files that are no model too");
}

namespace {

// Every file of every model that is entered stays open: a model may have thousands, and a mount thousands of models.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace weightfs

int main(int argc, char** argv) {
  using namespace weightfs;
  // A reader that goes away ends `weightfs cat` as it ends cat, even under a parent that ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  raise_descriptor_limit();
  CLI::App app("Shows a machine-learning model container as a read-only directory.", "weightfs");
  app.set_version_flag("--version", "weightfs " WEIGHTFS_VERSION);
  app.require_subcommand(1);
  app.footer(kExitStatuses);
  Run run;
  add_mount(app, run);
  add_umount(app, run);
  add_ls(app, run);
  add_cat(app, run);
  add_info(app, run);
  try {
    app.parse(argc, argv);
    const Exit status = run();
    // What was printed is printed only once it has been written.
    if (std::fflush(stdout) != 0) return static_cast<int>(complain({Code::io, "cannot write to standard output"}));
    return static_cast<int>(status);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "weightfs: %s (see weightfs --help)\n", error.what());
    return static_cast<int>(Exit::usage);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(complain({Code::io, "out of memory"}));
  }
}
