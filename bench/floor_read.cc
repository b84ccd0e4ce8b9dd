// floor_read: the fastest plain way to show a range of a local file as a file. One file, `data`, is answered by pread
// into a buffer that each thread keeps; with --splice by passing the descriptor to libfuse, with --map out of a mapping
// of the file. With --clone-fd each thread has its own descriptor of /dev/fuse. With --parts there are N files of equal
// size, `0` to `N-1`, which share the range. The kernel caches the files for as long as they are mounted.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "bench/floor.h"

namespace {

using namespace floor_server;

enum class Reply { buffer, splice, map };

struct Range {
  int fd;
  off_t offset;
  off_t size;  // of each part
  Reply reply;
  const char* mapped;  // the file, for Reply::map
  fuse_ino_t parts;    // 0: the file `data`
};

constexpr fuse_ino_t kData = 2;  // and the next ones, of further parts

const Range& range_of(fuse_req_t request) { return *static_cast<const Range*>(fuse_req_userdata(request)); }

// Without asking, an fd reply is copied twice.
void init(void* user, fuse_conn_info* connection) {
  use_background_of_weightfs(connection);
  if (static_cast<const Range*>(user)->reply == Reply::splice)
    connection->want |= connection->capable & (FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const Range& range = range_of(request);
  const auto part = range.parts > 0                  ? number<fuse_ino_t>(name)
                    : std::strcmp(name, "data") == 0 ? std::optional(0UL)
                                                     : std::nullopt;
  if (parent != FUSE_ROOT_ID || !part || *part >= std::max<fuse_ino_t>(range.parts, 1)) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = kData + *part;
  entry.attr = attributes(entry.ino, kFile, range.size);
  entry.attr_timeout = entry.entry_timeout = kForEver;
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
  const bool data = ino >= kData;
  const struct stat attr = attributes(ino, data ? kFile : kDirectory, data ? range_of(request).size : 0);
  fuse_reply_attr(request, &attr, kForEver);
}

void open_data(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  file->keep_cache = 1;
  file->noflush = 1;
  fuse_reply_open(request, file);
}

void reply_buffer(fuse_req_t request, int fd, size_t size, off_t offset) {
  thread_local std::vector<char> buffer;
  if (buffer.size() < size) buffer.resize(size);
  const ssize_t got = pread(fd, buffer.data(), size, offset);
  if (got < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_buf(request, buffer.data(), static_cast<size_t>(got));
  }
}

void reply_splice(fuse_req_t request, int fd, size_t size, off_t offset) {
  fuse_bufvec reply{};
  reply.count = 1;
  reply.buf[0].size = size;
  reply.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
  reply.buf[0].fd = fd;
  reply.buf[0].pos = offset;
  fuse_reply_data(request, &reply, FUSE_BUF_SPLICE_MOVE);
}

void reply_mapped(fuse_req_t request, size_t size, off_t offset) {
  fuse_reply_buf(request, range_of(request).mapped + offset, size);
}

void read_data(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
  const Range& range = range_of(request);
  const off_t left = std::max<off_t>(range.size - offset, 0);
  const size_t wanted = std::min(size, static_cast<size_t>(left));
  const off_t begin = range.offset + static_cast<off_t>(ino - kData) * range.size + offset;
  switch (range.reply) {
    case Reply::buffer:
      return reply_buffer(request, range.fd, wanted, begin);
    case Reply::splice:
      return reply_splice(request, range.fd, wanted, begin);
    case Reply::map:
      return reply_mapped(request, wanted, begin);
  }
}

int usage() {
  std::fputs("usage: floor_read [--splice|--map] [--clone-fd] [--parts N] FILE OFFSET SIZE MOUNTPOINT\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  char** operands = argv + 1;
  const auto has_option = [&](const char* option) {
    const bool has = operands < argv + argc && std::strcmp(*operands, option) == 0;
    operands += has ? 1 : 0;
    return has;
  };
  const Reply reply = has_option("--splice") ? Reply::splice : has_option("--map") ? Reply::map : Reply::buffer;
  const Device device = has_option("--clone-fd") ? Device::cloned : Device::shared;
  std::optional<fuse_ino_t> parts = 0;
  if (has_option("--parts") && operands < argv + argc) parts = number<fuse_ino_t>(*operands++);
  if (argv + argc - operands != 4 || !parts) return usage();
  const auto offset = number<off_t>(operands[1]);
  const auto size = number<off_t>(operands[2]);
  if (!offset || !size) return usage();
  const int fd = ::open(operands[0], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    std::perror(operands[0]);
    return 1;
  }
  Range range{fd, *offset, *size / static_cast<off_t>(std::max<fuse_ino_t>(*parts, 1)), reply, nullptr, *parts};
  if (reply == Reply::map) {
    void* const mapped = ::mmap(nullptr, static_cast<size_t>(*offset + *size), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
      std::perror("mmap");
      return 1;
    }
    range.mapped = static_cast<const char*>(mapped);
  }
  fuse_lowlevel_ops operations{};
  operations.init = init;
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.open = open_data;
  operations.read = read_data;
  return serve(operations, &range, operands[3], device);
}
