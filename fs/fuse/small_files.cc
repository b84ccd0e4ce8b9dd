#include "fs/fuse/small_files.h"

#include "fs/fuse/interrupts.h"

namespace weightfs::fuse {

bool SmallFiles::is_first_open(Ino ino) {
  const std::scoped_lock lock(mutex_);
  auto opened = opened_[ino / kInodes][ino % kInodes];
  const bool is_first = !opened;
  opened = true;
  return is_first;
}

bool SmallFiles::store(fuse_session* session, Ino ino, std::span<std::byte> bytes) {
  fuse_bufvec all{};
  all.count = 1;
  all.buf[0].size = bytes.size();
  all.buf[0].mem = bytes.data();
  return fuse_lowlevel_notify_store(session, ino, 0, &all, fuse_buf_copy_flags{}) == 0;
}

}  // namespace weightfs::fuse
