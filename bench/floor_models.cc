// floor_models: the fastest plain way to list many small directories. Its root directory holds COUNT directories of the
// shape of a model with one tensor: three files beside five directories of one file each. The kernel keeps the listings
// and attributes.
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/floor.h"

namespace {

using namespace floor_server;

// Inode numbers: kEach for each model. The first is that of its directory, then those of its directories, of their
// files, and of its own files.
constexpr fuse_ino_t kEach = 16;
constexpr fuse_ino_t kFolders = 5;
constexpr fuse_ino_t kFiles = 3;

uint64_t count_of(fuse_req_t request) { return *static_cast<const uint64_t*>(fuse_req_userdata(request)); }

struct stat attributes_of(fuse_ino_t ino) {
  return attributes(ino, ino == FUSE_ROOT_ID || ino % kEach <= kFolders ? kDirectory : kFile, 0);
}

fuse_entry_param entry_of(fuse_ino_t ino) {
  fuse_entry_param entry{};
  entry.ino = ino;
  entry.attr = attributes_of(ino);
  entry.attr_timeout = entry.entry_timeout = kForEver;
  return entry;
}

void init(void*, fuse_conn_info* connection) {
  use_background_of_weightfs(connection);
  // All entries have attributes.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS_AUTO);
}

/// find(1) looks up nothing but what it was given.
void lookup(fuse_req_t request, fuse_ino_t, const char*) { fuse_reply_err(request, ENOENT); }

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  const struct stat attr = attributes_of(ino);
  fuse_reply_attr(request, &attr, kForEver);
}

/// The kernel opens directories without a request.
void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info*) { fuse_reply_err(request, ENOSYS); }

/// The child `index` of a directory, 0 after the last.
fuse_ino_t child(fuse_ino_t directory, uint64_t index, uint64_t count) {
  if (directory == FUSE_ROOT_ID) return index < count ? kEach * (index + 1) : 0;
  if (directory % kEach != 0) return index < 1 ? directory + kFolders : 0;
  if (index < kFolders) return directory + 1 + index;
  return index < kFolders + kFiles ? directory + 1 + kFolders + index : 0;
}

void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  size_t used = 0;
  for (auto index = static_cast<uint64_t>(offset);; ++index) {
    const fuse_ino_t next = child(ino, index, count_of(request));
    if (next == 0) break;
    const fuse_entry_param entry = entry_of(next);
    const std::string name = "layers.0.experts." + std::to_string(next);
    const size_t needed = fuse_add_direntry_plus(request, buffer.data() + used, size - used, name.c_str(), &entry,
                                                 static_cast<off_t>(index + 1));
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<uint64_t> count;
  if (argc == 3) count = number<uint64_t>(argv[1]);
  if (!count) {
    std::fputs("usage: floor_models COUNT MOUNTPOINT\n", stderr);
    return 2;
  }
  fuse_lowlevel_ops operations{};
  operations.init = init;
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.opendir = opendir;
  operations.readdirplus = readdirplus;
  return serve(operations, &*count, argv[2]);
}
