// floor_names: the fastest plain way to list a great many names. Its root directory holds COUNT files of SIZE bytes,
// all zero. Their names are made up while they are listed (those of `containers.py big-names`); the kernel keeps the
// listing, the attributes and the bytes. With --no-open the kernel opens files without a request.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/floor.h"

namespace {

using namespace floor_server;

struct Files {
  uint64_t count;
  off_t size;
  bool without_open;
};

const Files& files_of(fuse_req_t request) { return *static_cast<const Files*>(fuse_req_userdata(request)); }

constexpr std::array<std::string_view, 3> kProjections{"down", "gate", "up"};
constexpr uint64_t kExperts = 512;

void append(std::string& text, uint64_t number) {
  std::array<char, std::numeric_limits<uint64_t>::digits10 + 1> digits;
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

/// Makes up the name of the file `index` as tests/support/containers.py does: "layers.650.experts.511.down.weight".
void make_name(uint64_t index, std::string& name) {
  const uint64_t matrix = index / kProjections.size();
  name.assign("layers.");
  append(name, matrix / kExperts);
  name.append(".experts.");
  append(name, matrix % kExperts);
  name.append(".").append(kProjections[index % kProjections.size()]).append(".weight");
}

/// The index of the file with this name; the count of files if there is none.
uint64_t index_of(std::string_view name, uint64_t count) {
  std::array<std::string_view, 6> parts;  // layers, 650, experts, 511, down, weight
  for (std::string_view& part : parts) {
    part = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  const auto layer = number<uint64_t>(parts[1]);
  const auto expert = number<uint64_t>(parts[3]);
  const auto projection = std::find(kProjections.begin(), kProjections.end(), parts[4]);
  if (!layer || !expert || projection == kProjections.end()) return count;
  const uint64_t matrix = *layer * kExperts + *expert;
  return std::min(count, matrix * kProjections.size() + static_cast<uint64_t>(projection - kProjections.begin()));
}

void init(void*, fuse_conn_info* connection) {
  use_background_of_weightfs(connection);
  // All entries have attributes.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS_AUTO);
}

fuse_entry_param entry_of(uint64_t index, off_t size) {
  fuse_entry_param entry{};
  entry.ino = FUSE_ROOT_ID + 1 + index;
  entry.attr = attributes(entry.ino, kFile, size);
  entry.attr_timeout = entry.entry_timeout = kForEver;
  return entry;
}

void lookup(fuse_req_t request, fuse_ino_t, const char* name) {
  const Files& files = files_of(request);
  const uint64_t index = index_of(name, files.count);
  if (index == files.count) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const fuse_entry_param entry = entry_of(index, files.size);
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  const bool root = ino == FUSE_ROOT_ID;
  const struct stat attr = attributes(ino, root ? kDirectory : kFile, root ? 0 : files_of(request).size);
  fuse_reply_attr(request, &attr, kForEver);
}

void opendir(fuse_req_t request, fuse_ino_t, fuse_file_info* directory) {
  directory->cache_readdir = 1;
  directory->keep_cache = 1;
  fuse_reply_open(request, directory);
}

void readdirplus(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info*) {
  const Files& files = files_of(request);
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  thread_local std::string name;
  size_t used = 0;
  for (uint64_t index = static_cast<uint64_t>(offset); index < files.count; ++index) {
    make_name(index, name);
    const fuse_entry_param entry = entry_of(index, files.size);
    const size_t needed = fuse_add_direntry_plus(request, buffer.data() + used, size - used, name.c_str(), &entry,
                                                 static_cast<off_t>(index + 1));
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void open_file(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  if (files_of(request).without_open) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  file->keep_cache = 1;
  file->noflush = 1;
  fuse_reply_open(request, file);
}

void read_file(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info*) {
  static const std::vector<char> zeros(1 << 20);
  const auto left = static_cast<size_t>(std::max<off_t>(files_of(request).size - offset, 0));
  fuse_reply_buf(request, zeros.data(), std::min({size, left, zeros.size()}));
}

}  // namespace

int main(int argc, char** argv) {
  const bool without_open = argc == 5 && std::strcmp(argv[1], "--no-open") == 0;
  char** const operands = argv + (without_open ? 2 : 1);
  std::optional<uint64_t> count;
  std::optional<off_t> size;
  if (argv + argc - operands == 3) {
    count = number<uint64_t>(operands[0]);
    size = number<off_t>(operands[1]);
  }
  if (!count || !size) {
    std::fputs("usage: floor_names [--no-open] COUNT SIZE MOUNTPOINT\n", stderr);
    return 2;
  }
  Files files{*count, *size, without_open};
  fuse_lowlevel_ops operations{};
  operations.init = init;
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.opendir = opendir;
  operations.readdirplus = readdirplus;
  operations.open = open_file;
  operations.read = read_file;
  return serve(operations, &files, operands[2]);
}
