// The directories of a store, the names of things in them, and the few system calls that every part of it needs.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "cache/shelf.h"

namespace weightfs {

/// The directories below the one that the user named, open: what is done there is done through these descriptors, so
/// that nobody who swaps a name leads it elsewhere.
struct Folders {
  std::string top;
  OpenFilePtr root;    ///< v1: all below belongs to this version of the layout. Its file `lock` is room.cc's
  OpenFilePtr blobs;   ///< ab/<64 hex digits>: finished, named by their SHA-256
  OpenFilePtr index;   ///< <SHA-256 of a key>: a symbolic link whose text is the blob's digest
  OpenFilePtr making;  ///< <name>.<boot>: being made by whoever holds its lock
};

using FoldersPtr = std::shared_ptr<const Folders>;

enum class Missing { fail, make };

/// Opens them. Fails when others than this user and root own one, or may write there: the bytes that they put there
/// would be served as ours, and the names that they put there be removed. Only `top` may be a symbolic link.
Result<FoldersPtr> open_folders(const std::string& top, Missing missing);

/// Where a blob is in `blobs`, and where a name's link is in `index`.
std::string blob_file(const Digest& digest);
std::string index_link(const Name& name);

/// 16 hex digits that change when the machine starts anew; empty when the system does not tell.
/// (proc_sys_kernel(5): /proc/sys/kernel/random/boot_id.)
const std::string& boot();

/// `size` random bytes in hex.
std::string random_hex(size_t size);

/// Makes the directory and those above it that are missing, with mode 0700.
Result<void> make_directories(const std::string& path);

/// Calls `each` with the name of every entry but `.` and `..` of the directory `name` in `folder`; of one that is not
/// there, or is a symbolic link, never.
void for_each_in(const OpenFile& folder, const std::string& name, const std::function<void(const std::string&)>& each);

/// Removes what killed processes left: files in making/ whose lock can be had.
void sweep(const Folders& folders);

/// Takes the file's lock if nobody has it. It goes with the descriptor, or with release().
bool try_lock(int fd);
void release(int fd);

/// Whether `name` in `folder` is the file that `fd` has open.
bool is_at(const OpenFile& folder, const std::string& name, int fd);

/// The digest that a symbolic link's text names.
std::optional<Digest> digest_in_link(const OpenFile& folder, const std::string& name);

}  // namespace weightfs
