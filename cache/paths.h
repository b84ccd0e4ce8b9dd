// The directories of a store, the names of things in them, and the few system calls that every part of it needs.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/digest.h"
#include "base/result.h"
#include "cache/store/blob_backend.h"
#include "cache/store/block_sums.h"

namespace weightfs {

/// The directories below the one that the user named, open: what is done there is done through these descriptors, so
/// that nobody who swaps a name leads it elsewhere.
struct Folders {
  std::string top;
  OpenFilePtr root;    ///< v1: all below belongs to this version of the layout. Its file `lock` is room.cc's
  OpenFilePtr blobs;   ///< ab/<64 hex digits>: finished, named by their SHA-256
  OpenFilePtr index;   ///< <SHA-256 of a key>: a symbolic link whose text is the blob's digest
  OpenFilePtr making;  ///< <name>.<boot>: being made by whoever holds its lock. Fetches: see part_file()
};

using FoldersPtr = std::shared_ptr<const Folders>;

enum class Missing { fail, make };

/// Opens them. Fails when others than this user and root own one, or may write there: the bytes that they put there
/// would be served as ours, and the names that they put there be removed. Only `top` may be a symbolic link. Fails with
/// not_found when one is missing, and may.
Result<FoldersPtr> open_folders(const std::string& top, Missing missing);

/// Where a blob is in `blobs`, and where a name's link is in `index`.
std::string blob_file(const Digest& digest);
std::string index_link(const Name& name);

/// A fetch that may be continued, in `making`: <64 hex digits>.part, without the boot; nobody fetches it at the moment
/// when its lock can be had. Beside it the symbolic link <64 hex digits>.part.from, whose text says where it came from.
std::string part_file(const Digest& digest);
/// The digest that the name of such a file tells; nothing for any other name.
std::optional<Digest> digest_of_part(const std::string& name);

/// The blobs that the user wants to keep, by their digests in hex: the names of the empty files in v1/pins, which is
/// made with the first of them. Fails when that directory is not to be trusted or cannot be read.
Result<std::set<std::string>> pins(const Folders& folders);
/// Makes a pin, or removes it. Whether there was none, or one, before.
Result<bool> add_pin(const Folders& folders, const Digest& digest);
Result<bool> remove_pin(const Folders& folders, const Digest& digest);

/// Whether there is a file of the blob's name.
bool has_blob(const Folders& folders, const Digest& digest);

/// Removes a blob and its checksums; false with errno set when the blob cannot be removed, ENOENT when it is gone.
bool unlink_blob(const Folders& folders, const Digest& digest);

/// The checksums of a blob, in v1/sums, which is made with the first of them (cache/store/block_sums.h): a file that is
/// named by the blob's digest. Nothing when there are none, or damaged ones.
std::optional<BlockSums> read_sums(const Folders& folders, const Digest& digest, uint64_t size);
/// Replaces them. A failure leaves none, or such as do not decode.
void write_sums(const Folders& folders, const Digest& digest, const BlockSums& sums);
inline constexpr const char* kSumsFolder = "sums";

/// Removes the links in the index to those of the digests (in hex) of which there is no blob; returns how many.
uint64_t unlink_links_to(const Folders& folders, const std::set<std::string>& gone);

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

/// What a sweep removed, but notes.
struct Swept {
  uint64_t files = 0;
  uint64_t bytes = 0;  ///< on disk
};

/// Removes what killed processes left: files in making/ whose lock can be had, but of fetches that may be continued
/// only those that nobody has for a week.
Swept sweep(const Folders& folders);

/// What the file takes on disk.
inline uint64_t on_disk(const struct stat& file) { return static_cast<uint64_t>(file.st_blocks) * 512; }

/// Removes a file in making/, with what is noted beside it, unless somebody holds its lock; the bytes on disk that it
/// took, or nothing when it stays.
std::optional<uint64_t> remove_unheld(const Folders& folders, const std::string& made);

/// Takes the file's lock if nobody has it. It goes with the descriptor, or with release().
bool try_lock(int fd);
void release(int fd);

/// Whether `name` in `folder` is the file that `fd` has open.
bool is_at(const OpenFile& folder, const std::string& name, int fd);

/// The digest that a symbolic link's text names.
std::optional<Digest> digest_in_link(const OpenFile& folder, const std::string& name);

}  // namespace weightfs
