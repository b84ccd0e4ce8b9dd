// Secrets of this process: keys, tokens and signed URLs in its memory, environment and arguments.
#pragma once

#include <string>
#include <vector>

namespace weightfs {

/// This process and the children that it forks are not written to a core dump, and only root can trace them or read
/// their memory and environment. Ends for a child that executes a program, except that its core dumps stay empty.
void hide_memory();

/// Copies the arguments of the program without its name, and overwrites in place what other users must not see in
/// /proc/PID/cmdline (ps(1)): user and password of each URL, and its query, which may be a signature.
std::vector<std::string> take_arguments(int argc, char** argv);

/// Overwrites the values of the environment variables with keys, tokens and proxies, and removes them. For a process
/// that sends no requests; those that it has started keep theirs.
void forget_logins();

}  // namespace weightfs
