// The layout of a store: its directories, the names of its files, and the system calls that all parts of it share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/os/descriptor.h"
#include "base/result.h"
#include "cache/blocks/block_file.h"

namespace weightfs {

/// The open directories of a store. All operations use these descriptors, so replacing a path component cannot redirect
/// them.
struct Folders {
  std::string top;
  SharedDescriptor root;    ///< v1, the version of the layout; its file `lock` belongs to disk_quota.h
  SharedDescriptor blobs;   ///< ab/<64 hex digits>: finished blobs, named by SHA-256
  SharedDescriptor index;   ///< <SHA-256 of a key>: a symbolic link to the blob's digest
  SharedDescriptor making;  ///< <name>.<boot>: written by the holder of its lock
};

using FoldersPtr = std::shared_ptr<const Folders>;

enum class Missing { fail, create };

/// Opens the directories. Fails when one has another owner than this user or root, or is writable by others: they could
/// plant bytes, or names to be removed. Only `top` may be a symbolic link. Fails with not_found when one is missing and
/// `missing` is `fail`.
Result<FoldersPtr> open_folders(const std::string& top, Missing missing);

/// The digest whose hex digits are the name of a file; nothing for other names.
std::optional<Digest> digest_of_name(std::string_view name);

/// The path of a blob in `blobs`, and of the link of a key in `index`.
std::string blob_file(const Digest& digest);
std::string index_link(const std::string& key);
/// The target of a link with the digest of an external file begins so, so that it leads to no blob.
inline constexpr std::string_view kExternalDigest = "elsewhere ";

/// The blobs, and the names of files in blocks/, that the user pinned: names of empty files in v1/pins, which is
/// created with the first pin. Fails when that directory is untrusted or unreadable.
Result<std::set<Digest>> pins(const Folders& folders);
/// Whether this file is pinned: the digest of a blob, or the name of a file in blocks/.
bool is_pinned(const Folders& folders, const Digest& file);
/// Creates or removes a pin; returns whether that changed anything.
Result<bool> add_pin(const Folders& folders, const Digest& digest);
Result<bool> remove_pin(const Folders& folders, const Digest& digest);

/// What a name of a cached file is.
enum class NameKind {
  model,   ///< a source that uses it, as the user named it: an absolute path, or a name such as hf://ORG/REPO
  url,     ///< where it was downloaded from, without a query
  member,  ///< what it was decoded from: a container and the path in it
  record,  ///< a record of weightfs itself: the key of a saved text
  keeper   ///< the command that keeps it also where a decoded form is cached; not for listings
};

/// A name of a blob, or of the ranges of a file on a server.
struct Name {
  NameKind kind;
  std::string text;

  friend bool operator==(const Name&, const Name&) = default;
};

/// The names of a cached file, in v1/names, which is created with the first of them; none if they are missing.
/// `file` is the digest of a blob, or the name of a file in blocks/.
std::vector<Name> names_of(const Folders& folders, const Digest& file);
/// Whether one of them is that of a keeper.
bool is_kept(const Folders& folders, const Digest& file);
/// Replaces them, also by none. Of more than kMaxNamesOfFile or 4000 bytes, the first are dropped. A failure has no
/// effect: they are for listings.
void write_names(const Folders& folders, const Digest& file, const std::vector<Name>& names);
/// Removes them, unless the file is pinned: a pin is still listed and removed by its names.
void remove_names(const Folders& folders, const Digest& file);
/// The mtime of the names is the time of the last use: writes their first byte again, which sets it to now. It is not
/// set as such, because the sandbox permits that for no file. False if there are no names.
bool touch_names(const Folders& folders, const Digest& file);
inline constexpr const char* kNamesFolder = "names";
inline constexpr size_t kMaxNamesOfFile = 16;

/// The beginning of the names of directories that remove_if_no_file() moved to making/.
inline constexpr const char* kOddPrefix = "odd-";

/// Removes what is at `path` in a directory of the cache unless it is a regular file: a FIFO or a link would fail every
/// read of the file that belongs there. A directory is moved to making/; it is swept if it is empty. Returns whether
/// there was such a thing, which is gone.
bool remove_if_no_file(const Folders& folders, const Descriptor& folder, const std::string& path);

/// Whether the blob's file exists.
bool has_blob(const Folders& folders, const Digest& digest);

/// Opens the blob's file for reading; false with errno set on failure. What is no regular file opens without waiting.
Descriptor open_blob(const Folders& folders, const Digest& digest);

/// Removes a blob, its checksums and its names; false with errno set on failure, ENOENT when there is no such blob.
bool unlink_blob(const Folders& folders, const Digest& digest);

/// The path below v1 of the map of a blob (cache/store/side_files.h). The directory is created with the first of them.
std::string sums_file(const Digest& digest);
inline constexpr const char* kSumsFolder = "sums";

/// The folder below v1 of the block lists of blobs that earlier versions saved: a sweep removes it.
inline constexpr const char* kListsFolder = "lists";

/// The path below v1 of the data of which some blocks are cached (cache/blocks/block_file.h), named by the digest of
/// their identity; the map is beside them. The directory is created with the first of them.
std::string blocks_file(const Digest& name);
inline constexpr const char* kBlocksFolder = "blocks";
/// Whether there are such data.
bool has_blocks(const Folders& folders, const Digest& name);
/// Opens the data and the map, O_RDONLY or O_RDWR; null with errno set on failure.
store::CachedFiles open_blocks_files(const Folders& folders, const Digest& name, int mode);
/// Removes both, unless a process holds them and `held` is keep; their readers lose the blocks. Returns the freed disk
/// space, or nothing.
std::optional<uint64_t> remove_blocks(const Folders& folders, const Digest& name, store::BlockFile::Evict which);

/// 16 hex digits that identify the current boot; empty if the system does not provide it. (proc_sys_kernel(5):
/// /proc/sys/kernel/random/boot_id.)
const std::string& boot_id();

/// 16 random hex digits; empty if the system does not provide them.
std::string random_hex();

/// Creates the directory and its missing parents with mode 0700.
Result<void> create_directories(const std::string& path);

/// The target of a symbolic link, at most 128 bytes of it.
std::optional<std::string> link_target(const Descriptor& folder, const std::string& name);

}  // namespace weightfs
