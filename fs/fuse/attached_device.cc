#include "fs/fuse/attached_device.h"

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <vector>

#include "fs/fuse/server.h"

namespace weightfs::fuse {

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
namespace {

Passthrough& passthrough_of(void* server) { return static_cast<Server*>(server)->passthrough(); }

ssize_t read_request(int device, void* buffer, size_t size, void* server) {
  const ssize_t got = ::read(device, buffer, size);
  Passthrough& passthrough = passthrough_of(server);
  if (got > 0 && passthrough.expects_init())
    passthrough.inspect_request({static_cast<const std::byte*>(buffer), static_cast<size_t>(got)});
  return got;
}

ssize_t write_reply(int device, iovec* parts, int count, void* server) {
  Passthrough& passthrough = passthrough_of(server);
  if (!passthrough.expects_init()) return ::writev(device, parts, count);
  std::vector<std::byte> reply;
  for (const iovec& part : std::span(parts, static_cast<size_t>(count))) {
    const auto* const begin = static_cast<const std::byte*>(part.iov_base);
    reply.insert(reply.end(), begin, begin + part.iov_len);
  }
  if (const auto completed = passthrough.completed_reply(reply)) reply = *completed;
  return ::write(device, reply.data(), reply.size());
}

}  // namespace
#endif

int attach_device(fuse_session* session, Passthrough& passthrough, int device) {
  passthrough.start(device);
#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
  if (passthrough.expects_init()) {
    fuse_custom_io io{};
    io.read = read_request;
    io.writev = write_reply;
    return fuse_session_custom_io(session, &io, device);
  }
#endif
  // fuse_session_mount interprets a path of this form as a descriptor.
  return fuse_session_mount(session, fmt::format("/dev/fd/{}", device).c_str());
}

}  // namespace weightfs::fuse
