// floor_names: the fastest plain way to list a great many names. Its root directory holds COUNT files whose names are
// made up while they are listed (those of `containers.py big-names`); the kernel keeps the listing.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/floor.h"

namespace {

using namespace floor_server;

void append(std::string& text, uint64_t number) {
  std::array<char, std::numeric_limits<uint64_t>::digits10 + 1> digits;
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

/// Makes up the name of the file `index` as tests/support/containers.py does: "layers.650.experts.511.down.weight".
void make_name(uint64_t index, std::string& name) {
  static constexpr std::array<std::string_view, 3> kProjections{"down", "gate", "up"};
  static constexpr uint64_t kExperts = 512;
  const uint64_t matrix = index / kProjections.size();
  name.assign("layers.");
  append(name, matrix / kExperts);
  name.append(".experts.");
  append(name, matrix % kExperts);
  name.append(".").append(kProjections[index % kProjections.size()]).append(".weight");
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  const struct stat attr = attributes(ino, ino == FUSE_ROOT_ID ? kDirectory : kFile, 0);
  fuse_reply_attr(request, &attr, kForEver);
}

void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info* directory) {
  directory->cache_readdir = 1;
  directory->keep_cache = 1;
  fuse_reply_open(request, directory);
}

void readdir(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info*) {
  const uint64_t count = *static_cast<const uint64_t*>(fuse_req_userdata(request));
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  thread_local std::string name;
  size_t used = 0;
  for (uint64_t index = static_cast<uint64_t>(offset); index < count; ++index) {
    make_name(index, name);
    const struct stat attr = attributes(FUSE_ROOT_ID + 1 + index, kFile, 0);
    const size_t needed = fuse_add_direntry(request, buffer.data() + used, size - used, name.c_str(), &attr,
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
    std::fputs("usage: floor_names COUNT MOUNTPOINT\n", stderr);
    return 2;
  }
  fuse_lowlevel_ops operations{};
  operations.getattr = getattr;
  operations.opendir = opendir;
  operations.readdir = readdir;
  return serve(operations, &*count, argv[2]);
}
