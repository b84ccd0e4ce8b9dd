// Test hook: the actions that a container could attempt after taking over the parser, for the tests of the sandbox
// (docs/security.md). Only in builds with the CMake option WEIGHTFS_TEST_HOOKS.
#pragma once

namespace weightfs {

#ifdef WEIGHTFS_TEST_HOOKS
/// Tries each action of $WEIGHTFS_TEST_COMPROMISE once in this process, when the first container is read, and writes
/// one line for each to standard error: "compromise: ACTION: done", or the error. Actions are separated by spaces:
/// open:PATH, write:PATH, truncate:PATH, chmod:PATH, unlink:PATH, exec:PATH, connect:ADDRESS:PORT (IPv4), stream:PATH
/// (of a local socket), fork, ptrace:PID, kill:PID, map (executable memory), mount:PATH.
void compromise_for_test();
#else
inline void compromise_for_test() {}
#endif

}  // namespace weightfs
