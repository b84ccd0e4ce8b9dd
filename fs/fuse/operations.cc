#include "fs/fuse/operations.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "fs/adapters/error_numbers.h"
#include "fs/fuse/rings.h"

namespace weightfs::fuse {
namespace {

int errno_of(Operation operation, Code code) {
  return weightfs::errno_of(operation == Operation::read ? Failed::read : Failed::lookup, code);
}

Server& server(fuse_req_t request) { return *static_cast<Server*>(fuse_req_userdata(request)); }

// Calls `answer`, which replies on success. An error or exception becomes an error reply; it must not end the mount.
template <class Answer>
void respond(fuse_req_t request, Operation operation, Ino ino, const Answer& answer) {
  Server& s = server(request);  // the request is freed by the reply
  RequestStatistics::Request counted(s.statistics(), operation);
  Result<void> done;
  try {
    done = answer();
    if (!done) s.failed(operation, ino, done.error());
  } catch (const std::bad_alloc&) {
    done = failure(Code::resource, {});
  } catch (const std::exception&) {
    done = failure(Code::io, {});
  }
  if (done) return;
  if (done.error().code != Code::not_found || operation == Operation::read) counted.failed();
  fuse_reply_err(request, errno_of(operation, done.error().code));
}

void init(void* server, fuse_conn_info* connection) {
  static_cast<Server*>(server)->passthrough().request_feature(*connection);
  static_cast<Server*>(server)->rings().request_feature(*connection);
  const auto want = [&](unsigned wanted) { connection->want |= connection->capable & wanted; };
  want(FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPLICIT_INVAL_DATA |
       FUSE_CAP_READDIRPLUS);
  // With it the kernel would request attributes only for the first part of a directory, and after lookups in it.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS_AUTO);
  // With it the kernel would get the attributes again before each read.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
  connection->max_readahead = kReadaheadKiB * 1024;
  // A lower limit would make queued read-ahead wait for slow reads in flight.
  connection->max_background = kMaxThreads;
}

// libfuse 3.14 does not enable FUSE_PARALLEL_DIROPS, so the kernel looks up one name of a directory at a time. A lookup
// therefore does not wait for a size; the kernel gets it later by GETATTR.
fuse_entry_param unsized_entry(const Server& s, Ino ino, const Attributes& attributes) {
  fuse_entry_param entry = s.entry_of(ino, attributes);
  entry.attr_timeout = 0;
  return entry;
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  respond(request, Operation::lookup, parent, [&]() -> Result<void> {
    Server& s = server(request);
    const auto ino = s.interruptible_requests().interruptible(request, [&] { return s.forest().lookup(parent, name); });
    if (!ino) return {};
    const bool is_own_file = s.forest().is_unlisted(parent) || (*ino && s.forest().is_unlisted(**ino));
    if (!is_own_file) s.statistics().used();
    if (!*ino && ino->error().code == Code::not_found) {
      fuse_entry_param absent{};  // inode 0: a negative entry
      absent.entry_timeout = kForever;
      fuse_reply_entry(request, &absent);
      return {};
    }
    const Ino found = TRY(*ino);
    const auto known = s.forest().known_attributes(found);
    const fuse_entry_param entry =
        known ? s.entry_of(found, *known) : unsized_entry(s, found, TRY(s.forest().unsized_attributes(found)));
    const bool is_file = !S_ISDIR(entry.attr.st_mode);
    fuse_reply_entry(request, &entry);
    if (is_file && s.directories().looked_up(parent)) s.forget_listing(parent);
    return {};
  });
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  respond(request, Operation::getattr, ino, [&]() -> Result<void> {
    Server& s = server(request);
    const auto known = s.forest().known_attributes(ino);
    const auto result =
        known ? std::optional<Result<Attributes>>(*known)
              : s.interruptible_requests().interruptible(request, [&] { return s.forest().attributes(ino); });
    if (!result) return {};
    const Attributes attributes = TRY(*result);
    const struct stat status = s.stat_of(ino, attributes);
    fuse_reply_attr(request, &status, timeout_of(attributes));
    return {};
  });
}

void readlink(fuse_req_t request, fuse_ino_t ino) {
  respond(request, Operation::readlink, ino, [&]() -> Result<void> {
    Server& s = server(request);
    const auto text = s.interruptible_requests().interruptible(request, [&] { return s.forest().link(ino); });
    if (!text) return {};
    fuse_reply_readlink(request, TRY(*text).c_str());
    return {};
  });
}

void open(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  respond(request, Operation::open, ino, [&]() -> Result<void> {
    if ((file->flags & O_ACCMODE) != O_RDONLY) {
      fuse_reply_err(request, EROFS);
      return {};
    }
    Server& s = server(request);
    auto opened = s.interruptible_requests().interruptible(request, [&] { return s.open(ino); });
    if (!opened) return {};
    auto handle = TRY(std::move(*opened));
    const Tier tier = handle->inode == nullptr ? Tier{} : Passthrough::tier(*handle->inode);
    const bool keeps_pages = handle->file.keeps_pages();
    file->fh = s.add(std::move(handle));
    // Dynamic files bypass the page cache.
    const bool live = s.forest().is_dynamic(ino);
    file->direct_io = live ? 1 : 0;
    file->keep_cache = !live && keeps_pages ? 1 : 0;
    file->noflush = 1;
    // An open that was interrupted is never released.
    if (reply_open(request, *file, tier) != 0) s.close(file->fh);
    return {};
  });
}

void release(fuse_req_t request, fuse_ino_t ino, fuse_file_info* file) {
  respond(request, Operation::release, ino, [&]() -> Result<void> {
    server(request).close(file->fh);
    fuse_reply_err(request, 0);
    return {};
  });
}

// The kernel has failed a reply with mapped bytes with EIO: the file was cut, or its disk failed. A read finds the
// reason. The request has its reply, so no error may lead to another one.
void log_failed_copy(Server& s, OpenFile::Read& read) {
  try {
    if (const auto again = read.read_again(); !again) s.log(Operation::read, again.error());
  } catch (const std::bad_alloc&) {
    // The next read logs it.
  }
}

void read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info* file) {
  respond(request, Operation::read, ino, [&]() -> Result<void> {
    Server& s = server(request);
    // The kernel may release the file after the reply, which is not the end of the work.
    const HandlePtr handle = reinterpret_cast<Handle*>(file->fh)->shared_from_this();
    KilledReader killed(fuse_req_ctx(request)->pid);
    const CancelScope scope(std::ref(killed));
    const bool is_released = size >= kLargeRead && s.is_memory_short();
    OpenFile::Read read(handle->file, static_cast<uint64_t>(offset), size, is_released ? Pages::released : Pages::kept);
    const auto bytes = read.bytes(payload_of(request));
    if (!bytes && is_cancelled()) {
      fuse_reply_err(request, EINTR);
      return {};
    }
    TRY_VOID(bytes);
    if (handle->is_counted) s.statistics().add_bytes_read(bytes->size());
    const int sent = fuse_reply_buf(request, reinterpret_cast<const char*>(bytes->data()), bytes->size());
    if (sent == -EFAULT) log_failed_copy(s, read);
    read.finish();
    return {};
  });
}

// With ENOSYS the kernel caches listings and sends no OPENDIR and RELEASEDIR any more.
void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  const DirectoryPart part{ino, offset, size};
  Server& s = server(request);
  std::optional<Entries> entries;
  respond(request, Operation::readdirplus, part.directory, [&]() -> Result<void> {
    if (!s.forest().is_unlisted(part.directory)) s.statistics().used();
    auto read = s.interruptible_requests().interruptible(request, [&] { return s.directories().read(part); });
    if (!read) return {};
    entries = TRY(std::move(*read));
    fuse_reply_buf(request, entries->bytes().data(), entries->bytes().size());
    return {};
  });
  if (entries) s.directories().read_next(part, *entries);
}

