// A floor is the least that a low-level libfuse server can do for one task. What weightfs costs is measured against a
// floor and not against a local file, so that the price of FUSE itself cancels out. This is what the floors share.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

namespace floor_server {

/// A timeout of attributes and entries: every answer of a floor is immutable.
inline constexpr double kForEver = std::numeric_limits<double>::max();

inline constexpr mode_t kDirectory = S_IFDIR | 0555;
inline constexpr mode_t kFile = S_IFREG | 0444;

/// The attributes of the node `ino`.
inline struct stat attributes(fuse_ino_t ino, mode_t mode, off_t size) {
  struct stat attr {};
  attr.st_ino = ino;
  attr.st_mode = mode;
  attr.st_nlink = 1;
  attr.st_size = size;
  return attr;
}

/// A number in decimal; nothing for any other text.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Sets what weightfs sets: with the kernel's default, 12, queued read-ahead waits.
inline void use_background_of_weightfs(fuse_conn_info* connection) { connection->max_background = 1024; }

/// Whether the threads have one descriptor of the device, or one each.
enum class Device { shared, cloned };

/// Mounts, serves with libfuse's own threads (at most ten, as many as weightfs has while requests are short) until the
/// mount is gone or a signal asks to end; the process's exit status. `user` is what fuse_req_userdata gives.
inline int serve(const fuse_lowlevel_ops& operations, void* user, const char* mountpoint,
                 Device device = Device::shared) {
  fuse_args args{};
  for (const char* arg : {"floor", "-oro,fsname=floor,subtype=floor"})
    if (fuse_opt_add_arg(&args, arg) != 0) return 1;
  int status = 1;
  if (fuse_session* session = fuse_session_new(&args, &operations, sizeof operations, user)) {
    if (fuse_set_signal_handlers(session) == 0) {
      if (fuse_session_mount(session, mountpoint) == 0) {
        fuse_loop_config* const threads = fuse_loop_cfg_create();
        fuse_loop_cfg_set_clone_fd(threads, device == Device::cloned ? 1 : 0);
        status = fuse_session_loop_mt(session, threads) < 0 ? 1 : 0;
        fuse_loop_cfg_destroy(threads);
        fuse_session_unmount(session);
      }
      fuse_remove_signal_handlers(session);
    }
    fuse_session_destroy(session);
  }
  fuse_opt_free_args(&args);
  return status;
}

}  // namespace floor_server
