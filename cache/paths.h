// The names of things in a store's directory, and the few system calls that every part of it needs.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "cache/shelf.h"

namespace weightfs {

/// Where everything lies below the directory that the user named.
struct StorePaths {
  explicit StorePaths(const std::string& directory) : top(directory), root(directory + "/v1") {}

  std::string top;
  std::string root;                       ///< all below belongs to this version of the layout
  std::string blobs = root + "/blobs";    ///< ab/<64 hex digits>: finished, named by their SHA-256
  std::string index = root + "/index";    ///< <SHA-256 of a key>: a symbolic link whose text is the blob's digest
  std::string making = root + "/making";  ///< <name>.<boot>: being made by whoever holds its lock
  std::string lock = root + "/lock";      ///< locked while room is made; holds what is counted as used

  std::string blob(const std::string& hex) const { return blobs + "/" + hex.substr(0, 2) + "/" + hex; }
  std::string link(const Name& name) const { return index + "/" + sha256(name.key).hex(); }
};

/// 16 hex digits that change when the machine starts anew; empty when the system does not tell.
/// (proc_sys_kernel(5): /proc/sys/kernel/random/boot_id.)
const std::string& boot();

/// `size` random bytes in hex.
std::string random_hex(size_t size);

/// Makes the directory and those above it that are missing, with mode 0700.
Result<void> make_directories(const std::string& path);

/// Calls `each` with the name of every entry but `.` and `..`; of a directory that is not there, never.
void for_each_in(const std::string& directory, const std::function<void(const std::string&)>& each);

/// Takes the file's lock if nobody has it. It goes with the descriptor, or with release().
bool try_lock(int fd);
void release(int fd);

/// Whether `path` names the file that `fd` has open.
bool is_at(const std::string& path, int fd);

/// The digest that a symbolic link's text names.
std::optional<Digest> digest_in_link(const std::string& path);

}  // namespace weightfs