void statfs(fuse_req_t request, fuse_ino_t ino) {
  respond(request, Operation::statfs, ino, [&]() -> Result<void> {
    const Forest& forest = server(request).forest();
    struct statvfs out {};
    out.f_bsize = out.f_frsize = kBlock;
    out.f_blocks = (forest.container_bytes() + out.f_frsize - 1) / out.f_frsize;
    // Neither f_files nor f_bfree is set: no space and no inodes of which some could be used up.
    out.f_namemax = kMaxComponentLength;
    fuse_reply_statfs(request, &out);
    return {};
  });
}

// getxattr(2), listxattr(2): size 0 requests the length.
void reply_xattr(fuse_req_t request, std::string_view bytes, size_t size) {
  if (size == 0) {
    fuse_reply_xattr(request, bytes.size());
  } else if (bytes.size() > size) {
    fuse_reply_err(request, ERANGE);
  } else {
    fuse_reply_buf(request, bytes.data(), bytes.size());
  }
}

// The kernel does not cache replies to GETXATTR. After EOPNOTSUPP for security labels and access control lists, ls(1),
// cp(1) and others do not ask for them again on the same device; after ENODATA they ask for every file.
void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
  respond(request, Operation::getxattr, ino, [&]() -> Result<void> {
    if (!std::string_view(name).starts_with(kXattrNamespace)) {
      fuse_reply_err(request, EOPNOTSUPP);
      return {};
    }
    Server& s = server(request);
    const auto xattrs = s.interruptible_requests().interruptible(request, [&] { return s.forest().xattrs(ino); });
    if (!xattrs) return {};
    const std::vector<Xattr> all = TRY(*xattrs);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Xattr& x) { return x.first == name; });
    if (found == all.end()) {
      fuse_reply_err(request, ENODATA);
    } else {
      reply_xattr(request, found->second, size);
    }
    return {};
  });
}

void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
  respond(request, Operation::listxattr, ino, [&]() -> Result<void> {
    Server& s = server(request);
    const auto xattrs = s.interruptible_requests().interruptible(request, [&] { return s.forest().xattrs(ino); });
    if (!xattrs) return {};
    std::string keys;
    for (const auto& [key, value] : TRY(*xattrs)) keys += key + '\0';
    reply_xattr(request, keys, size);
    return {};
  });
}

}  // namespace

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.lookup = lookup;
  ops.getattr = getattr;
  ops.readlink = readlink;
  ops.open = open;
  ops.read = read;
  ops.release = release;
  ops.opendir = opendir;
  ops.readdirplus = readdirplus;
  ops.statfs = statfs;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
  return ops;
}

}  // namespace weightfs::fuse
