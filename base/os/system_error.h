// Errors of system calls.
#pragma once

#include <cerrno>
#include <string>

#include "base/result.h"

namespace weightfs {

/// The text of the errno value `error`: "Permission denied".
std::string errno_text(int error);

/// Code::not_found for an errno value of a path that does not exist, Code::resource if descriptors or memory are
/// exhausted, otherwise Code::io.
Code errno_code(int error);

/// Whether the errno value means a full disk or an exceeded quota of a user.
inline bool is_disk_full(int error) { return error == ENOSPC || error == EDQUOT; }

/// A failed system call: "WHAT: Permission denied", of Code::io.
Error io_error(const std::string& what, int error = errno);

}  // namespace weightfs
